"""Siblings: what a table without settings leaves out of its runs, from their words and from runs of the same source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from meshwright.errors import InvalidInput, UnknownName
from meshwright.specs import catalog
from meshwright.specs.choices import RECOMPUTE_NAMES, Recompute
from meshwright.specs.job_options import OF_RUNS
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.model import read_model
from meshwright.validation.rows.meanings import meanings
from meshwright.validation.rows.released import HALF, as_released
from meshwright.validation.rows.said import Taken, said_layers, said_stage, with_behaviours_over, with_said_recipe
from meshwright.validation.rows.table import Row, normalised, read_rows, split_list

LEVELS = (("model", "gpu", "precision"), ("model", "gpu"), ("model",), ("precision",), ())
"""Columns in which siblings agree, beside their source and runtime: the first that any do."""
FEWEST = 3
"""Runs of other sources and other models that say what a release does."""
SIZES = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "moe_experts", "moe_topk", "moe_ffn")
"""Columns that tell one model from another, whatever it is called."""
UNPRINTED = (
    *("architecture", "vocab", "ends_layers_less", "recompute", "recompute_modules", "expert_capacity"),
    *("mtp_layers", "power_limit_w", "memory_rank", "compiled", "document_length"),
)
"""Columns that a row takes from its siblings where it leaves them blank and all have the same."""
OF_A_MODEL = ("architecture", "vocab", "ends_layers_less", "expert_capacity", "mtp_layers", "memory_rank")
"""Of these, those that it takes from runs of its own model alone."""
UNNAMED = (
    *("settings", "with", "refused", "architecture", "plan", "routing", "power_limit_w", "recompute_layers"),
    *("memory_rank", *(each.name for each in OF_RUNS)),
)
"""Columns that tables as others collect them have not."""
REPOSITORY = re.compile(
    r"(?:\bgithub\.com/|(?<![\w./-]))([a-z0-9][a-z0-9-]*/(?![\w.-]+\.(?:md|json|csv|html)\b)[a-z0-9][\w.-]*)",
    re.IGNORECASE,
)
"""Owner and name, as a row's source has them, in an address too; no file of a folder."""
BY_WORDS = "words"
"""In the column `known_by`: nothing but the row's own words and other sources says what its framework did."""


def as_known(rows: Iterable[Row]) -> list[Row]:
    """The rows of a table that names no settings, each with the release that its words name, and those of a source of
    the project's table with the settings, and in blank columns the values, that all its nearest runs have: what a
    source does not print of a run, it did as in the others. A row of another source takes the settings that all runs
    of its release have with its model, and their values in blank columns, or the settings of models of its kind, on
    accelerators of its generation in its recipe, and the structure of the model of its sizes. As they are where any
    names settings.
    """
    rows = [*rows]
    if any(row["settings"] or row["with"] for row in rows):
        return rows
    return [_as_known(row) for row in rows]


def as_strangers(rows: Iterable[Row]) -> list[Row]:
    """Rows of the project's table as `as_known` reads them in a table of others, whose source has no further run."""
    blank = dict.fromkeys(UNNAMED, "")
    return [_as_known(row | blank | {"runtime": row["runtime"].partition("@")[0]}, alone=True) for row in rows]


@cache
def _published() -> dict[str, tuple[Row, ...]]:
    """The project's own rows by source."""
    by_source: dict[str, list[Row]] = {}
    for row in read_rows():
        by_source.setdefault(row["dataset"], []).append(normalised(row))
    return {source: tuple(rows) for source, rows in by_source.items()}


def _as_known(row: Row, alone: bool = False) -> Row:
    """alone: whether runs of its source are not looked at."""
    try:
        read = with_said_recipe(as_released(normalised(row)))
    except InvalidInput:
        return row
    taken = [f"{read['runtime']}, by what the row says of its software"] if read["runtime"] != row["runtime"] else []
    row = row | {name: read[name] for name in ("runtime", "precision")}
    of_source = () if alone else _of_its_source(read)
    others = [each for each in of_source if each["runtime"] == read["runtime"] and not _same_run(each, read)]
    for level in LEVELS:
        alike = [each for each in others if all(each[column] == read[column] for column in level)]
        if alike:
            named = " and ".join(dict.fromkeys(each["dataset"] for each in alike))
            taken.append(f"what {len(alike)} runs of {named} in the project's table have in common")
            row = row | _blanks(row, alike, of_model="model" in level) | _settings(alike, read)
            break
    else:
        row = row | {"known_by": BY_WORDS}
        alike = _of_its_release(read)
        of_model = [each for each in alike if _model(each) and _model(each) == _model(read)]
        shared = (_settings(alike, read) if alike else {}) | (_blanks(row, of_model, of_model=True) if of_model else {})
        if any(shared.values()):
            taken.append(f"what {len(alike)} such runs of {read['runtime']} in the project's table have in common")
            row = row | shared
    row, meant = _as_meant(row, of_new_model=all(each["model"] != read["model"] for each in others))
    taken.extend(meant)
    structure = _structure(read)
    if structure:
        taken.append(f"the structure {structure}, of a model of these sizes in the project's table")
    return row | {"assumed": "; ".join(taken), "architecture": row["architecture"] or structure}


def _as_meant(row: Row, *, of_new_model: bool) -> tuple[Row, list[str]]:
    """The row as its words, its framework and its date say, over what its siblings have; and what was taken so."""
    read, changed, why = normalised(row), dict[str, str](), list[str]()

    def take(read: Row, each: Taken) -> Row:
        why.append(each.why)
        changed.update(each.columns, **{"with": with_behaviours_over(read["with"], each.behaviours)})
        return read | changed

    for said_of in (said_layers, said_stage):
        for each in said_of(read):
            read = take(read, each)
    for meaning in meanings():
        if meant := meaning.taken(read, of_new_model=of_new_model):
            read = take(read, meant)
    return row | changed, why


def _of_its_source(read: Row) -> tuple[Row, ...]:
    """The project's runs of the row's source: of its dataset, or else of the repository that its source names."""
    if of_dataset := _published().get(read["dataset"], ()):
        return of_dataset
    repository = _repository(read)
    return _of_repository(repository) if repository else ()


@cache
def _of_repository(name: str) -> tuple[Row, ...]:
    """The project's runs whose source names it."""
    return tuple(each for each in _every_run() if _repository(each) == name)


def _repository(row: Row) -> str:
    named = REPOSITORY.search(row["source"])
    return named[1].lower() if named else ""


def _of_its_release(read: Row) -> list[Row]:
    """Runs of other sources of the row's release: with its model, or else with models of its kind, FEWEST at least."""
    runtime, kind = read["runtime"], _kind(read)
    if "@" not in runtime:
        return []
    of_release = [each for each in _every_run() if each["runtime"] == runtime and not _same_run(each, read)]
    alike = [each for each in of_release if _kind(each) == kind and each["dataset"] != read["dataset"]]
    model, same_gpu = _model(read), [each for each in alike if each["gpu"] == read["gpu"]]
    for known in (same_gpu, alike):
        if of_model := [each for each in known if model and _model(each) == model]:
            return of_model
    return next((known for known in (same_gpu, alike) if len(known) >= FEWEST), [])


def _kind(row: Row) -> tuple[str, str, bool]:
    """The recipe of a run, the generation of its accelerators, and whether its model has experts."""
    return row["precision"], _generation(row["gpu"]), bool(row["moe_experts"]) or _has_experts(_model(row))


def _generation(name: str) -> str:
    try:
        return str(int(read_accelerator(name).compute_capability or 0))
    except InvalidInput:
        return name


def _model(row: Row) -> str:
    return _catalogued(row["architecture"]) or _catalogued(row["model"])


@cache
def _catalogued(name: str) -> str:
    """The catalogue's id of a model; empty where it has none of that name."""
    try:
        return catalog.resolve("models", name)
    except UnknownName:
        return ""


@cache
def _has_experts(name: str) -> bool:
    return bool(name) and read_model(name).is_moe


def _structure(row: Row) -> str:
    """The structure that all runs of the project's table with a row's sizes have; empty for a row that names one, or a
    model of the catalogue, and where they differ.
    """
    if row["architecture"] or _catalogued(row["model"]) or not row["layers"]:
        return ""
    names = _structures().get(tuple(row[name] for name in SIZES), frozenset())
    return next(iter(names)) if len(names) == 1 else ""


@cache
def _structures() -> dict[tuple[str, ...], frozenset[str]]:
    """By their sizes, the structures of the models of the project's own rows."""
    by_sizes: dict[tuple[str, ...], set[str]] = {}
    for each in _every_run():
        by_sizes.setdefault(tuple(each[name] for name in SIZES), set()).add(each["architecture"])
    return {sizes: frozenset(names) for sizes, names in by_sizes.items()}


@cache
def _every_run() -> tuple[Row, ...]:
    return tuple(row for rows in _published().values() for row in rows)


def _same_run(one: Row, other: Row) -> bool:
    return one["id"] == other["id"] or (bool(one["config_key"]) and one["config_key"] == other["config_key"])


def _blanks(row: Row, alike: Sequence[Row], *, of_model: bool) -> Row:
    """The blank columns of a row in which all others have the same; modules where it recomputes some. of_model: whether
    they are runs of its model.
    """
    names = [name for name in UNPRINTED if of_model or name not in OF_A_MODEL]
    common = {name: values.pop() for name in names if len(values := {each[name] for each in alike}) == 1}
    taken = {name: value for name, value in common.items() if value and not row[name]}
    if (row["recompute"] or taken.get("recompute")) != RECOMPUTE_NAMES[Recompute.SELECTIVE]:
        taken.pop("recompute_modules", None)
    if int(taken.get("memory_rank") or 0) >= int(row["num_gpus"] or 0):
        taken.pop("memory_rank", None)
    return taken


def _settings(alike: Sequence[Row], read: Row) -> Row:
    """The parts of the columns of behaviours that all rows have, but for settings that no run in a row's recipe has."""
    in_its_recipe = _settings_by_recipe().get(_recipe(read), frozenset())
    settings = [name for name in split_list(_shared(alike, "settings")) if name in in_its_recipe]
    return {"settings": ";".join(settings), "with": _shared(alike, "with")}


@cache
def _settings_by_recipe() -> dict[str, frozenset[str]]:
    """By recipe, the settings that any of the project's runs in it has."""
    by_recipe: dict[str, set[str]] = {}
    for each in _every_run():
        by_recipe.setdefault(_recipe(each), set()).update(split_list(each["settings"]))
    return {recipe: frozenset(names) for recipe, names in by_recipe.items()}


def _recipe(row: Row) -> str:
    return row["precision"] or HALF


def _shared(rows: Sequence[Row], column: str) -> str:
    """The parts of a column that all rows have."""
    first, *rest = (split_list(row[column]) for row in rows)
    return ";".join(part for part in first if all(part in parts for parts in rest))
