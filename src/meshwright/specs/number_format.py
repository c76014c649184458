"""Number format: what a floating-point format of some exponent and fraction bits can hold."""

from __future__ import annotations

from typing import NamedTuple


class FloatFormat(NamedTuple):
    """A binary format of IEEE 754's kind: one sign bit, exponent, fraction with a hidden one."""

    name: str
    exponent_bits: int
    fraction_bits: int

    @property
    def largest(self) -> float:
        """The largest finite number.

        >>> FP16.largest
        65504.0
        """
        bias = 2 ** (self.exponent_bits - 1) - 1
        return float((2 - 2.0**-self.fraction_bits) * 2.0**bias)

    @property
    def least_normal(self) -> float:
        """The least number with full accuracy."""
        return float(2.0 ** (2 - 2 ** (self.exponent_bits - 1)))

    @property
    def least(self) -> float:
        """The least number above zero.

        >>> f"{FP16.least:.1e}"
        '6.0e-08'
        """
        return self.least_normal * 2.0**-self.fraction_bits

    @property
    def spacing(self) -> float:
        """From 1 to the next number.

        >>> BF16.spacing
        0.0078125
        """
        return float(2.0**-self.fraction_bits)

    @property
    def counts_to(self) -> int:
        """Where a sum of ones stops growing: the next number is further away than 1, and half of that rounds down.

        >>> BF16.counts_to, FP16.counts_to
        (256, 2048)
        """
        return int(2 ** (self.fraction_bits + 1))


BF16 = FloatFormat("bf16", 8, 7)
FP16 = FloatFormat("fp16", 5, 10)
FP32 = FloatFormat("fp32", 8, 23)
FORMATS = {each.name: each for each in (BF16, FP16, FP32)}
