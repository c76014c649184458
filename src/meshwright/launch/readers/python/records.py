"""Records: the objects that a Python configuration makes, as trees of fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from meshwright.launch.readers.limits import MAX_DEPTH, MAX_SETTINGS
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


def copied(bound: Record | FileSetting, known: dict[int, Record] | None = None) -> Record | FileSetting:
    """An object of its own with the same fields; known: what was copied already, by the identity of the original."""
    if isinstance(bound, FileSetting):
        return bound
    known = {} if known is None else known
    if id(bound) not in known:
        if len(known) > MAX_SETTINGS:
            raise Unreadable(f"more than {MAX_SETTINGS} objects", 0)
        copy = known[id(bound)] = replace(bound, fields={}, changed=set(bound.changed))
        copy.fields |= {name: copied(each, known) for name, each in bound.fields.items()}
    return known[id(bound)]


def leaves(bound: Record | FileSetting, path: str, seen: set[int] | None = None) -> Iterator[FileSetting]:
    """The settings below an object in the order in which they were said; seen: the objects are added."""
    stack, count = [(bound, path, 0)], 0
    while stack:
        each, name, depth = stack.pop()
        count += 1
        if count > MAX_SETTINGS or depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_SETTINGS} settings, or {MAX_DEPTH} levels", 0)
        if isinstance(each, FileSetting):
            if name:
                yield replace(each, key=name)
            continue
        if seen is not None:
            seen.add(id(each))
        yield from _of_itself(each, name)
        inner = [(field, f"{name}.{key}" if name else key, depth + 1) for key, field in each.fields.items()]
        stack += reversed(inner)


def _of_itself(record: Record, path: str) -> Iterator[FileSetting]:
    """What is known of an object beside its fields."""
    if path and record.made:
        yield FileSetting(f"{path}.{OBJECT}", record.made, record.line, made_in=record.function)
    if path and record.own is not None:
        yield replace(record.own, key=path)
    if path and record.home not in ("", path) and record.unsaid:
        yield FileSetting(path, record.home, record.line, None, (record.home,))
