"""Numbers: what settings of launch files count."""

from __future__ import annotations

from typing import Any

DIGITS = 14
"""At most; nothing that is counted has more, and Python converts no number of 4,300."""


def whole_number(value: Any) -> int | None:
    """A whole number; None where the value is none, or has more than `DIGITS` digits.

    >>> whole_number("1_024"), whole_number("9" * 5000), whole_number("auto")
    (1024, None, None)
    """
    text = str(value).replace("_", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS else None
