"""Quantities that a file may write with their unit (`80GB`, `400Gb/s`, `5us`) or as a plain number in base units."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from meshwright.units import parse_bandwidth, parse_bytes, parse_seconds

Bytes = Annotated[float, BeforeValidator(parse_bytes), Field(gt=0, allow_inf_nan=False)]
"""A size in bytes, above zero."""
Bandwidth = Annotated[float, BeforeValidator(parse_bandwidth), Field(gt=0, allow_inf_nan=False)]
"""Bytes per second in one direction, above zero."""
Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, allow_inf_nan=False)]
"""A duration in seconds, zero or more."""
