"""Settings: what frameworks, their releases and their configurations do otherwise than the catalogue's runtimes."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from meshwright.errors import InvalidSpec, NotModelled, UnknownName
from meshwright.specs.base import Spec
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.validation.rows.table import Row, split_list

COMPILED = {
    "yes": ("elementwise=fused", "fused_activation=true", "keeps_unread_products=false"),
    "no": ("elementwise=eager",),
    "": (),
}
"""What the column `compiled` changes; blank: nothing. Compiled, a layer keeps neither the activation beside its product
(34.2 s b h of Llama 8B for 41.2) nor a product that backward does not read: saved tensors of PyTorch 2.13, backends
aot_eager and inductor."""


class Setting(Spec):
    """How a release or a configuration of a framework differs from a runtime of the catalogue."""

    what: str
    source: str = ""
    """None where the row itself says so."""
    runtimes: tuple[str, ...] = ()
    """Ids of the runtimes that it is for; none: any."""
    behaviours: tuple[str, ...] = ()
    """`KEY=VALUE`, as `--with` takes them; none: it is not priced, and users are told."""
    without_rules: tuple[str, ...] = ()
    """Rules of the runtime that do not hold."""

    def __str__(self) -> str:
        return f"{self.what} ({self.source})" if self.source else self.what


class StandIn(Setting):
    """A runtime of the catalogue that stands for a framework which the catalogue has not."""

    runtime: str


def document(name: str) -> dict[str, Any]:
    """A data file of this folder."""
    return tomllib.loads((resources.files(__package__) / f"{name}.toml").read_text("utf-8"))


@cache
def settings() -> dict[str, Setting]:
    """Every setting by its name."""
    return {name: Setting(**entry) for name, entry in document("settings").items()}


@cache
def stand_ins() -> dict[str, StandIn]:
    """By the name of the framework that each stands for."""
    return {name: StandIn(**entry) for name, entry in document("frameworks")["stand_ins"].items()}


@cache
def judged_together() -> dict[str, str]:
    """By runtime or stand-in, the name under which its step times are judged with those of frameworks alike."""
    groups: dict[str, list[str]] = document("frameworks")["judged_together"]
    return {framework: name for name, members in groups.items() for framework in members}


@cache
def base_runtime(framework: str) -> Runtime:
    """The catalogue's runtime of that name, or the one that stands for a framework; raises `UnknownName`."""
    stand_in = stand_ins().get(framework)
    return read_runtime(stand_in.runtime if stand_in else framework)


def settings_of(row: Row) -> list[Setting]:
    """What the column `settings` names; raises `InvalidInput` for a name that is none, or one of another runtime."""
    known, runtime = settings(), base_runtime(row["runtime"]).id
    found = []
    for name in split_list(row["settings"]):
        if name not in known:
            raise UnknownName("setting", name, known)
        if known[name].runtimes and runtime not in known[name].runtimes:
            raise NotModelled(
                f"settings has {name}, which is for {' and '.join(known[name].runtimes)}; the runtime is {runtime}"
            )
        found.append(known[name])
    return found


def runtime_of(row: Row) -> Runtime:
    """The catalogue's runtime with what a row changes: its framework, its columns, its settings, and last the column
    `with`; a later one goes before an earlier one. Raises `InvalidInput` for what is no behaviour.
    """
    runtime, stand_in, named = base_runtime(row["runtime"]), stand_ins().get(row["runtime"]), settings_of(row)
    differences = [*([stand_in] if stand_in else []), *named]
    columns = (*_attention(row), *COMPILED[row["compiled"]])
    given = (stand_in.behaviours if stand_in else (), columns, *(each.behaviours for each in named))
    changes = {change.partition("=")[0]: change for group in given for change in group}
    try:
        runtime = with_behaviours(with_behaviours(runtime, [*changes.values()]), split_list(row["with"]))
    except InvalidSpec as error:
        raise InvalidSpec("column with", error.faults) from None
    without = {rule for each in differences for rule in each.without_rules}
    return runtime.replace(rules=tuple(rule for rule in runtime.rules if rule.name not in without))


def _attention(row: Row) -> tuple[str, ...]:
    """`flash` is any fused kernel: the runtime's own, or FlashAttention-2 where its own is none."""
    kernel = row["attention_kernel"]
    if kernel == "flash":
        kernel = "flash-2" if base_runtime(row["runtime"]).kernels.attention_kernel == "eager" else ""
    return (f"attention_kernel={kernel}",) if kernel else ()
