"""Torchtitan's own model, checkpointing and sharding where it is installed; else the trainer's, as the answer says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from meshwright.layout.plan import Plan, Recompute
from meshwright.pytorch.fake_world.compare import StageCheck
from meshwright.pytorch.fake_world.verify import Verification, verify
from meshwright.pytorch.frameworks import NONE, Versions, own_framework
from meshwright.pytorch.report import verification_blocks
from meshwright.specs.inputs import Inputs
from meshwright.specs.read_model import read_model
from strategies import question

LENGTH, HEAD = 2048, 128
APART = {"ends_apart": True}
ENDS = {"embedding_as_layer": True, "head_as_layer": True}
FULL = Plan(dp=8, zero=3, num_microbatches=2, recompute=Recompute.FULL)


def _asked(plan: Plan, model: str = "llama-3.1-8b", runtime: str = "torchtitan", **changes: Any) -> Inputs:
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    cluster = f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"
    inputs = question(read_model(model), cluster, runtime, sequence_length=LENGTH, global_batch=batch)
    return inputs.replace(runtime=inputs.runtime.replace(**changes))


@cache
def _run(plan: Plan, model: str = "llama-3.1-8b") -> Verification:
    return verify(plan, _asked(plan, model, **APART))


def _off(stage: StageCheck) -> dict[str, float]:
    """By how much PyTorch's figure is above the planner's, of those that do not hold; collectives by axis and kind."""
    off = {each.name: each.observed - each.predicted for each in stage.quantities if not each.holds}
    for each in stage.collectives:
        if not each.holds:
            axis, kind, *_ = each.collective
            off[f"{axis} {kind}"] = off.get(f"{axis} {kind}", 0) + each.observed - each.predicted
    return off


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "model"),
    [
        (FULL, "llama-3.1-8b"),
        (Plan(dp=8, zero=3, num_microbatches=2, recompute=Recompute.SELECTIVE), "qwen3-8b"),
        (Plan(dp=4, tp=4, sp=True, zero=3, recompute=Recompute.SELECTIVE), "llama-3.1-8b"),
        (Plan(pp=2, dp=4, zero=2, num_microbatches=4, recompute=Recompute.FULL, **ENDS), "llama-3.1-8b"),
    ],
    ids=["full", "selective", "selective tp", "pipeline"],
)
def test_with_recomputation_every_figure_is_that_of_torchtitan(plan: Plan, model: str) -> None:
    done = _run(plan, model)
    assert done.scope.framework.startswith("torchtitan 0.3.")
    assert [_off(stage) for stage in done.stages] == [{}] * plan.pp
    assert done.holds


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
@pytest.mark.parametrize(("model", "bytes_per_position"), [("llama-3.1-8b", 4 * HEAD), ("qwen3-8b", 8 * HEAD)])
def test_each_layer_keeps_the_rotary_table_of_its_positions(model: str, bytes_per_position: int) -> None:
    """torchtitan 0.3.0 models/common/rope.py, _reshape_for_broadcast: `rope_cache[positions]` is a copy, which the
    product with queries and keys keeps; its data loaders give positions always. The plan has one table for all.
    """
    assert _off(_run(Plan(dp=8, zero=3), model).stages[0]) == {"activations per layer": bytes_per_position * LENGTH}


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
def test_tensor_parallel_collectives_are_those_that_the_plan_has() -> None:
    done = _run(Plan(tp=4, sp=True, dp=2, zero=3))
    assert _off(done.stages[0]) == {"activations per layer": 4 * HEAD * LENGTH}
    assert sum(each.collective.axis == "tp" for each in done.stages[0].collectives) > 4


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
def test_without_sequence_parallelism_one_gradient_is_summed_for_each_input_that_products_share() -> None:
    """2L + 1 all-reduces backward of 5L + 1 that the plan has: models/common/decoder_sharding.py places the input of a
    whole block, not of each product.
    """
    off = _off(_run(Plan(tp=4, dp=2, zero=3)).stages[0])
    assert off["tp all_reduce"] == -3 * 32


def test_what_its_own_build_cannot_make_is_run_by_the_trainer_with_the_reason() -> None:
    def of(plan: Plan, inputs: Inputs, version: str | None = "0.3.0") -> tuple[str, str]:
        return own_framework(plan, inputs, Versions(version))

    plan = Plan(dp=8, zero=3)
    assert of(plan, _asked(plan)) == ("torchtitan 0.3.0", "")
    assert of(plan, _asked(plan), None) == ("", "torchtitan is not installed")
    assert of(plan, _asked(plan), "0.4.1") == ("", "torchtitan 0.4.1 is installed; its own is run from 0.3")
    assert of(plan, _asked(plan, "qwen2.5-7b"))[1].endswith("Llama and Qwen3, dense or with experts")
    ring = Plan(dp=2, cp=2, zero=3)
    assert of(ring, _asked(ring))[1].startswith("torchtitan 0.3 has no ring")
    assert of(plan, _asked(plan, runtime="accelerate")) == ("", "transformers is not installed")
    assert of(plan, _asked(plan, runtime="accelerate", elementwise="eager")) == ("", "")


@pytest.mark.clients("torch")
@pytest.mark.slow
def test_the_answer_says_whose_model_was_run() -> None:
    plan = Plan(dp=8, zero=3, recompute=Recompute.FULL)
    done = verify(plan, _asked(plan), versions=NONE)
    text = repr(verification_blocks(done))
    assert (
        "Run on a model of Meshwright's own, split and wrapped as torchtitan does: torchtitan is not installed." in text
    )
