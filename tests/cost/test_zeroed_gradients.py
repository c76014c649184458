"""Gradients that are filled with zeros after a step, before torch 2.0, stay beside the buckets of DDP."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from strategies import question

MODEL = read_model("qwen3-0.6b")


def priced(runtime: str, micro_batches: int) -> Components[float]:
    inputs = question(MODEL, "1x2:a100", runtime, sequence_length=512, global_batch=2 * micro_batches)
    inputs = inputs.replace(runtime=inputs.runtime.replace(attention_kernel="flash-2"))
    plan = Plan(dp=2, num_microbatches=micro_batches, recompute=Recompute.FULL)
    return estimate_each([plan], inputs)[0].memory


def test_an_only_micro_batch_has_them_all_the_time() -> None:
    """4 bytes a parameter of gradients and 4 of buckets, which a step of several micro-batches always has."""
    gradients = [priced("pytorch-ddp@torch-1.13", count).gradients for count in (1, 2)]
    assert gradients == pytest.approx([8 * parameter_count(MODEL)] * 2, rel=1e-3)


def test_a_release_that_drops_them_has_less_while_it_works_forward() -> None:
    of_now, before = (priced(runtime, 1) for runtime in ("pytorch-ddp", "pytorch-ddp@torch-1.13"))
    assert before.allocated > of_now.allocated
    assert priced("pytorch-ddp", 2).allocated == pytest.approx(priced("pytorch-ddp@torch-1.13", 2).allocated)
