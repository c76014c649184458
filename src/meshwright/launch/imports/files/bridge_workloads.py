"""Workloads: the plans that the performance scripts of Megatron-Bridge keep as constants beside its recipes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from meshwright.errors import InvalidInput
from meshwright.launch.framework import Value
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.specs.base import Spec
from meshwright.text_files import packaged_table

SHOWN = 12
"""Names that an error lists."""


class Field(Spec):
    """Where a recipe has a field of a workload."""

    key: str
    also: dict[str, Value] = {}
    """What goes with it where it is not off."""


class Workloads(Spec):
    """What a workload means."""

    source: str
    made_by: str
    """The class of workloads."""
    ranks: str
    """The field that counts GPUs."""
    always: dict[str, Value]
    """What every workload is run with."""
    defaults: dict[str, Value]
    fields: dict[str, Field]


def one_workload(read: LaunchSettings, name: str | None) -> LaunchSettings:
    """The workload of that name as the settings of a recipe; the file as it is where it holds none.

    Raises `InvalidInput` where several are there and none is named, or none has that name.
    """
    lines = {
        each.key.removesuffix(f".{OBJECT}"): each.line for each in read.settings if each.value == workloads().made_by
    }
    if not lines:
        return read
    listed = ", ".join(f"{each} (line {line})" for each, line in [*lines.items()][:SHOWN])
    if name is None and len(lines) > 1:
        raise InvalidInput(f"{read.path!r} holds {len(lines)} workloads; name one: --set function=NAME, of {listed}")
    if name is not None and name not in lines:
        raise InvalidInput(f"{read.path!r} has no workload {name!r}; it has {listed}")
    name = name or next(iter(lines))
    own = {each.key.removeprefix(f"{name}."): each for each in read.settings if each.key.startswith(f"{name}.")}
    ranks = own.get(workloads().ranks)
    launcher = [replace(ranks, key="--num_processes")] if ranks is not None else []
    return replace(read, settings=tuple(_of_a_recipe(own, lines[name])), launcher=(*read.launcher, *launcher))


def is_workload(read: LaunchSettings) -> bool:
    """Whether a file holds workloads."""
    return read.form == "python" and f"{workloads().made_by}(" in read.text


def _of_a_recipe(own: dict[str, FileSetting], line: int) -> Iterator[FileSetting]:
    """The fields of a workload as a recipe has them; what is left out is as its class has it."""
    known = workloads()
    yield from (FileSetting(key, value, line) for key, value in known.always.items())
    for name, value in known.defaults.items():
        if name not in own:
            yield FileSetting(known.fields[name].key, value, line)
    for name, each in own.items():
        field = known.fields.get(name)
        if field is None or each.value is None:
            continue
        yield replace(each, key=field.key)
        if each.value is not False:
            yield from (FileSetting(key, value, each.line) for key, value in field.also.items())
    tensor = own.get("tensor_model_parallel_size")
    if tensor is not None:
        split = isinstance(tensor.value, int) and tensor.value > 1
        yield replace(tensor, key="model.sequence_parallel", value=split, span=None)


@cache
def workloads() -> Workloads:
    """What the file of them says."""
    return Workloads(**packaged_table("meshwright.launch.imports.files", "bridge_workloads.toml"))
