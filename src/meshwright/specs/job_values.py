"""Job values: how the values of a job are read from what users write, as text or as numbers; each raises
`InvalidInput`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

from meshwright.errors import InvalidInput, quoted
from meshwright.specs.job import GradientFormat
from meshwright.units import parse_count, parse_length, parse_share

GRADIENTS: tuple[str, ...] = get_args(GradientFormat)
MOST_DIGITS = 18
"""Of a whole number; Python reads none of thousands."""


def _positive(count: int) -> int:
    if count < 1:
        raise InvalidInput(f"must be 1 or more (given: {count})")
    return count


def _length(value: Any) -> int:
    return _positive(parse_length(value))


def _count(value: Any) -> int:
    return _positive(parse_count(value))


def _count_text(value: Any) -> str:
    return str(value) if _count(value) else ""


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{quoted(value)} is not a number: write it as 1.2")
    return number


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not (isinstance(value, str) and value.isdecimal() and len(value) <= MOST_DIGITS):
        raise InvalidInput(f"{quoted(value)} is no whole number")
    return int(value)


def _gradients(value: Any) -> str:
    if value not in GRADIENTS:
        raise InvalidInput(f"{quoted(value)} is unknown; known: {', '.join(GRADIENTS)}")
    return str(value)


READERS: dict[str, Callable[[Any], Any]] = {
    "seq_len": _length,
    "global_batch": _count,
    "global_batch_tokens": _count_text,
    "document_length": _length,
    "gradients": _gradients,
    "tokens": _count_text,
    "risk": parse_share,
    "expert_imbalance": _number,
    "expert_capacity": _number,
    "mtp_layers": _whole,
    "lora_rank": _whole,
    "lora_modules": str,
}
"""By the name of the option; what they return is as `job_or_usual` takes it, beside the length."""
