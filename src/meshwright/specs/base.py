"""The base of everything that is given: frozen, keyword-only, validated, with all faults told at once."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from meshwright.errors import Fault, InvalidSpec, quoted


class Spec(BaseModel):
    """A frozen value object; wrong values raise `InvalidSpec` with every fault and its path."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), ser_json_inf_nan="constants")
    called: ClassVar[str] = ""
    """What errors call it; empty: its class."""

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidSpec(self.called or type(self).__name__, faults_of(error)) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)


def faults_of(error: ValidationError) -> list[Fault]:
    """Every fault of a pydantic error, with its path written as in the file: `levels[1].bandwidth`."""
    faults = []
    for detail in error.errors(include_url=False):
        where = _path(detail["loc"])
        inner = detail.get("ctx", {}).get("error")
        if isinstance(inner, InvalidSpec):
            faults += [Fault(_join(where, fault.where), fault.what) for fault in inner.faults]
            continue
        value = detail.get("input")
        given = f" (given: {quoted(value)})" if isinstance(value, str | int | float | bool) else ""
        faults.append(Fault(where, detail["msg"].removeprefix("Value error, ") + given))
    return faults


def _path(location: tuple[str | int, ...]) -> str:
    where = ""
    for step in location:
        where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else step
    return where


def _join(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner else outer or inner
