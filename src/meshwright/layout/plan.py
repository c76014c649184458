"""Plan: one layout of a training job over the ranks of a cluster."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any, Self

from meshwright.errors import Fault, InvalidSpec, quoted


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
    """One layout. Its fields are the keys of the plan file, and the columns of `Plans`.

    Raises `InvalidSpec` for a value of the wrong kind. `recompute` and `schedule` may be given by name.

    >>> print(Plan(tp=8, sp=True, recompute="full"))
    tp8 sp pp1 dp1 zero0 mbs1 m1 recompute-full
    """

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
    embedding_as_layer: bool = False
    """The pipeline split counts the embedding as a layer: the first chunk holds one layer fewer."""
    head_as_layer: bool = False
    """The pipeline split counts the head as a layer: the last chunk holds one layer fewer."""
    recompute: Recompute = Recompute.NONE
    schedule: Schedule = Schedule.ONE_F_ONE_B

    def __post_init__(self) -> None:
        faults = []
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind:
                try:
                    object.__setattr__(self, name, _read(kind, value))
                except (KeyError, TypeError, ValueError):
                    faults.append(Fault(name, f"must be {_wanted(kind)} (given: {quoted(value)})"))
        if faults:
            raise InvalidSpec("the plan", faults)

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
        return cls(**fields)

    def __str__(self) -> str:
        """As people write it: `tp8 sp pp2 vpp4 dp4 zero1 mbs1 m64`."""
        degrees = [f"tp{self.tp}", "sp" if self.sp else "", f"pp{self.pp}", f"vpp{self.vpp}" if self.vpp > 1 else ""]
        ends = {(True, True): "ends-as-layers", (True, False): "embedding-as-layer", (False, True): "head-as-layer"}
        degrees.append(ends.get((self.embedding_as_layer, self.head_as_layer), ""))
        rest = [f"dp{self.dp}", f"zero{self.zero}", f"mbs{self.micro_batch}", f"m{self.num_microbatches}"]
        recompute = f"recompute-{RECOMPUTE_NAMES[self.recompute]}" if self.recompute else ""
        return " ".join(part for part in (*degrees, *rest, recompute) if part)


_KINDS: dict[str, type] = {field.name: type(field.default) for field in fields(Plan)}
_NAMES: dict[type, dict[Any, str]] = {Recompute: {**RECOMPUTE_NAMES}, Schedule: {**SCHEDULE_NAMES}}


def _read(kind: type, value: Any) -> Any:
    """A value as its field holds it; raises `KeyError`, `TypeError` or `ValueError` where it is none."""
    if kind is bool or isinstance(value, bool):
        raise TypeError
    if kind in _NAMES and isinstance(value, str):
        return {name: code for code, name in _NAMES[kind].items()}[value]
    return kind(operator.index(value))


def _wanted(kind: type) -> str:
    if kind in _NAMES:
        return f"one of {', '.join(_NAMES[kind].values())}"
    return "True or False" if kind is bool else "a whole number"
