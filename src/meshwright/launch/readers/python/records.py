"""Records: the objects that a Python configuration makes, as trees of fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from meshwright.launch.readers.limits import MAX_DEPTH
from meshwright.launch.readers.settings import OBJECT, FileSetting
from meshwright.launch.readers.traced import Unreadable


@dataclass(eq=False, slots=True)
class Record:
    """One object; several names and fields may share it."""

    made: str = ""
    """What is called to make it."""
    line: int = 0
    function: str = ""
    """The function of the file that makes it."""
    plain: bool = False
    """Whether it is a dictionary."""
    own: FileSetting | None = None
    """A value beside its fields: its text, where it was made without any."""
    home: str = ""
    """Where it was looked up before anything was said of it; elsewhere it is an open value."""
    fields: dict[str, Record | FileSetting] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """Fields that were set after it was made."""

    @property
    def unsaid(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.made or self.own or self.fields or self.plain)


def found(bound: Record | FileSetting | None, path: Sequence[str]) -> Record | FileSetting | None:
    """What stands at a path below an object; None where nothing was said of it."""
    for name in path:
        bound = bound.fields.get(name) if isinstance(bound, Record) else None
    return bound


def put(record: Record, path: Sequence[str], value: Record | FileSetting) -> None:
    """Set a field; what was there is gone."""
    for name in path[:-1]:
        record.changed.add(name)
        record = below(record, name)
    record.fields.pop(path[-1], None)
    record.fields[path[-1]] = value
    record.changed.add(path[-1])


def below(record: Record, name: str, home: str = "") -> Record:
    """The object in a field; a new one where there is none, which keeps a value that stood there."""
    inner = record.fields.get(name)
    if not isinstance(inner, Record):
        kept = inner if inner is not None and (inner.open or inner.value is not None) else None
        inner = record.fields[name] = Record(own=kept, home=home)
    return inner


def copied(bound: Record | FileSetting, depth: int = 0) -> Record | FileSetting:
    """An object of its own with the same fields."""
    if isinstance(bound, FileSetting):
        return bound
    if depth > MAX_DEPTH:
        raise Unreadable(f"its objects are nested deeper than {MAX_DEPTH} levels", 0)
    return replace(
        bound, fields={name: copied(each, depth + 1) for name, each in bound.fields.items()}, changed=set(bound.changed)
    )


def leaves(
    bound: Record | FileSetting, path: str, seen: set[int] | None = None, depth: int = 0
) -> Iterator[FileSetting]:
    """The settings below an object in the order in which they were said; seen: the objects are added."""
    if isinstance(bound, FileSetting):
        if path:
            yield replace(bound, key=path)
        return
    if depth > MAX_DEPTH:
        raise Unreadable(f"its objects are nested deeper than {MAX_DEPTH} levels", 0)
    if seen is not None:
        seen.add(id(bound))
    if path and bound.made:
        yield FileSetting(f"{path}.{OBJECT}", bound.made, bound.line, made_in=bound.function)
    if path and bound.own is not None:
        yield replace(bound.own, key=path)
    if path and bound.home not in ("", path) and bound.unsaid:
        yield FileSetting(path, bound.home, bound.line, None, (bound.home,))
    for name, each in bound.fields.items():
        yield from leaves(each, f"{path}.{name}" if path else name, seen, depth + 1)
