"""Number formats against NumPy's own and against rounding done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.specs.precision import BF16, FP16, FP32, FloatFormat


@pytest.mark.parametrize(("ours", "theirs"), [(FP16, np.float16), (FP32, np.float32)])
def test_limits_are_numpys(ours: FloatFormat, theirs: type[np.floating]) -> None:
    limits = np.finfo(theirs)
    assert ours.largest == float(limits.max)
    assert ours.least_normal == float(limits.smallest_normal)
    assert ours.least == float(limits.smallest_subnormal)
    assert ours.spacing == float(limits.eps)


def _bf16(value: float) -> float:
    """Rounded to bf16, ties to even, by the bits of fp32."""
    bits = int(np.float32(value).view(np.uint32))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(np.uint32(rounded).view(np.float32))


def test_a_small_update_is_lost_in_bf16() -> None:
    assert _bf16(1 + 0.4 * BF16.spacing) == 1
    assert _bf16(1 + 0.6 * BF16.spacing) == 1 + BF16.spacing
    assert _bf16(1.003) == 1


@pytest.mark.parametrize("ours", [BF16, FP16])
def test_a_sum_of_ones_stops_where_it_is_said_to(ours: FloatFormat) -> None:
    add = _bf16 if ours is BF16 else (lambda value: float(np.float16(value)))
    total = 0.0
    for _ in range(4 * ours.counts_to):
        total = add(total + 1)
    assert total == ours.counts_to


def test_bf16_has_the_range_of_fp32() -> None:
    assert BF16.least_normal == FP32.least_normal
    assert BF16.largest == pytest.approx(FP32.largest, rel=BF16.spacing)
