"""What goes wrong when PyTorch is run without a GPU; each of these would be seen here if it came back."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest
from plans_run import run

from meshwright.errors import CannotVerify
from meshwright.pytorch.fake_world.compare import StageCheck, planned_order
from meshwright.pytorch.processes import process

pytestmark = pytest.mark.clients("torch")


def _observed(stage: StageCheck, name: str) -> float:
    (value,) = (each.observed for each in stage.quantities if each.name == name)
    return value


def test_sharding_propagation_is_no_part_of_the_ranks_memory() -> None:
    """DTensor tries operators on global shapes: of 8 TP ranks, 8 times those of one."""
    (stage,) = run("tp with sp").stages
    assert _observed(stage, "activations per layer") == pytest.approx(8.75 * 8192 * 4096, rel=0.015)
    assert _observed(stage, "peak allocated") < 14 * 2**30


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.abort()", "was ended by signal 6: PyTorch is not linked with support for cuda"),
        ("os.kill(os.getpid(), 9)", "was killed, most likely for want of memory"),
    ],
)
def test_an_abort_is_told_in_words(end: str, reason: str, tmp_path: Path) -> None:
    """A fake cuda device ends the process by a signal; a machine without memory kills it."""
    lines = "terminate called\\nPyTorch is not linked with support for cuda"
    script = f"import os, sys; print('{lines}', file=sys.stderr, flush=True); {end}"
    with (
        mock.patch.object(process, "command", return_value=[sys.executable, "-c", script]),
        pytest.raises(CannotVerify, match=reason),
    ):
        process.answers_of([()], tmp_path)


def test_attention_keeps_no_scores_and_norms_no_copies() -> None:
    """41.03 s b h of one Llama layer with flash attention and fused norms, and an eighth of its copy of the rotary
    table; 430 with scores.
    """
    (stage,) = run("zero 3").stages
    assert _observed(stage, "activations per layer") == pytest.approx(41.155 * 2048 * 4096, rel=0.0005)


def test_a_pipeline_needs_no_handshake_and_forwards_repeat() -> None:
    assert all(stage.order_holds for stage in run("1f1b").stages)
    assert _observed(run("1f1b").stages[0], "live micro-batches") == 2


def test_the_last_stage_keeps_no_logits_that_nobody_reads() -> None:
    """Returned outputs of earlier micro-batches would be 2 bytes a logit each: the peak is off by less than one's."""
    done = run("1f1b")
    plan, inputs = done.scope.plan, done.scope.inputs
    logits = 2 * inputs.job.sequence_length * inputs.model.vocab_size / plan.tp
    (peak,) = (each for each in done.stages[-1].quantities if each.name == "peak allocated")
    assert abs(peak.predicted - peak.observed) < logits / 2


def test_the_last_ranks_forwards_are_numbered_from_0() -> None:
    """`Schedule1F1B._get_pipeline_order` numbers them from 1; what is executed does not."""
    done = run("1f1b")
    assert done.stages[-1].order[:4] == ("F0:0", "B0:0", "F0:1", "B0:1")
    assert done.stages[-1].order == planned_order(done.scope.plan, 1)


def test_context_parallelism_runs_on_a_cpu() -> None:
    """`context_parallel` has no strategy for the CPU's flash operator: ring attention is called around our own."""
    assert run("ring").holds
    assert run("all-gather").holds
