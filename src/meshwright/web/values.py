"""Values: what is typed into a line of the form, read; each raises `InvalidInput`."""

from __future__ import annotations

import math

from meshwright.errors import InvalidInput, quoted
from meshwright.specs import catalog
from meshwright.units import parse_count
from meshwright.web.fields import GRADIENTS


def precision(text: str) -> str:
    """A recipe of the catalogue."""
    return catalog.resolve("precisions", text)


def tokens(text: str) -> str:
    """A count, as it was typed."""
    parse_count(text)
    return text


def gradients(text: str) -> str:
    """What gradients are summed in."""
    if text not in GRADIENTS:
        raise InvalidInput(f"{quoted(text)} is unknown; known: {', '.join(GRADIENTS)}")
    return text


def ratio(text: str) -> float:
    """A number."""
    return _number(text, "a number: write it as 1.2")


def layers(text: str) -> int:
    """A whole number."""
    if not text.isdecimal():
        raise InvalidInput(f"{quoted(text)} is no whole number")
    return int(text)


def price(text: str) -> float:
    """Of one accelerator for one hour."""
    price = _number(text, "a price: write it as 2.9")
    if price < 0:
        raise InvalidInput(f"{quoted(text)} is below 0")
    return price


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(f"{quoted(text)} is not {what}")
    return value
