"""PyTorch holds, allocates and sends what the planner says, to the byte; the peak within 2 %."""

from __future__ import annotations

import pytest
from plans_run import CASES, PIPELINES, asked, off, run

from meshwright.pytorch.fake_world.compare import StageCheck
from torch_forks import verify

pytestmark = pytest.mark.clients("torch")


def _counts(check: StageCheck, axis: str, kind: str, phase: str, size: int | None = None) -> int:
    """How often PyTorch issued a collective, of one size where it is given."""
    return sum(
        each.observed
        for each in check.collectives
        if (each.collective.axis, each.collective.kind, each.collective.phase) == (axis, kind, phase)
        and size in (None, each.collective.bytes)
    )


@pytest.mark.parametrize("name", [name for name in CASES if name not in PIPELINES])
def test_pytorch_agrees_with_every_figure(name: str) -> None:
    done = run(name)
    assert not off(done)
    assert done.holds


def test_one_rank_stores_the_parameters_that_torchtitan_gives_it() -> None:
    """8B on 64 ranks with TP 8 and 8 shards: 125501952 parameters on rank 0."""
    (stage,) = run("tp with sp").stages
    (parameters,) = (each.observed for each in stage.quantities if each.name == "parameters")
    assert parameters == 4 * 125501952


def test_tensor_parallel_collectives_are_those_that_were_counted_before() -> None:
    """L = 32: 2L + 1 all-gathers and reduce-scatters each way; full recomputation adds 2L of both; without sequence
    parallelism 2L + 1 all-reduces each way.
    """
    (plain,), (full,), (without,) = (run(name).stages for name in ("tp with sp", "tp full", "tp without sp"))
    for kind in ("all_gather", "reduce_scatter"):
        assert _counts(plain, "tp", kind, "forward") == _counts(plain, "tp", kind, "backward") == 65
        assert _counts(full, "tp", kind, "backward") == 65 + 64
    whole = 2 * 2048 * 4096
    assert _counts(without, "tp", "all_reduce", "forward", whole) == 65
    assert _counts(without, "tp", "all_reduce", "backward", whole) == 65


def test_a_ring_passes_on_keys_and_values_and_their_gradients() -> None:
    """Each of 32 layers: cp - 1 times the local keys and values of 32 heads each way, which torchtitan's first release
    repeats, cp times their fp32 gradients.
    """
    (stage,) = run("ring").stages
    local = 2 * 2048 * 2 * 32 * 128
    assert _counts(stage, "cp", "all_to_all", "forward", local) == 32 * 3
    assert _counts(stage, "cp", "all_to_all", "backward", local) == 32 * 3
    assert _counts(stage, "cp", "all_to_all", "backward", 2 * local) == 32 * 4


def test_ends_that_are_units_of_their_own_are_gathered_and_reduced_alone() -> None:
    """L + 3 all-gathers forward, with one of the head for the loss in pieces, which reduces its gradients there; L + 2
    backward, with one of the head for the final norm; L + 2 reduce-scatters, with one of the final norm.
    """
    (stage,) = run("ends apart").stages
    phases = ("forward", "backward")
    assert [_counts(stage, "dp", "all_gather", phase) for phase in phases] == [35, 34]
    assert [_counts(stage, "dp", "reduce_scatter", phase) for phase in phases] == [1, 34]


def test_a_model_of_two_layers_is_not_extrapolated() -> None:
    assert run("two layers").all_layers
    assert not run("zero 3").all_layers


def test_progress_counts_the_ranks_that_were_run() -> None:
    calls: list[tuple[int, int]] = []
    verify(*asked("two layers"), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 1), (1, 1)]


def test_megatron_is_compared_in_what_it_shares() -> None:
    done = run("megatron")
    names = {each.name for stage in done.stages for each in stage.quantities}
    assert names == {"parameters before sharding", "live micro-batches"}
    assert len(done.scope.unchecked) == 2
    assert {each.collective.axis for stage in done.stages for each in stage.collectives} == {"tp", "pp"}
