"""Constraints: which values the axes of a plan may take, where a question says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, field_validator, model_serializer

from meshwright.errors import quoted
from meshwright.specs.base import Spec
from meshwright.specs.choices import CHOICES, RECOMPUTE_NAMES
from meshwright.specs.runtime import Runtime

MOST_VALUES = 1 << 16
"""Of one axis."""
NAMES_OF = {
    "recompute": "recompute",
    "recompute_modules": "recompute_modules",
    "schedule": "schedules",
    "context_exchange": "context_exchanges",
}
"""By constraint, what a runtime has of it."""
ABOUT = {
    "sp": "it is for plans with tp 2 or more",
    "context_exchange": "it is for plans with cp 2 or more",
    "schedule": "it is for plans with pp 2 or more",
    "recompute_modules": "it is for plans with selective recomputation",
    "zero": "it is for plans with dp or cp 2 or more",
}
"""By constraint that not every plan is about, which plans are."""


def _whole_numbers(value: Any) -> Any:
    """Numbers as a list, from one, from a list or from a text such as `1,2,4` or `1-4`."""
    if isinstance(value, str):
        return tuple(number for part in value.split(",") for number in _range(part, value))
    return value if isinstance(value, bool) or not isinstance(value, int) else (value,)


def _range(part: str, whole: str) -> Iterable[int]:
    first, dash, last = (piece.strip() for piece in part.partition("-"))
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 2 * len(str(MOST_VALUES)):
        raise ValueError(f"{quoted(whole)} is no list of whole numbers; write them as 8, 1,2,4 or 1-4")
    end = int(last) if dash else int(first)
    if int(first) > end or end - int(first) >= MOST_VALUES:
        raise ValueError(f"{quoted(part.strip())} holds no numbers or too many; write the smaller one first, as 1-4")
    return range(int(first), end + 1)


def _names(value: Any) -> Any:
    """Names as a list, from a list or from a text such as `none,selective`."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip().lower() for name in value.split(","))


Degrees = Annotated[
    tuple[Annotated[int, Field(ge=1, strict=True)], ...], Field(min_length=1), BeforeValidator(_whole_numbers)
]
Stages = Annotated[
    tuple[Annotated[int, Field(ge=0, le=3, strict=True)], ...], Field(min_length=1), BeforeValidator(_whole_numbers)
]
Names = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_names)]


class Constraints(Spec):
    """What a search may choose: of every axis the values that are allowed; None: all.

    A number, a list of them or a text such as `1,2,4` or `1-4` says which.

    >>> Constraints(tp=8, pp="1,2,4", recompute="none").given
    {'tp': (8,), 'pp': (1, 2, 4), 'recompute': ('none',)}
    """

    called: ClassVar[str] = "a constraint on plans"

    tp: Degrees | None = None
    cp: Degrees | None = None
    pp: Degrees | None = None
    vpp: Degrees | None = None
    dp: Degrees | None = None
    ep: Degrees | None = None
    etp: Degrees | None = None
    zero: Stages | None = None
    """Of plans with two data-parallel ranks or more; on one there is nothing to divide."""
    micro_batch: Degrees | None = None
    recompute: Names | None = None
    recompute_modules: Names | None = None
    """Of plans with selective recomputation: what they may compute again."""
    schedule: Names | None = None
    """Of plans with a pipeline."""
    context_exchange: Names | None = None
    """Of plans with cp 2 or more."""
    sp: Annotated[bool, Field(strict=True)] | None = None
    """Of plans with tp 2 or more: with sequence parallelism, or without."""
    even_chunks: bool = False
    """All chunks hold as many layers, embedding and head counted where the plan counts them."""
    max_nodes_per_tp: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Nodes that one tensor-parallel group may touch."""

    @field_validator(*CHOICES)
    @classmethod
    def _known(cls, names: tuple[str, ...] | None, info: Any) -> tuple[str, ...] | None:
        known = CHOICES[info.field_name].values()
        by_form = {name.replace("_", "-"): name for name in known}
        read = tuple(by_form.get(name.replace("_", "-"), "") for name in names or ())
        if "" in read:
            unknown = (names or ())[read.index("")]
            raise ValueError(f"{quoted(unknown)} is unknown; known: {', '.join(known)}")
        return read or None

    @property
    def given(self) -> dict[str, Any]:
        """The constraints that are set, by field."""
        values = {name: (getattr(self, name), field.default) for name, field in type(self).model_fields.items()}
        return {name: value for name, (value, default) in values.items() if value is not default}

    def without(self, *names: str) -> Self:
        """All but some of them. names: fields."""
        return type(self)(**{name: value for name, value in self.given.items() if name not in names})

    def option(self, name: str) -> str:
        """One of them as the command line has it. name: its field.

        >>> Constraints(pp=[1, 2]).option("pp"), Constraints(sp=False).option("sp")
        ('--pp 1,2', '--no-sp')
        """
        value, flag = self.given[name], f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            return flag if value else flag.replace("--", "--no-", 1)
        return f"{flag} {','.join(map(str, value)) if isinstance(value, tuple) else value}"

    @model_serializer
    def _given(self) -> dict[str, Any]:
        return self.given


def without_effect(constraints: Constraints) -> dict[str, str]:
    """By constraint that no allowed plan can be of, why: the degree or the recomputation that it is about is ruled out.

    >>> without_effect(Constraints(tp=1, sp=True))
    {'sp': 'it is for plans with tp 2 or more'}
    """
    given = constraints.given
    ruled_out = {
        "sp": given.get("sp") and given.get("tp") == (1,),
        "context_exchange": given.get("cp") == (1,),
        "schedule": given.get("pp") == (1,),
        "recompute_modules": "selective" not in given.get("recompute", RECOMPUTE_NAMES.values()),
    }
    return {name: ABOUT[name] for name, idle in ruled_out.items() if idle and name in given}


def lacking(constraints: Constraints, runtime: Runtime) -> dict[str, str]:
    """By constraint, what it names that the runtime does not have, with what it has."""
    faults = {}
    for name, field in NAMES_OF.items():
        had = getattr(runtime.plans, field)
        missing = [each for each in getattr(constraints, name) or () if each not in had]
        if missing:
            what, kinds = f"{name.replace('_', ' ')} {', '.join(missing)}", ", ".join(had) or "none"
            faults[name] = f"{runtime.id} has no {what}; it has {kinds}"
    return faults
