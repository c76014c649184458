"""Student's t, for intervals that rest on few values."""

from __future__ import annotations

STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350, 1.345, 1.341)
"""Student's t that nine of ten values stay below, with 1, 2, ... degrees of freedom; its test integrates them."""


def student(degrees: int) -> float:
    """The value that nine of ten stay below; degrees: of freedom, 1 or more. Above 15 it is that of 15."""
    return STUDENT[min(degrees, len(STUDENT)) - 1]
