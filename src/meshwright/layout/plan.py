"""Plan: one layout of a training job over the ranks of a cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Self


class Recompute(IntEnum):
    """What the backward pass computes again instead of keeping it."""

    NONE = 0
    SELECTIVE = 1
    """The attention core (Korthikanti et al., arXiv:2205.05198)."""
    FULL = 2
    """Every layer, from its input."""


class Schedule(IntEnum):
    """The order in which a pipeline stage works on its micro-batches."""

    ONE_F_ONE_B = 0
    INTERLEAVED = 1


SCHEDULE_NAMES = {Schedule.ONE_F_ONE_B: "1f1b", Schedule.INTERLEAVED: "interleaved"}
RECOMPUTE_NAMES = {kind: kind.name.lower() for kind in Recompute}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One layout. Its fields are the keys of the plan file, and the columns of `Plans`."""

    tp: int = 1
    """Tensor-parallel degree."""
    sp: bool = False
    """Sequence parallel: norms and residuals are split over tp as well."""
    cp: int = 1
    """Context-parallel degree."""
    pp: int = 1
    """Pipeline-parallel degree (stages)."""
    vpp: int = 1
    """Chunks of layers on each pipeline rank."""
    dp: int = 1
    """Data-parallel degree, without cp."""
    ep: int = 1
    """Expert-parallel degree."""
    etp: int = 1
    """Tensor-parallel degree of the experts."""
    zero: int = 0
    """ZeRO stage of the data-parallel group."""
    micro_batch: int = 1
    """Sequences in one micro-batch of one data-parallel rank."""
    num_microbatches: int = 1
    """Micro-batches per data-parallel rank in one step."""
    recompute: Recompute = Recompute.NONE
    schedule: Schedule = Schedule.ONE_F_ONE_B

    @property
    def num_gpus(self) -> int:
        """Ranks: the product of the degrees; ep and etp fold into dp, cp and tp."""
        return self.tp * self.cp * self.pp * self.dp

    def to_dict(self) -> dict[str, Any]:
        """The fields as they stand in a plan file."""
        names = {"recompute": RECOMPUTE_NAMES[self.recompute], "schedule": SCHEDULE_NAMES[self.schedule]}
        return asdict(self) | names

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        recompute = {name: code for code, name in RECOMPUTE_NAMES.items()}[fields["recompute"]]
        schedule = {name: code for code, name in SCHEDULE_NAMES.items()}[fields["schedule"]]
        return cls(**(fields | {"recompute": recompute, "schedule": schedule}))

    def __str__(self) -> str:
        """As people write it: `tp8 sp pp2 vpp4 dp4 zero1 mbs1 x 64`."""
        degrees = [f"tp{self.tp}", "sp" if self.sp else "", f"pp{self.pp}", f"vpp{self.vpp}" if self.vpp > 1 else ""]
        rest = [f"dp{self.dp}", f"zero{self.zero}", f"mbs{self.micro_batch}", f"m{self.num_microbatches}"]
        recompute = f"recompute-{RECOMPUTE_NAMES[self.recompute]}" if self.recompute else ""
        return " ".join(part for part in (*degrees, *rest, recompute) if part)
