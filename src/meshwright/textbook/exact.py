"""Exact: closed forms are worked out in fractions and become a float once, at the end."""

from __future__ import annotations

from fractions import Fraction

from meshwright.errors import InvalidInput

GIGABYTE = 10**9
PLACES = 4


def as_float(value: Fraction, key: str) -> float:
    """The float nearest to an exact value; raises `InvalidInput` for one beyond every float.

    >>> as_float(Fraction(1, 10), "usage")
    0.1
    >>> as_float(Fraction(10**400), "total_gb")
    Traceback (most recent call last):
    meshwright.errors.InvalidInput: total_gb is about 2^1328, beyond the largest float (1.8e308): give smaller sizes
    """
    try:
        return float(value)
    except OverflowError:
        power = value.numerator.bit_length() - value.denominator.bit_length()
        raise InvalidInput(
            f"{key} is about 2^{power}, beyond the largest float (1.8e308): give smaller sizes"
        ) from None


def rounded(value: Fraction, key: str) -> float:
    """The same, rounded to four decimals.

    >>> rounded(Fraction(1, 3), "bubble_ratio")
    0.3333
    """
    return round(as_float(value, key), PLACES)
