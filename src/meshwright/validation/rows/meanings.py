"""Meanings: what the words of a row say of its settings, and what its framework does where the row is silent."""

from __future__ import annotations

import re
from functools import cache

from meshwright.specs.base import Spec
from meshwright.validation.rows.released import NEVER, month_of, written_at
from meshwright.validation.rows.said import Taken
from meshwright.validation.rows.settings import document, settings
from meshwright.validation.rows.table import Row

WORDS = ("runtime_detail", "precision_detail", "notes")
"""Columns of words on a run; its source may name what other runs of it had."""
NEGATED = r"(?<!\bno )(?<!\bnot )(?<!\bwithout )"
"""What is said not to be is not meant."""


class Period(Spec):
    """When a framework did so."""

    first: str = ""
    """The first month, of a source that names no pull request; blank: from the beginning."""
    last: str
    """The last."""
    pull_requests: tuple[tuple[int, int], ...]
    """The first and the last of each span in which it did so."""

    def is_of(self, row: Row) -> bool:
        """Whether a row ran then, by what its source names."""
        pull, month = written_at(row)
        if pull:
            return any(first <= pull <= last for first, last in self.pull_requests)
        first = month_of(self.first) if self.first else NEVER
        return month != NEVER and first <= month <= month_of(self.last)


class Meaning(Spec):
    """What rows that meet every condition mean. Patterns are regular expressions, without regard to case; `\\1` in a
    value is the first group of `says`.
    """

    frameworks: tuple[str, ...] = ()
    """Runtimes without their release; none: any."""
    says: str = ""
    """A pattern that the words of the row have, without a no before it."""
    unless: str = ""
    """One that they have not."""
    words: tuple[str, ...] = WORDS
    """The columns that hold them."""
    where: dict[str, str] = {}
    """By column, the pattern that its whole value has."""
    above: dict[str, float] = {}
    """By column, what its value is larger than; a blank one is 0."""
    period: Period | None = None
    of_new_models: bool = False
    """Of rows alone whose source has no run of their model in the project's table."""
    what: str = ""
    """Blank: as the settings say."""
    source: str = ""
    columns: dict[str, str] = {}
    settings: tuple[str, ...] = ()
    behaviours: tuple[str, ...] = ()
    """`KEY=VALUE`."""

    def taken(self, row: Row, *, of_new_model: bool) -> Taken | None:
        """What is taken of a row; None where it meets not every condition."""
        if not self._fits(row) or (self.of_new_models and not of_new_model):
            return None
        text = "; ".join(row[column] for column in self.words)
        found = re.search(f"{NEGATED if self.says else ''}(?:{self.says})", text, re.IGNORECASE)
        if not found or (self.unless and re.search(self.unless, text, re.IGNORECASE)):
            return None
        named = [settings()[name] for name in self.settings]
        return Taken(
            "; ".join([found.expand(self.what)] if self.what else map(str, named)),
            {column: found.expand(value) for column, value in self.columns.items()},
            (*(each for one in named for each in one.behaviours), *map(found.expand, self.behaviours)),
        )

    def _fits(self, row: Row) -> bool:
        framework = row["runtime"].partition("@")[0]
        return (
            (not self.frameworks or framework in self.frameworks)
            and all(re.fullmatch(pattern, row[column], re.IGNORECASE) for column, pattern in self.where.items())
            and all(float(row[column] or 0) > least for column, least in self.above.items())
            and (self.period is None or self.period.is_of(row))
        )


@cache
def meanings() -> tuple[Meaning, ...]:
    """All that are known, in the order in which rows take them."""
    return tuple(Meaning(**each) for each in document("meanings")["meaning"])
