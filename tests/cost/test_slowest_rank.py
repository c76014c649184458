"""The slowest of many accelerators."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.compute.slowdown import slowdown, slowest_rank, usual_slowdown
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs


@pytest.mark.parametrize("ranks", [2, 8, 64, 1024])
def test_the_slowest_is_the_largest_of_as_many_normal_deviates(ranks: int) -> None:
    drawn = np.random.default_rng(0).standard_normal((4000, ranks)).max(axis=1).mean()
    assert slowest_rank(ranks, 0.0148) - 1 == pytest.approx(0.0148 * drawn, rel=0.03)


def test_one_accelerator_waits_for_none_and_more_for_longer() -> None:
    job = Job(sequence_length=4096, global_batch=4096)
    found = [read_inputs("llama-3.1-8b", cluster, job) for cluster in ("1x1:h100", "1x8:h100", "128x8:h100")]
    alone, node, many = (slowdown(inputs) / usual_slowdown(inputs) for inputs in found)
    assert alone == 1
    assert 1.015 < node < 1.025 < 1.04 < many < 1.055
