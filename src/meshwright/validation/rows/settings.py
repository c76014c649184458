"""Settings: what frameworks and their configurations do otherwise than the catalogue's runtimes and releases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from meshwright.errors import InvalidSpec, NotModelled, UnknownName
from meshwright.specs.base import Spec
from meshwright.specs.behaviours import IDENTITY, with_behaviours
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.runtime.communication import FOR_EXPERTS
from meshwright.text_files import packaged_table
from meshwright.validation.rows.table import Row, split_list

COMPILED = {"yes": "compiled=true", "no": "compiled=false"}
"""What the column `compiled` changes where the runtime has the switch of that name; blank: nothing."""
UNSWITCHED = {"yes": "elementwise=fused", "no": "elementwise=eager"}
"""The same of what stands for a framework, where it has none; a runtime of the catalogue compiles nothing of itself."""
MEGATRON = "megatron"
"""The family of runtimes whose kernels are fused by hand, whether a row says that nothing is compiled or not."""
RUNTIME = ("runtime", "compiled", "attention_kernel", "settings", "with")
"""Columns that say how the runtime behaves."""
OF_WHICH_ONE_IS_USED = ("elementwise_kernels", "cross_entropies")
"""Tables of a runtime that hold what it does not do as well."""


class RunSetting(Spec):
    """How a configuration of a framework differs from a runtime of the catalogue."""

    what: str
    source: str = ""
    """None where the row itself says so."""
    runtimes: tuple[str, ...] = ()
    """Ids of the runtimes that it is for; none: any."""
    behaviours: tuple[str, ...] = ()
    """`KEY=VALUE`, as `--with` takes them; none: it is not priced, and users are told."""

    def __str__(self) -> str:
        return f"{self.what} ({self.source})" if self.source else self.what


class StandIn(RunSetting):
    """A runtime of the catalogue that stands for a framework which the catalogue has not."""

    runtime: str
    without_rules: tuple[str, ...] = ()
    """Rules of the runtime that do not hold."""


def document(name: str) -> dict[str, Any]:
    """A data file of this folder."""
    return packaged_table("meshwright.validation.rows", f"{name}.toml")


@cache
def settings() -> dict[str, RunSetting]:
    """Every setting by its name."""
    return {name: RunSetting(**entry) for name, entry in document("settings").items()}


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
def base_runtime(framework: str, compiled: str = "") -> Runtime:
    """The catalogue's runtime of that name, compiled or not, or what stands for a framework; raises `UnknownName` for a
    name that is neither, and for a rule in `without_rules` that the runtime does not have.
    """
    stand_in = stand_ins().get(framework)
    if not stand_in:
        runtime = read_runtime(framework)
        as_it_is = runtime.family == MEGATRON or (compiled == "no" and "compiled" not in runtime.switches)
        return runtime if as_it_is else _compiled(runtime, compiled)
    runtime, without = _compiled(read_runtime(stand_in.runtime), compiled), stand_in.without_rules
    names = {rule.name for rule in runtime.rules}
    for name in (each for each in without if each not in names):
        raise UnknownName(f"rule of {runtime.id}", name, names)
    runtime = runtime.replace(rules=tuple(rule for rule in runtime.rules if rule.name not in without))
    return _with_settings(runtime, [stand_in])


def _compiled(runtime: Runtime, compiled: str) -> Runtime:
    changes = COMPILED if "compiled" in runtime.switches else UNSWITCHED
    return with_behaviours(runtime, [changes[compiled]]) if compiled else runtime


def settings_of(row: Row) -> list[RunSetting]:
    """What the column `settings` names; raises `InvalidInput` for a name that is none, or one of another runtime."""
    known, runtime = settings(), base_runtime(row["runtime"]).framework
    named = []
    for name in split_list(row["settings"]):
        if name not in known:
            raise UnknownName("setting", name, known)
        if known[name].runtimes and runtime not in known[name].runtimes:
            owners = " and ".join(known[name].runtimes)
            raise NotModelled(f"settings has {name}, which is for {owners}; the runtime is {runtime}")
        named.append(known[name])
    return named


def runtime_of(row: Row) -> Runtime:
    """The runtime of a row as its columns change it: `compiled` and `attention_kernel`, then `settings`, then `with`.

    Raises `InvalidInput` for what is no behaviour, and for one that two settings set to different values.
    """
    return _runtime_of(*(row[name] for name in RUNTIME))


@lru_cache(maxsize=4096)
def _runtime_of(*values: str) -> Runtime:
    row = dict(zip(RUNTIME, values, strict=True))
    runtime = with_behaviours(base_runtime(row["runtime"], row["compiled"]), _attention(row))
    try:
        runtime = _with_settings(runtime, settings_of(row))
        return with_behaviours(runtime, split_list(row["with"]))
    except InvalidSpec as error:
        raise InvalidSpec("settings or with", error.faults) from None


def behaviours_of(row: Row) -> tuple[str, str]:
    """The framework of a row and, as JSON, all that its runtime does for a model like the row's.

    Raises as `runtime_of` does.
    """
    framework, _, _ = row["runtime"].partition("@")
    return framework, _behaviours_of(*(row[name] for name in RUNTIME), has_experts=bool(row["moe_experts"]))


@lru_cache(maxsize=4096)
def _behaviours_of(*values: str, has_experts: bool) -> str:
    runtime = _runtime_of(*values)
    unread = {} if has_experts else {"communication": {*FOR_EXPERTS}}
    if not runtime.storage.cast_moment_bytes:
        unread["storage"] = {"casts_moments"}  # of narrower moments than it has
    used = runtime.elementwise_bytes, runtime.entropy
    does = runtime.model_dump_json(exclude={**dict.fromkeys((*IDENTITY, *OF_WHICH_ONE_IS_USED), True), **unread})
    return "".join((does, *(each.model_dump_json() for each in used)))


def _with_settings(runtime: Runtime, settings: Sequence[RunSetting]) -> Runtime:
    """With what they say; one and the same behaviour may be named by several."""
    changes = dict.fromkeys(change for each in settings for change in each.behaviours)
    return with_behaviours(runtime, [*changes])


def _attention(row: Row) -> tuple[str, ...]:
    """`flash` is any fused kernel: the runtime's own, or FlashAttention-2 where its own is none. What is fitted to the
    runtime's own kernels does not hold for others.
    """
    kernel, own = row["attention_kernel"], base_runtime(row["runtime"]).kernels
    if kernel == "flash":
        kernel = "flash-2" if own.attention_kernel == "eager" else ""
    if not kernel:
        return ()
    return (f"attention_kernel={kernel}", *(('attention_constant=""',) if own.attention_constant else ()))
