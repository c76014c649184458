"""Sweep files: from TOML, or the same as a table, with every mistake told at once."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from meshwright.errors import LONGEST, InvalidInput, UnknownName, quoted
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.defaults import DEFAULT_PRECISION, DEFAULT_RUNTIME
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.reading.toml_lines import TomlLines
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.sweep.faults import Faults, Where
from meshwright.specs.sweep.jobs import read_jobs
from meshwright.specs.sweep.sweep import Framework, Named, Sweep
from meshwright.text_files import read_text, unreadable
from meshwright.units import MOST_PRICE, is_price

Value = TypeVar("Value")
KEYS = ("models", "clusters", "jobs", "knobs", "limits", "prices")
NEEDED = {
    "models": 'write models = ["llama-3.1-8b"]',
    "clusters": 'write clusters = ["8x8:h100"]',
    "jobs": 'write a table [jobs] with seq_len = "8k" and global_batch = 256',
}
"""By key that a sweep must have, what to write."""
KNOBS = {
    "runtime": f'"{DEFAULT_RUNTIME}"',
    "precision": f'"{DEFAULT_PRECISION}"',
    "with": '["overlap.expert=0.7"]',
}
"""Keys of `[knobs]`, each with a value that it may have."""


def read_sweep(source: str | Path | Mapping[str, Any]) -> Sweep:
    """The sweep of a file, or of a table in its form, which may hold a `Model`, `Cluster`, `Job`, `Runtime` or
    `Constraints` in place of a name or a table.

    `models`, `clusters` and every value of `[jobs]` and `[knobs]` is one or a list; `[[jobs]]` are several sets of
    jobs; `[limits.NAME]` are constraints; `[prices]` are of an hour of one accelerator. Raises `InvalidSpec` with every
    mistake and its line.

    >>> table = {"models": "llama-3.1-8b", "clusters": ["1x8:h100", "2x8:h100"]}
    >>> jobs = {"seq_len": [4096, "8k"], "global_batch": 64}
    >>> len(read_sweep(table | {"jobs": jobs, "knobs": {"precision": ["bf16", "fp8"]}}))
    8
    """
    if isinstance(source, Mapping):
        return _sweep(source, Faults("the sweep", None))
    path = Path(source)
    text = read_text(path, "sweep file")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{str(path)!r} is not a TOML file: {unreadable(error)}") from None
    return _sweep(table, Faults(f"sweep file {str(path)!r}", TomlLines(text)))


def _sweep(table: Mapping[str, Any], faults: Faults) -> Sweep:
    faults.unknown_keys((), {key: value for key, value in table.items() if key not in KNOBS}, KEYS)
    for name in (each for each in KNOBS if each in table):
        faults.add((name,), f"is not a key here; write it below [knobs]: {name} = {KNOBS[name]}")
    for name, written in NEEDED.items():
        if name not in table:
            faults.add((name,), f"is missing; {written}")
    knobs = faults.table_of(("knobs",), table.get("knobs", {}), KNOBS)
    models = _named(("models",), table.get("models"), Model, read_model, faults)
    clusters = _named(("clusters",), table.get("clusters"), Cluster, read_cluster, faults)
    precisions = _each(("knobs", "precision"), knobs.get("precision", DEFAULT_PRECISION), _precision, faults)
    jobs = read_jobs(table.get("jobs"), faults)
    frameworks = _frameworks(knobs, faults)
    limits = _limits(table.get("limits"), faults)
    prices = _prices(table.get("prices", {}), clusters, faults)
    faults.raise_any()
    return Sweep(
        models=models,
        clusters=clusters,
        jobs=tuple(job.replace(precision=precision) for job in jobs for precision in precisions),
        frameworks=frameworks,
        limits=limits,
        prices=prices,
    )


def _precision(name: Any) -> str:
    return catalog.resolve("precisions", _text(name))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"must be text (given: {quoted(value)})")
    return value


def _each(where: Where, given: Any, read: Callable[[Any], Value], faults: Faults) -> tuple[Value, ...]:
    """One value or a list of them, read one by one; the same twice is a mistake."""
    known: dict[Value, Where] = {}
    for place, value in faults.list_of(where, given):
        read_value = faults.read(place, lambda value=value: read(value))  # type: ignore[misc]
        if read_value is None:
            continue
        if read_value in known:
            faults.add(place, f"{quoted(value)} is the same as {faults.name(known[read_value])}; leave one out")
        known.setdefault(read_value, place)
    return tuple(known)


def _named(
    where: Where, given: Any, kind: type[Value], read: Callable[[Any], Value], faults: Faults
) -> tuple[Named[Value], ...]:
    """Models or clusters, by the text that names them; of what is given as a value by its name."""
    names: dict[Value, str] = {}

    def named(value: Any) -> Value:
        read_value = value if isinstance(value, kind) else read(value if isinstance(value, Mapping) else _text(value))
        names.setdefault(read_value, value if isinstance(value, str) else read_value.name)  # type: ignore[attr-defined]
        return read_value

    return tuple(Named(names[value], value) for value in _each(where, given, named, faults)) if given else ()


def _frameworks(knobs: Mapping[str, Any], faults: Faults) -> tuple[Framework, ...]:
    """Every runtime with every set of behaviours; those that no runtime has are a mistake."""
    runtimes = _each(
        ("knobs", "runtime"),
        knobs.get("runtime", DEFAULT_RUNTIME),
        lambda value: value if isinstance(value, Runtime) else read_runtime(_text(value)),
        faults,
    )
    replaced = _each(("knobs", "with"), knobs.get("with", [[]]), _changes, faults)
    places = [place for place, _ in faults.list_of(("knobs", "with"), knobs.get("with", [[]]))]
    made = {(runtime, changes): _replaced(runtime, changes) for runtime in runtimes for changes in replaced}
    for place, changes in zip(places, replaced, strict=False):
        refusals = [each for runtime in runtimes if isinstance(each := made[runtime, changes], InvalidInput)]
        if runtimes and len(refusals) == len(runtimes):
            faults.refused(place, refusals[0])
    return tuple(Framework(runtime.id, " ".join(changes), value) for (runtime, changes), value in made.items())


def _changes(value: Any) -> tuple[str, ...]:
    """Behaviours that are replaced together: one, a list of them, or none."""
    return tuple(_text(each) for each in (value if isinstance(value, list | tuple) else [value]) if each != "")


def _replaced(runtime: Runtime, changes: tuple[str, ...]) -> Runtime | InvalidInput:
    try:
        return with_behaviours(runtime, changes) if changes else runtime
    except InvalidInput as refusal:
        return refusal


def _limits(given: Any, faults: Faults) -> tuple[Named[Constraints], ...]:
    if given is None:
        return (Named("", Constraints()),)
    limits: dict[Constraints, str] = {}
    for name, value in faults.table_of(("limits",), given).items():
        where = ("limits", name)
        if not isinstance(value, Mapping | Constraints):
            faults.add(where, f"is no set of constraints; write [limits.NAME] above {name} = {quoted(value)}")
            continue
        constraints = faults.read(where, lambda value=value: _constraints(value))  # type: ignore[misc]
        if constraints in limits:
            faults.add(where, f"are the same constraints as limits.{limits[constraints]}; leave one out")
        elif constraints is not None:
            limits[constraints] = name
    return tuple(Named(name, value) for value, name in limits.items())


def _constraints(value: Any) -> Constraints:
    return value if isinstance(value, Constraints) else Constraints(**value)


def _prices(given: Any, clusters: Iterable[Named[Cluster]], faults: Faults) -> dict[str, float]:
    """The price of an hour of one accelerator by the name of its cluster; a cluster goes before its accelerator."""
    by_accelerator: dict[str, float] = {}
    by_cluster: dict[str, float] = {}
    names = {cluster.name for cluster in clusters}
    ids = {cluster.value.accelerator.id for cluster in clusters}
    for key, price in faults.table_of(("prices",), given).items():
        where = ("prices", key)
        if not is_price(price):
            faults.add(where, f"must be a price, a number from 0 to {MOST_PRICE:g} (given: {quoted(price)})")
        elif key in names:
            by_cluster[key] = float(price)
        elif (accelerator := _accelerator(key)) in ids:
            by_accelerator[accelerator] = float(price)
        elif clusters:
            near = difflib.get_close_matches(key[:LONGEST], [*names, *ids], n=1)
            known = f"nearest: {near[0]}" if near else f"it can price {', '.join(sorted([*names, *ids]))}"
            faults.add(where, f"is no cluster or accelerator of this sweep; {known}")
    prices = {each.name: by_cluster.get(each.name, by_accelerator.get(each.value.accelerator.id)) for each in clusters}
    return {name: price for name, price in prices.items() if price is not None}


def _accelerator(key: str) -> str:
    try:
        return catalog.resolve("accelerators", key)
    except UnknownName:
        return key
