"""A few processes train what one trains alone: same loss and gradients, the planned order and the counted traffic."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from commands import HANG_S
from meshwright.errors import CannotVerify
from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.process import answers_of
from meshwright.pytorch.processes.records import RealRequest
from meshwright.pytorch.real_world.real import run_for_real, run_shrunken
from meshwright.pytorch.real_world.real_run import RealRun
from meshwright.pytorch.real_world.shrink import shrunken
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from strategies import dense_model, llama_8b, mixture, question
from torch_forks import forked

pytestmark = pytest.mark.clients("torch")

NORMED = dense_model(qk_norm="head", qkv_bias=True)
TIED = dense_model(tied_embeddings=True, kv_heads=16)
LOST, DDP = "zero bubble, zero 3", "whole replicas"
INTERLEAVED = {"vpp": 2, "num_microbatches": 16}
CASES: dict[int, dict[str, tuple[Model, dict[str, Any]]]] = {
    2: {
        "zero 3, two sequences": (llama_8b(), {"dp": 64, "micro_batch": 2}),
        "zero 2": (llama_8b(), {"dp": 64, "zero": 2}),
        "replicas": (llama_8b(), {"dp": 64, "dp_replicate": 64}),
        "tp with sp": (llama_8b(), {"tp": 64, "sp": True}),
        "tp without sp": (NORMED, {"tp": 16, "dp": 4}),
        "tp, tied": (TIED, {"tp": 64, "sp": True, "recompute": "full"}),
        "ring": (llama_8b(), {"cp": 64}),
        "all-gather": (llama_8b(), {"cp": 64, "context_exchange": "all_gather", "recompute": "selective"}),
        "1f1b": (llama_8b(), {"pp": 64, "num_microbatches": 64}),
        "interleaved": (llama_8b(), {"pp": 64, "schedule": "interleaved", "recompute": "full", **INTERLEAVED}),
        "zero bubble": (llama_8b(), {"pp": 64, "schedule": "interleaved-zb", "zero": 2, **INTERLEAVED}),
        "v-shaped": (llama_8b(), {"pp": 64, "schedule": "zb-v", "zero": 2, **INTERLEAVED}),
        "ep": (mixture(), {"dp": 64, "ep": 8, "recompute": "selective"}),
        "ep over tp": (mixture(), {"tp": 64, "sp": True, "ep": 8}),
        "full": (llama_8b(), {"dp": 64, "recompute": "full"}),
        DDP: (llama_8b(), {"dp": 64, "zero": 0, "num_microbatches": 2}),
        "selective": (llama_8b(), {"dp": 64, "recompute": "selective"}),
        LOST: (llama_8b(), {"pp": 64, "schedule": "interleaved-zb", **INTERLEAVED}),
    },
    3: {"dp 3": (llama_8b(), {"dp": 64})},
    4: {
        "interleaved x dp": (llama_8b(), {"pp": 8, "dp": 8, "schedule": "interleaved", **INTERLEAVED}),
        "tp x dp": (NORMED, {"tp": 8, "sp": True, "dp": 8}),
        "pp x dp": (llama_8b(), {"pp": 8, "dp": 8, "num_microbatches": 16}),
        "pp x tp": (llama_8b(), {"pp": 8, "tp": 8, "sp": True, "num_microbatches": 16}),
        "replicas x shards": (llama_8b(), {"dp": 64, "dp_replicate": 8}),
        "cp x dp": (llama_8b(), {"cp": 8, "dp": 8, "recompute": "full"}),
        "ring of 4": (llama_8b(), {"cp": 64}),
        "ep x edp": (mixture(), {"dp": 64, "ep": 8}),
        "ep in tp x dp": (mixture(), {"tp": 8, "sp": True, "dp": 8, "ep": 8}),
    },
}
EACH = [(processes, name) for processes, cases in CASES.items() for name in cases if name != LOST]


def _asked(model: Model, runtime: str = "torchtitan", schedule: str = "1f1b") -> Inputs:
    """Without a compiler, so that torchtitan can split the backward pass, then with the loss in one piece, without the
    rule that keeps it from losing gradients, and with the ring that its first release had.
    """
    inputs = question(model, "8x8:h100", runtime)
    rules = tuple(rule for rule in inputs.runtime.rules if rule.name != "split_backward_keeps_weights")
    whole_loss = ["cross_entropy=eager"] * Plan(schedule=schedule).schedule.record.splits_backward
    uncompiled = with_behaviours(inputs.runtime, ["compiled=false", "elementwise=eager", *whole_loss])
    return inputs.replace(runtime=uncompiled.replace(rules=rules, context_exchanges=("all_gather", "ring")))


@cache
def _runs(processes: int) -> dict[str, RealRun]:
    """All cases of as many processes, in one world, as processes start slowly; worlds of 3 start as users do it."""
    cases = CASES[processes]
    small = [
        shrunken(
            Plan(**{"zero": 3} | plan),
            _asked(model, "pytorch-ddp" if name == DDP else "torchtitan", plan.get("schedule", "1f1b")),
            processes,
        )
        for name, (model, plan) in cases.items()
    ]
    with nullcontext() if processes == 3 else forked():
        return dict(zip(cases, run_shrunken(small, processes, timeout_s=10 * HANG_S), strict=True))


@pytest.mark.parametrize(("processes", "name"), EACH)
def test_ranks_train_what_one_process_trains(processes: int, name: str) -> None:
    run = _runs(processes)[name]
    assert run.same_loss, (run.losses, run.reference_losses)
    assert run.same_gradients, (run.gradient_difference, run.farthest_weight)
    assert run.losses[0] > run.losses[-1]


@pytest.mark.parametrize(("processes", "name"), EACH)
def test_ranks_do_and_send_what_is_planned(processes: int, name: str) -> None:
    run = _runs(processes)[name]
    assert run.executed == run.planned
    assert run.logged_bytes == run.counted_bytes
    assert run.holds


def test_gradients_that_pytorch_loses_are_seen() -> None:
    """torch.distributed.pipelining 2.13 takes the weights of a stage for its split backward before fully_shard has
    gathered them again, so that ZeRO 3 leaves out gradients without a word: of the last layer, and of the head, which
    is a unit of its own.
    """
    run = _runs(2)[LOST]
    assert run.same_order
    assert not run.same_gradients
    assert run.farthest_weight[0].startswith(("layers.3.", "head."))
    assert not run.holds


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(CannotVerify, match="the process that trains failed: IndexError: tuple index out of range"):
        answers_of([()], tmp_path, timeout_s=HANG_S)


def test_processes_that_take_too_long_are_ended() -> None:
    with pytest.raises(CannotVerify, match=r"3 of 3 processes that train did not end within 0.2 s"):
        run_for_real(Plan(dp=64, zero=3), _asked(llama_8b()), 2, timeout_s=0.2)


def test_a_torch_without_gloo_is_told() -> None:
    from torch import distributed

    from meshwright.pytorch.trainer.real import train

    asked = RealRequest(requests=(), steps=1, rank=0, ranks=2, store="unused", timeout_s=1)
    with (
        mock.patch.object(distributed, "is_gloo_available", return_value=False),
        pytest.raises(CannotVerify, match="has no gloo, over which processes would talk: install one that has"),
    ):
        list(train(asked))
