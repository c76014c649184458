"""The all-reduce cost of tensor parallelism: its worked values and laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.textbook import tensor_parallel_allreduce_cost

sizes = st.integers(min_value=1, max_value=10**6)


def test_the_worked_example() -> None:
    cost = tensor_parallel_allreduce_cost(4096, 2048, 1, 8, 32)
    assert cost == {
        "message_size_bytes": 16777216,
        "comm_volume_per_allreduce_bytes": 29360128.0,
        "total_comm_volume_bytes": 1879048192.0,
        "total_comm_time_ms": 6.2635,
    }
    assert [type(value) for value in cost.values()] == [int, float, float, float]


def test_one_gpu_sends_nothing() -> None:
    cost = tensor_parallel_allreduce_cost(4096, 2048, 1, 1, 32)
    assert list(cost.values()) == [16777216, 0.0, 0.0, 0.0]


def test_training_sends_twice_as_much_as_the_forward_pass() -> None:
    forward = tensor_parallel_allreduce_cost(4096, 2048, 1, 8, 32)
    training = tensor_parallel_allreduce_cost(4096, 2048, 1, 8, 32, allreduces_per_layer=4)
    assert training["total_comm_volume_bytes"] == 2 * forward["total_comm_volume_bytes"]


def test_the_message_is_exact_for_any_size() -> None:
    cost = tensor_parallel_allreduce_cost(10**20 + 1, 10**20 + 3, 7, 2, 1)
    assert cost["message_size_bytes"] == (10**20 + 1) * (10**20 + 3) * 14


def test_a_volume_beyond_every_float_is_said_so() -> None:
    with pytest.raises(InvalidInput, match="comm_volume_per_allreduce_bytes is about 2"):
        tensor_parallel_allreduce_cost(10**400, 1, 1, 2, 1)


@given(hidden=sizes, more=sizes, gpus=st.integers(min_value=1, max_value=10**4))
def test_more_is_never_sent_for_less(hidden: int, more: int, gpus: int) -> None:
    little = tensor_parallel_allreduce_cost(hidden, 128, 1, gpus, 4)
    much = tensor_parallel_allreduce_cost(hidden + more, 128, 1, gpus + 1, 4)
    assert all(little[key] <= much[key] for key in little)
    assert little["comm_volume_per_allreduce_bytes"] < 2 * little["message_size_bytes"]


@given(bandwidth=st.floats(min_value=1, max_value=1e6))
def test_twice_the_bandwidth_takes_half_the_time(bandwidth: float) -> None:
    once, twice = (
        tensor_parallel_allreduce_cost(4096, 2048, 1, 8, 32, bandwidth_gb_per_sec=each)["total_comm_time_ms"]
        for each in (bandwidth, 2 * bandwidth)
    )
    assert twice == pytest.approx(once / 2, abs=1.1e-4)
