"""Plan: one layout of a training job over the ranks of a cluster."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, Self

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.reprs import call_of
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.choices import CHOICES, CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, ContextExchange, Recompute
from meshwright.specs.recompute_modules import RecomputeModules, modules_of, names_of

USUAL = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
"""Schedules that need no name beside vpp."""
FULLY_SHARDED = 3
"""The stage of ZeRO that shards weights too."""
MAX_COUNT = 2**31 - 1
"""Of every whole number of a plan, so that the product of two fits in 64 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One layout. Its fields are the keys of the plan file, and the columns of `Plans`.

    Raises `InvalidSpec` for a value of the wrong kind. `recompute` and `schedule` may be given by name,
    `recompute_modules` by a list of names.

    >>> print(Plan(tp=8, sp=True, recompute="full"))
    tp8 sp pp1 dp1 zero0 mbs1 m1 recompute-full
    """

    tp: int = 1
    """Tensor-parallel degree."""
    sp: bool = False
    """Sequence parallel: norms and residuals are split over tp as well."""
    cp: int = 1
    """Context-parallel degree."""
    context_exchange: ContextExchange = ContextExchange.RING
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
    """ZeRO stage: what the ranks of one sharding group divide among themselves."""
    dp_replicate: int = 1
    """Replicas of the sharding group: ZeRO divides over dp x cp / dp_replicate ranks (hybrid sharding, HSDP)."""
    micro_batch: int = 1
    """Sequences in one micro-batch of one data-parallel rank."""
    num_microbatches: int = 1
    """Micro-batches per data-parallel rank in one step."""
    embedding_as_layer: bool = False
    """The pipeline split counts the embedding as a layer: the first chunk holds one layer fewer."""
    head_as_layer: bool = False
    """The pipeline split counts the head as a layer: the last chunk holds one layer fewer."""
    first_stage_layers: int = 0
    """Layers of the first pipeline rank, over all its chunks; 0: as the runtime splits."""
    last_stage_layers: int = 0
    """Layers of the last pipeline rank, over all its chunks; 0: as the runtime splits."""
    chunk_layers: tuple[int, ...] = ()
    """Layers of every chunk, in the order of the model; none: as the runtime splits."""
    microbatch_group: int = 0
    """Micro-batches that a chunk works on before the next chunk does; 0: equal groups of pp or more."""
    recompute: Recompute = Recompute.NONE
    recompute_modules: RecomputeModules = RecomputeModules.CORE_ATTENTION
    """What selective recomputation computes again; without it, nothing."""
    recompute_layers: int = 0
    """Layers of every chunk, its first ones, that full recomputation computes again; 0: all."""
    schedule: Schedule = Schedule.ONE_F_ONE_B

    def __post_init__(self) -> None:
        faults = []
        for name, kind in KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind or kind is tuple or (isinstance(value, int) and abs(value) > MAX_COUNT):
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

    @property
    def global_batch(self) -> int:
        """Sequences in one optimizer step."""
        return self.micro_batch * self.dp * self.num_microbatches

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some fields.

        >>> print(Plan(tp=8, sp=True).replace(dp=2))
        tp8 sp pp1 dp2 zero0 mbs1 m1
        """
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields as they stand in a plan file."""
        return {name: _written(kind, getattr(self, name)) for name, kind in KINDS.items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**fields)

    def __repr__(self) -> str:
        """The call that makes it: the fields that are not as by default."""
        fields = self.to_dict()
        return call_of("Plan", {name: fields[name] for name in KINDS if getattr(self, name) != DEFAULTS[name]})

    def __str__(self) -> str:
        """As people write it: `tp8 sp pp2 vpp4 dp4 zero1 mbs1 m64`."""
        exchange = f"cp{self.cp} {CONTEXT_EXCHANGE_NAMES[self.context_exchange].replace('_', '-')}"
        degrees = [f"tp{self.tp}", "sp" if self.sp else "", exchange if self.cp > 1 else ""]
        degrees += [f"ep{self.ep}" if self.ep > 1 else "", f"etp{self.etp}" if self.etp > 1 else ""]
        degrees += [f"pp{self.pp}", f"vpp{self.vpp}" if self.vpp > 1 else ""]
        ends = {(True, True): "ends-as-layers", (True, False): "embedding-as-layer", (False, True): "head-as-layer"}
        degrees.append(ends.get((self.embedding_as_layer, self.head_as_layer), ""))
        degrees += [f"first{self.first_stage_layers}" if self.first_stage_layers else ""]
        degrees += [f"last{self.last_stage_layers}" if self.last_stage_layers else ""]
        degrees += [f"chunks({in_runs(self.chunk_layers)})" if self.chunk_layers else ""]
        replicas = f"replicate{self.dp_replicate}" if self.dp_replicate > 1 else ""
        rest = [f"dp{self.dp}", f"zero{self.zero}", replicas, f"mbs{self.micro_batch}", f"m{self.num_microbatches}"]
        rest += [f"group{self.microbatch_group}" if self.microbatch_group else ""]
        rest += ["" if self.schedule in USUAL else SCHEDULE_NAMES[self.schedule]]
        return " ".join(part for part in (*degrees, *rest, self._recompute_words()) if part)

    def _recompute_words(self) -> str:
        if self.recompute == Recompute.NONE:
            return ""
        plain = self.recompute == Recompute.FULL or self.recompute_modules == RecomputeModules.CORE_ATTENTION
        modules = "" if plain else f"({','.join(names_of(self.recompute_modules))})"
        modules += f"({self.recompute_layers} a chunk)" if self.recompute_layers else ""
        return f"recompute-{RECOMPUTE_NAMES[self.recompute]}{modules}"


def in_runs(sizes: tuple[int, ...]) -> str:
    """Numbers in a line, a run of equal ones as `2*35`.

    >>> in_runs((4, 5, 5, 4))
    '4,5*2,4'
    """
    runs = ((size, len(list(run))) for size, run in groupby(sizes))
    return ",".join(f"{size}*{count}" if count > 1 else str(size) for size, count in runs)


DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Plan)}
KINDS: dict[str, type] = {name: type(value) for name, value in DEFAULTS.items()}
"""Of the value of every field."""
_NAMES = {type(DEFAULTS[name]): names for name, names in CHOICES.items()}


def _read(kind: type, value: Any) -> Any:
    """A value as its field holds it; raises `KeyError`, `TypeError` or `ValueError` where it is none."""
    if kind is bool or isinstance(value, bool):
        raise TypeError
    if kind is RecomputeModules and isinstance(value, list | tuple):
        return modules_of(value)
    if kind is tuple:
        return tuple(int(_read(int, each)) for each in [*value])
    if kind in _NAMES and kind is not RecomputeModules and isinstance(value, str):
        return {name: code for code, name in _NAMES[kind].items()}[value]
    number = operator.index(value)
    if abs(number) > MAX_COUNT:
        raise ValueError
    return kind(number)


def _written(kind: type, value: Any) -> Any:
    """A value as it stands in a plan file."""
    if kind is RecomputeModules:
        return names_of(value)
    return [*value] if kind is tuple else _NAMES.get(kind, {}).get(value, value)


def _wanted(kind: type) -> str:
    if kind is RecomputeModules:
        return f"a list of {', '.join(_NAMES[kind].values())}"
    if kind in _NAMES:
        return f"one of {', '.join(_NAMES[kind].values())}"
    if kind is tuple:
        return f"a list of whole numbers of at most {MAX_COUNT}"
    return "True or False" if kind is bool else f"a whole number of at most {MAX_COUNT}"
