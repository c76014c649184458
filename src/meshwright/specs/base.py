"""The base of everything that is given: frozen, keyword-only, validated, with all faults told at once."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar, Never, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from meshwright.errors import LONGEST, Fault, InvalidInput, InvalidSpec, UnknownName, quoted
from meshwright.reprs import MOST_LINES, call_of

_WORDS = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "too_short": "must hold one or more",
    "string_too_short": "must not be empty",
}
"""What pydantic's kinds of error are called here; others keep their words."""


class Spec(BaseModel):
    """A frozen value object; wrong values raise `InvalidSpec` with every fault and its path."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), ser_json_inf_nan="constants", defer_build=True
    )
    called: ClassVar[str] = ""
    """What errors call it; empty: its class."""

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build what validates, the models of its fields first, so that none is built again in all that hold it."""
        for field in cls.model_fields.values():
            for each in _models_in(field.annotation):
                if not each.__pydantic_complete__:
                    each.model_rebuild()
        return super().model_rebuild(**options)

    def __init__(self, /, *values: Never, **fields: Any) -> None:
        if values:
            raise InvalidInput(f"{type(self).__name__} takes names: {self._named(values, fields)}")
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InvalidSpec(self.called or type(self).__name__, faults_of(error, type(self).model_fields)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        called = type(self).__name__
        if name not in type(self).model_fields:
            raise UnknownName(f"field of {called}", name, type(self).model_fields)
        raise InvalidInput(f"{called} is frozen: use {called.lower()}.replace({name}={quoted(value)})")

    def __delattr__(self, name: str) -> None:
        raise InvalidInput(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __repr__(self) -> str:
        """The fields that are not as by default, cut after a few lines."""
        known = type(self).model_fields.items()
        given = {name: getattr(self, name) for name, field in known if getattr(self, name) != field.get_default()}
        return call_of(type(self).__name__, given, MOST_LINES)

    def __str__(self) -> str:
        return repr(self)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that it holds, in hexadecimal: equal for equal values, in every process."""
        written = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(map(_hash_of, map(self.__dict__.__getitem__, type(self).__pydantic_fields__))))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)

    @classmethod
    def _named(cls, values: tuple[Any, ...], fields: dict[str, Any]) -> str:
        """The call with the names that were left out; required fields without a value as dots."""
        required = {name: "…" for name, field in cls.model_fields.items() if field.is_required()}
        stated = dict(zip(cls.model_fields, values, strict=False)) | fields
        written = required | {name: quoted(value) for name, value in stated.items()}
        return f"{cls.__name__}({', '.join(f'{name}={value}' for name, value in written.items())})"


def _hash_of(value: Any) -> int:
    """Of a table, and of a list with one, its length: those of the same length are told apart when compared."""
    try:
        return hash(value)
    except TypeError:
        return len(value)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, in whatever containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def faults_of(error: ValidationError, known: Iterable[str] = ()) -> list[Fault]:
    """Every fault of a pydantic error, with its path written as in the file: `levels[1].bandwidth`.

    known: the fields that an unknown one is compared with.
    """
    faults, details = [], error.errors(include_url=False)
    for detail in details:
        where, depth = _path(detail["loc"]), len(detail["loc"])
        # A list whose elements are all wrong counts as empty, too.
        if detail["type"] == "too_short" and any(
            len(each["loc"]) > depth and each["loc"][:depth] == detail["loc"] for each in details
        ):
            continue
        inner = detail.get("ctx", {}).get("error")
        if isinstance(inner, InvalidSpec):
            faults += [Fault(_join(where, fault.where), fault.what) for fault in inner.faults]
            continue
        if detail["type"] == "extra_forbidden":
            faults.append(Fault(where, _no_field(str(detail["loc"][-1]), list(known))))
            continue
        value = detail.get("input")
        shown = f" (given: {quoted(value)})" if isinstance(value, str | int | float | bool) else ""
        faults.append(Fault(where, _message(detail["type"], detail["msg"]) + shown))
    return faults


def _message(kind: str, message: str) -> str:
    """A message in the words of a file's author."""
    return _WORDS.get(kind) or message.removeprefix("Value error, ").replace("Input should be ", "must be ", 1)


def _no_field(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:LONGEST], known, n=1)
    return "is not a field; " + (f"nearest: {near[0]}" if near else f"known: {', '.join(known)}")


def _path(location: tuple[str | int, ...]) -> str:
    where = ""
    for step in location:
        where += f"[{step}]" if isinstance(step, int) else f".{step}" if where else step
    return where


def _join(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner else outer or inner
