"""Layers that FSDP gathers as far ahead as the host issues them, before torch 2.1."""

from __future__ import annotations

import pytest

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from strategies import question

MODEL = read_model("llama-2-7b")


def priced(runtime: str, zero: int = 3, ranks: int = 8, cluster: str = "a100") -> Estimate:
    inputs = question(MODEL, f"1x{ranks}:{cluster}", runtime, sequence_length=2048, global_batch=ranks)
    return estimate_each([Plan(dp=ranks, zero=zero, recompute=Recompute.FULL)], inputs)[0]


def test_the_allocator_holds_every_layer_but_the_two_that_are_gathered_anyway() -> None:
    """In 2 bytes: 30 of the 32 layers of Llama-2-7B."""
    of_now, before = (priced(runtime).memory for runtime in ("pytorch-fsdp1", "pytorch-fsdp1@torch-2.0"))
    layers = parameter_count(MODEL) - (2 * 32_000 + 1) * 4096
    assert before.fragmentation - of_now.fragmentation == pytest.approx(2 * layers * 30 / 32, rel=1e-6)
    assert before.allocated == of_now.allocated


@pytest.mark.parametrize(("zero", "ranks"), [(2, 8), (3, 1)])
def test_nothing_runs_ahead_where_layers_stay_gathered_or_no_other_rank_holds_them(zero: int, ranks: int) -> None:
    runtimes = ("pytorch-fsdp1", "pytorch-fsdp1@torch-2.0")
    of_now, before = (priced(runtime, zero, ranks, "h200") for runtime in runtimes)
    assert before.memory.reserved == pytest.approx(of_now.memory.reserved)


def test_it_is_given_back_before_memory_runs_out() -> None:
    """So that what one of ten runs holds less than stays as it is, and a run that would hold too much is at risk."""
    of_now, before = (priced(runtime).fit for runtime in ("pytorch-fsdp1", "pytorch-fsdp1@torch-2.0"))
    assert before.needed_bytes > 1.6 * of_now.needed_bytes
    assert before.least_bytes == pytest.approx(of_now.least_bytes, rel=0.02)
    small = priced("pytorch-fsdp1@torch-2.0", cluster="rtx-4090")
    assert small.memory.device > small.fit.visible_bytes
    assert small.verdict is Verdict.AT_RISK
