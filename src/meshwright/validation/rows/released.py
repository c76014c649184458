"""Released: the framework and the release of a row that names them in words alone, in columns for people."""

from __future__ import annotations

import re
from functools import cache

from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.runtime import read_runtime, releases
from meshwright.validation.rows.settings import document, stand_ins
from meshwright.validation.rows.table import Row

MONTH = re.compile(r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])?(?!\d)")
"""A year with its month, or alone."""
PULL_REQUEST = re.compile(r"#(\d{1,5})\b|\bpull(?: request)? (\d{1,5})\b")
NUMBER = re.compile(r"(?<!\d)(\d\d)\.(\d\d)(?!\d)")
"""Of a release by its month, as 25.09."""
VERSION = re.compile(r"\d+(?:\.\d+)+")
DATES_SOFTWARE = ("runtime_detail", "software_release", "notes")
"""Columns that may say of when the framework was."""
HALF = "bf16"
"""The recipe of a row that names none."""
LAST_MONTH = 12
"""Of a year that stands alone."""
NEVER = (0, 0)
"""The month of a source that names none."""


class Named(Spec):
    """A framework that rows of a runtime name in `runtime_detail`."""

    runtime: str
    says: str
    unless: str = ""
    """Words with which they mean something else."""
    framework: str
    release: str = ""
    """The one that the words mean; blank: the numbered one that ran."""
    prefix: str = ""
    """Of its releases, before their number."""
    precisions: dict[str, str] = {}
    """Recipes that its configurations mean by other names."""


class Dated(Spec):
    """Until when each release was the newest, the oldest first."""

    months: dict[str, str]
    pull_requests: dict[str, int]


@cache
def _named() -> tuple[Named, ...]:
    return tuple(Named(**each) for each in document("frameworks")["named"])


@cache
def _dated() -> dict[str, Dated]:
    return {name: Dated(**each) for name, each in document("frameworks")["dated"].items()}


def as_released(row: Row) -> Row:
    """The row with the framework and the release that its words name; as it is where its runtime names a release.

    Raises `UnknownName` for a runtime that the catalogue has not.
    """
    name = row["runtime"]
    if not name or "@" in name or name in stand_ins():
        return row
    meant = _by_name(row) or _by_version(row) or _by_date(row) or name
    framework, _, release = meant.partition("@")
    alike = (each for each in _named() if each.framework == framework and release.startswith(each.prefix))
    recipes = next((each.precisions for each in alike), {})
    return row | {"runtime": meant, "precision": recipes.get(row["precision"], row["precision"])}


def with_its_recipe(row: Row) -> tuple[Row, list[str]]:
    """The row as a run of the newest release that has its recipe and its ZeRO stage, where the framework of now has
    dropped one; and that this was taken. Raises `UnknownName` for a runtime or a recipe that the catalogue has not.
    """
    name = row["runtime"]
    if not name or "@" in name or name in stand_ins():
        return row, []
    precision, stage = catalog.resolve("precisions", row["precision"] or HALF), row["zero_stage"]

    def lacks(runtime: str) -> str:
        plans = read_runtime(runtime).plans
        if precision not in plans.precisions:
            return precision
        return f"ZeRO {stage}" if stage.isdecimal() and int(stage) not in plans.zero_stages else ""

    lacking = lacks(name)
    had = (f"{name}@{each}" for each in reversed([*releases(name)]) if lacking)
    found = next((each for each in had if not lacks(each)), "")
    return (row | {"runtime": found}, [f"{found}, the newest release that has {lacking}"]) if found else (row, [])


def _by_name(row: Row) -> str:
    """Of the framework that `runtime_detail` names, with the release that is no later than the one that ran."""
    said = row["runtime_detail"].lower()
    for each in _named():
        other = each.unless and each.unless.lower() in said
        if each.runtime == row["runtime"] and each.says.lower() in said and not other:
            if each.release:
                return f"{each.framework}@{each.release}"
            known = [release for release in releases(each.framework) if release.startswith(each.prefix)]
            numbered = {release: number for release in known if (number := _number(release))}
            ran = _number(row["software_release"]) or _number(row["runtime_detail"]) or _month(row)
            if not numbered or ran is None:
                return each.framework
            earlier = [release for release, number in numbered.items() if number <= ran]
            return f"{each.framework}@{earlier[-1] if earlier else next(iter(numbered))}"
    return ""


def _by_version(row: Row) -> str:
    """Of the oldest release that is no older than the version of `software_release`, or the framework of today where
    all are older; empty where it names no version.
    """
    name, said, named = row["runtime"], row["software_release"].lower().replace(" ", "-"), False
    for release in releases(name):
        if numbered := VERSION.search(release):
            prefix, last = release[: numbered.start()], _version(numbered[0])
            ran = VERSION.search(said.partition(prefix)[2] if prefix else said)
            if ran and _version(ran[0])[: len(last)] <= last:
                return f"{name}@{release}"
            named |= bool(ran)
    return name if named else ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _number(text: str) -> tuple[int, int] | None:
    found = NUMBER.search(text)
    return (int(found[1]), int(found[2])) if found else None


def _month(row: Row) -> tuple[int, int] | None:
    """As the number of a release, of the month that the row's words name."""
    year, month = written_at(row)[1]
    return (year % 100, month) if year else None


def _by_date(row: Row) -> str:
    """Of the release that was the newest when the source was written; empty for that of now, or without a date."""
    dated, (pull, month) = _dated().get(row["runtime"]), written_at(row)
    if dated is None:
        return ""
    if pull:
        return _until(row["runtime"], {release: last for release, last in dated.pull_requests.items() if pull <= last})
    last_months = {release: month_of(last) for release, last in dated.months.items()}
    return _until(row["runtime"], {release: last for release, last in last_months.items() if NEVER < month <= last})


def written_at(row: Row) -> tuple[int, tuple[int, int]]:
    """The month of the software that a row dates in words; or else the first pull request that its source names, and
    the month of its software, or the earliest that its source names. 0 and (0, 0) where it names none.
    """
    text = "; ".join(row[column] for column in DATES_SOFTWARE)
    software = row["runtime"].partition("@")[0]
    if ran := re.search(rf"\b{re.escape(software)}(?:[@ ][\w.]+)? (?:of |\()(20\d\d-(?:0[1-9]|1[0-2]))", text):
        return 0, month_of(ran[1])
    pulls = [int(one or other) for one, other in PULL_REQUEST.findall(row["source"])]
    ran_in = MONTH.fullmatch(row["software_release"])
    dates = [ran_in.groups()] if ran_in else MONTH.findall(row["source"])
    months = [(int(year), int(month or LAST_MONTH)) for year, month in dates]
    return pulls[0] if pulls else 0, min(months, default=NEVER)


def month_of(text: str) -> tuple[int, int]:
    """Year and month of `2025-03`."""
    year, month = text.split("-")
    return int(year), int(month)


def _until(framework: str, possible: dict[str, object]) -> str:
    return f"{framework}@{next(iter(possible))}" if possible else ""
