"""Question: what a form or a link asks, as it was typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode

from meshwright.errors import InvalidInput, quoted
from meshwright.units import MOST_PRICE, is_price
from meshwright.web.fields import FIELDS
from meshwright.web.packing import pack, unpack

BEFORE = "was_"
"""Begins the name of what the question before had otherwise."""


@dataclass(frozen=True)
class Question:
    """A question as it was typed."""

    values: Mapping[str, str]
    """By field, without those that are empty."""

    @classmethod
    def of(cls, typed: Mapping[str, str]) -> Self:
        """The question of a form, of which fields may be missing; unknown ones are passed over."""
        return cls({name: typed[name].strip() for name in FIELDS if typed.get(name, "").strip()})

    @classmethod
    def of_link(cls, pairs: Mapping[str, str]) -> tuple[Self, Self | None]:
        """The question of a link, and the one before it where the link says what that had otherwise.

        Raises `InvalidInput` for a damaged link.
        """
        values = dict(pairs)
        for name in ("config", f"{BEFORE}config"):
            if values.get(name):
                values[name] = unpack(values[name])
        changed = {name.removeprefix(BEFORE): value for name, value in values.items() if name.startswith(BEFORE)}
        return cls.of(values), cls.of({**values, **changed}) if changed else None

    def link(self, before: Question | None = None) -> str:
        """The question as the query of a link, with what the one before had otherwise.

        >>> Question.of({"model": "gpt2", "seq_len": "1024"}).link(Question.of({"model": "gpt2"}))
        'model=gpt2&seq_len=1024&was_seq_len='
        """
        pairs = dict(self.values)
        if before is not None:
            names = [name for name in FIELDS if self.values.get(name, "") != before.values.get(name, "")]
            pairs |= {f"{BEFORE}{name}": before.values.get(name, "") for name in names}
        packed = {name: pack(text) if name.endswith("config") and text else text for name, text in pairs.items()}
        return urlencode(packed)

    def replace(self, **changes: str) -> Question:
        """The question with other values; an empty one leaves a field out."""
        return Question.of({**self.values, **changes})

    @property
    def price(self) -> float | None:
        """Of one accelerator for one hour; None where none is given."""
        return read_price(self.values["price"]) if "price" in self.values else None


def read_price(text: str) -> float:
    """What one accelerator costs for one hour; raises `InvalidInput` for what is no price."""
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not is_price(price):
        raise InvalidInput(f"{quoted(text)} is not a price, from 0 to {MOST_PRICE:g}: write it as 2.9")
    return price
