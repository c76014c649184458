"""Arguments: what is given to a public function, held against its annotations before anything is done with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, wraps
from itertools import chain
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from meshwright.errors import Fault, InvalidSpec, quoted

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
EXAMPLES = {
    "model": "'llama-3.1-8b'",
    "cluster": "'8x8:h100'",
    "Job": "Job(sequence_length=8192, global_batch=64)",
    "Plan": "Plan(tp=8, sp=True, num_microbatches=64)",
    "plan_file": "'plan.json'",
    "launch_file": "'train.sh'",
    "logs": "'train.log'",
    "folder": "'launch'",
    "paths": "'memo.html'",
    "out": "'sweep'",
    "read_model": "'llama-3.1-8b'",
    "read_cluster": "'8x8:h100'",
    "read_runtime": "'megatron-core'",
    "sweep": "'sweep.toml'",
}
"""What works, by class, by the name of a required argument, or by its function where that alone says what it is."""
CLASSES: dict[Any, tuple[type, str]] = {
    Any: (object, "anything"),
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
    NoneType: (NoneType, "None"),
}
"""What counts as one of these, and what it is called; True and False count as no numbers."""


class Kind(NamedTuple):
    """One alternative of an annotation."""

    kind: type
    words: str
    parts: tuple[tuple[Kind, ...], ...] = ()
    """Of a list, what its elements may be; of a table, what its keys and values may be."""

    def takes(self, value: object) -> bool:
        """Whether it is one, its parts apart; neither text nor a table is a list."""
        if isinstance(value, bool):
            return self.kind in (bool, object)
        return isinstance(value, self.kind) and not (len(self.parts) == 1 and isinstance(value, str | bytes | Mapping))


Kinds = tuple[Kind, ...]
ANYTHING = (Kind(object, "anything"),)


class Wrong(NamedTuple):
    """A value that is not as expected, and where it stands."""

    where: str
    value: object
    kinds: Kinds


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, which raises `InvalidSpec` with all arguments that are not as annotated before it does anything.

    function: a public one. What an iterator yields is given to it as a list.
    """

    @wraps(function)
    def call(*given: Arguments.args, **named: Arguments.kwargs) -> Result:
        expected = _expected(function)
        places = expected.places + expected.places[-1:] * (len(given) - len(expected.places))
        pairs = [*zip(places, given, strict=False), *named.items()]
        if all(type(value) in expected.exactly.get(name, ()) for name, value in pairs):
            return function(*given, **named)
        read = [_listed(value, expected.kinds.get(name, ANYTHING)) for name, value in pairs]
        wrong = [
            _fault(each, _instead(name, function) if each.where == name else "")
            for (name, _), value in zip(pairs, read, strict=True)
            for each in _wrong(name, value, expected.kinds.get(name, ANYTHING))
        ]
        if wrong:
            raise InvalidSpec(f"the call of {function.__name__}", wrong)
        count = len(pairs) - len(named)
        by_name = dict(zip(named, read[count:], strict=True))
        return function(*read[:count], *given[count:], **by_name)  # type: ignore[arg-type]

    return call


class Expected(NamedTuple):
    """What a function takes."""

    places: tuple[str, ...]
    """Arguments that go by place."""
    kinds: dict[str, Kinds]
    exactly: dict[str, Collection[object]]
    """Types that need no further look, as most arguments have."""


@cache
def _expected(function: Callable[..., Any]) -> Expected:
    plain = inspect.unwrap(function)
    hints, parameters = get_type_hints(plain), inspect.signature(plain).parameters.values()
    places = tuple(each.name for each in parameters if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD))
    named = {each.name: hints[each.name] for each in parameters if each.name in hints and each.kind != each.VAR_KEYWORD}
    kinds = {name: _kinds(hint) for name, hint in named.items()}
    return Expected(places, kinds, {name: {*_alternatives(hint)} for name, hint in named.items()})


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _kinds(annotation: Any) -> Kinds:
    return tuple(map(_kind, _alternatives(annotation)))


def _kind(annotation: Any) -> Kind:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Callable:
        return Kind(Callable, "a function")
    if origin:
        inner = tuple(map(_kinds, parts))
        return Kind(origin, f"a {'table' if origin is Mapping else 'list'}{_each(inner[-1])}", inner)
    kind, words = CLASSES.get(annotation, (annotation, f"a {getattr(annotation, '__name__', '')}"))
    return Kind(kind, words)


def _each(kinds: Kinds) -> str:
    return "" if kinds[0].kind is object else f" of which each is {_words(kinds)}"


def _words(kinds: Kinds) -> str:
    *others, last = [each.words for each in kinds if each.kind is not NoneType]
    return f"{', '.join(others)} or {last}" if others else last


def _listed(value: Any, kinds: Kinds) -> Any:
    """A value, or the list of what it yields, where a list is expected and it can be read but once."""
    many = not isinstance(value, Collection) and any(each.parts and each.takes(value) for each in kinds)
    return [*value] if many else value


def _wrong(where: str, value: object, kinds: Kinds) -> Iterator[Wrong]:
    """What of a value is not as expected."""
    kind = next((each for each in kinds if each.takes(value)), None)
    if kind is None:
        yield Wrong(where, value, kinds)
    elif kind.parts and isinstance(value, Mapping):
        for key, each in value.items():
            yield from _wrong(f"{where}, a key", key, kind.parts[0])
            yield from _wrong(f"{where}[{quoted(key)}]", each, kind.parts[1])
    elif kind.parts and isinstance(value, Collection):
        for place, each in enumerate(value):
            yield from _wrong(f"{where}[{place}]", each, kind.parts[0])


def require_kinds(subject: str, values: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise `InvalidSpec` with all values that are not as annotated.

    subject: what holds them, for messages; values, hints: by name.
    """
    wrong = (each for name in values.keys() & hints.keys() for each in _wrong(name, values[name], _kinds(hints[name])))
    if faults := [_fault(each) for each in wrong]:
        raise InvalidSpec(subject, faults)


def _fault(wrong: Wrong, instead: str = "") -> Fault:
    """What is expected, what was given, and the nearest value that works; instead: where the value has no near one."""
    value = wrong.value
    given = quoted(value) if value is None else f"{quoted(value)}, of type {type(value).__name__}"
    what = f"must be {_words(wrong.kinds)} (given: {given})"
    known = (EXAMPLES[each.kind.__name__] for each in wrong.kinds if each.kind.__name__ in EXAMPLES)
    nearest = next(chain(_nearest(value, wrong.kinds), known), None)
    return Fault(wrong.where, f"{what}; nearest: {nearest}" if nearest else what + instead)


def _instead(name: str, function: Callable[..., Any]) -> str:
    """What to do where nothing is near an argument."""
    plain = inspect.unwrap(function)
    if inspect.signature(plain).parameters[name].default is not inspect.Parameter.empty:
        return ", or left out"
    example = EXAMPLES.get(name) or EXAMPLES.get(plain.__name__)
    return f"; nearest: {example}" if example else ""


def _nearest(value: Any, kinds: Kinds) -> Iterator[str]:
    """The value in a form that is expected, as Python writes it, where it has one."""
    for kind in kinds:
        if isinstance(value, Mapping) and hasattr(kind.kind, "replace") and kind.kind is not str:
            yield f"{kind.kind.__name__}(**{quoted(value)})"
        if kind.kind in (Integral, Real) and isinstance(value, str | float):
            yield from _number(value, whole=kind.kind is Integral)
        if kind.parts and any(each.takes(value) for each in kind.parts[-1]) and kind.kind is not Mapping:
            yield f"[{quoted(value)}]"


def _number(value: str | float, *, whole: bool) -> Iterator[str]:
    try:
        number = float(value)
    except ValueError:
        return
    if isfinite(number):
        yield str(round(number)) if whole or number.is_integer() else str(number)
