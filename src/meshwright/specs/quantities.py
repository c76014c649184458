"""Quantities that a file may write with their unit (`80GB`, `400Gb/s`, `5us`) or as a plain number in base units."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from meshwright.units import parse_bandwidth, parse_bytes, parse_seconds

MOST = 1e18
"""Bytes, or bytes per second: more than any machine has or moves."""
LEAST_BANDWIDTH = 1.0
"""Bytes per second: less than any link moves."""


def _moves(bandwidth: float) -> float:
    if bandwidth < LEAST_BANDWIDTH:
        raise ValueError("must be 1 byte/s or more")
    return bandwidth


def _rounded_up(size: float) -> int:
    """`math.ceil`, whose signature pydantic would read from its text."""
    return math.ceil(size)


Bytes = Annotated[
    float, Field(gt=0, le=MOST, allow_inf_nan=False), BeforeValidator(parse_bytes), AfterValidator(_rounded_up)
]
"""A size in whole bytes, above zero; 79.1GiB is rounded up."""
Bandwidth = Annotated[
    float, Field(gt=0, le=MOST, allow_inf_nan=False), BeforeValidator(parse_bandwidth), AfterValidator(_moves)
]
"""Bytes per second in one direction, one or more."""
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), BeforeValidator(parse_seconds)]
"""A duration in seconds, zero or more."""
NonNegative = Annotated[float, Field(ge=0, le=1e12)]
"""A number of any unit, zero or more."""
