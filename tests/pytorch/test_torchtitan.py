"""Torchtitan's own model, checkpointing and sharding where it is installed; else the trainer's, as the answer says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from plans_run import UNCOMPILED

from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.compare import StageCheck
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.pytorch.frameworks import NONE, Versions, own_framework
from meshwright.pytorch.report import verification_blocks
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question
from torch_forks import verify

LENGTH = 2048
ENDS = {"embedding_as_layer": True, "head_as_layer": True}
FULL = Plan(dp=8, zero=3, num_microbatches=2, recompute=Recompute.FULL)
SPLIT = Plan(tp=4, pp=2, vpp=2, dp=2, zero=2, num_microbatches=8, schedule=Schedule.INTERLEAVED_ZERO_BUBBLE)


def _asked(plan: Plan, model: str = "llama-3.1-8b", runtime: str = "torchtitan", **changes: Any) -> Inputs:
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    cluster = f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"
    inputs = question(read_model(model), cluster, runtime, sequence_length=LENGTH, global_batch=batch)
    return inputs.replace(runtime=inputs.runtime.replace(**changes))


@cache
def _run(plan: Plan, model: str = "llama-3.1-8b") -> Verification:
    return verify(plan, _asked(plan, model))


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
        (Plan(dp=8, zero=3), "llama-3.1-8b"),
        (Plan(dp=8, zero=3), "qwen3-8b"),
        (Plan(dp=8, zero=3, micro_batch=2), "qwen3-0.6b"),
        (Plan(tp=2, sp=True, dp=4, zero=3), "qwen3-0.6b"),
        (Plan(tp=4, sp=True, dp=2, zero=3, num_microbatches=2, recompute=Recompute.FULL), "llama-3.1-8b"),
        (Plan(tp=4, dp=2, zero=3, recompute=Recompute.SELECTIVE), "qwen3-8b"),
        (Plan(pp=2, dp=4, zero=3, num_microbatches=4, **ENDS), "llama-3.1-8b"),
        (Plan(pp=2, dp=4, zero=3, num_microbatches=4, schedule="gpipe", **ENDS), "llama-3.1-8b"),
    ],
    ids=[
        "full",
        "selective",
        "selective tp",
        "pipeline",
        "rotary tables",
        "tables of cosines",
        "tied",
        "tied tp",
        "full tp",
        "tp without sp",
        "zero 3 in a pipeline",
        "several losses before a backward",
    ],
)
def test_every_figure_is_that_of_torchtitan(plan: Plan, model: str) -> None:
    """Its root unit, checkpoints that run to their end, rotary copies, fused projections, one all-reduce for what
    products share, gathered heads and tied embeddings that tensor parallelism parts; beside the counts, peaks to 1e-3.
    """
    done = _run(plan, model)
    assert done.scope.uncompiled
    _require_all(done)


def _require_all(done: Verification) -> None:
    assert done.scope.framework.startswith("torchtitan 0.3.")
    assert [_off(stage) for stage in done.stages] == [{}] * done.plan.pp
    assert done.holds
    peaks = [each.ratio for stage in done.stages for each in stage.quantities if each.name == "peak allocated"]
    assert peaks == pytest.approx([1.0] * done.plan.pp, abs=1e-3)


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
@pytest.mark.parametrize("plan", [SPLIT, replace(SPLIT, sp=True)], ids=["whole", "sp"])
def test_so_is_every_figure_of_a_split_backward_pass_between_whose_stages_go_dtensors(plan: Plan) -> None:
    inputs = _asked(plan, **UNCOMPILED)
    _require_all(verify(plan, inputs.replace(job=inputs.job.replace(sequence_length=4 * LENGTH))))


def test_what_its_own_build_cannot_make_is_run_by_the_trainer_with_the_reason() -> None:
    def of(plan: Plan, inputs: Inputs, version: str | None = "0.3.0") -> tuple[str, str]:
        return own_framework(plan, inputs, Versions(version))

    plan = Plan(dp=8, zero=3)
    assert of(plan, _asked(plan)) == ("torchtitan 0.3.0", "")
    assert of(plan, _asked(plan), None) == ("", "torchtitan is not installed")
    assert of(plan, _asked(plan), "0.4.1") == ("", "torchtitan 0.4.1 is installed; its own is run from 0.3")
    assert of(plan, _asked(plan, "qwen2.5-7b"))[1].endswith("Llama and Qwen3, dense or with experts")
    assert of(SPLIT, _asked(SPLIT)) == ("torchtitan 0.3.0", "")
    assert of(SPLIT, _asked(SPLIT, receives_dtensors=False))[1].startswith("torchtitan makes a DTensor")
    ring = Plan(dp=2, cp=2, zero=3)
    assert of(ring, _asked(ring, runtime="torchtitan@0.1.0")) == ("", "")
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
