"""Transformers' own model and loss under DDP and under fully_shard as accelerate wraps it, where it is installed."""

from __future__ import annotations

import pytest

from meshwright.errors import CannotVerify
from meshwright.layout.plan import Plan
from meshwright.pytorch.frameworks import NONE, Versions, own_framework
from meshwright.pytorch.report import verification_blocks
from meshwright.pytorch.scope import scope_of
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question
from torch_forks import verify

FULL = {"recompute": Recompute.FULL}
SHARDED = Plan(dp=8, zero=3, num_microbatches=2)


def _asked(model: str, plan: Plan, runtime: str, length: int = 2048) -> Inputs:
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    cluster = f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"
    job = {"sequence_length": length, "global_batch": batch, "precision": "bf16"}
    return question(read_model(model), cluster, runtime, **job)


@pytest.mark.clients("torch", "transformers")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "plan", "runtime", "length"),
    [
        ("llama-3.1-8b", SHARDED, "accelerate", 2048),
        ("qwen3-8b", Plan(dp=8, zero=3, dp_replicate=2, **FULL), "accelerate", 2048),
        ("llama-3.1-8b", Plan(dp=8, zero=2, num_microbatches=2, **FULL), "accelerate", 2048),
        ("llama-3.2-1b", Plan(dp=32, zero=3, **FULL), "accelerate", 512),
        ("qwen3-30b-a3b", Plan(dp=8, zero=3), "accelerate", 1024),
        ("mixtral-8x7b", Plan(dp=8, zero=3), "accelerate", 4096),
        ("gpt2-xl", Plan(dp=16, zero=3, dp_replicate=2, micro_batch=2), "accelerate", 1024),
        ("llama-3.2-1b", Plan(dp=8, num_microbatches=2), "pytorch-ddp", 2048),
        ("qwen3-0.6b", Plan(dp=8), "pytorch-ddp", 2048),
        ("qwen2.5-0.5b", Plan(dp=8, num_microbatches=2, **FULL), "pytorch-ddp", 2048),
        ("gpt2", Plan(dp=8, num_microbatches=2), "pytorch-ddp", 1024),
    ],
    ids=[
        "sharded",
        "replicas, full",
        "zero 2, full",
        "tied",
        "experts",
        "scores in fp32",
        "learned positions",
        "ddp, tied",
        "ddp, norms of queries",
        "ddp, biases",
        "ddp, layer norms",
    ],
)
def test_every_figure_is_that_of_transformers(model: str, plan: Plan, runtime: str, length: int) -> None:
    done = verify(plan, _asked(model, plan, runtime, length))
    assert done.scope.framework.startswith("transformers 5.")
    assert [each for stage in done.stages for each in (*stage.quantities, *stage.collectives) if not each.holds] == []
    peaks = [each.ratio for stage in done.stages for each in stage.quantities if each.name == "peak allocated"]
    assert peaks == pytest.approx([1], abs=0.005)
    assert f"Run on {done.scope.framework}'s own model, loss and checkpointing" in repr(verification_blocks(done))


def test_what_is_not_run_on_transformers_is_refused_with_the_reason() -> None:
    versions = Versions(transformers="5.23.0")
    llama = _asked("llama-3.1-8b", SHARDED, "accelerate")
    assert own_framework(SHARDED, llama, versions) == ("transformers 5.23.0", "")
    experts = own_framework(SHARDED, _asked("gpt-oss-20b", SHARDED, "accelerate"), versions)
    assert experts == ("", "transformers' own is run for Llama, Qwen2, Qwen3, Mixtral and GPT-2")
    autocast = own_framework(Plan(dp=8), _asked("mixtral-8x7b", Plan(dp=8), "pytorch-ddp"), versions)
    assert autocast == ("", "transformers' own experts are run in bf16, and not under autocast")
    split = Plan(dp=4, tp=2, zero=3)
    with pytest.raises(CannotVerify, match="data parallelism alone; use --with elementwise=eager"):
        scope_of(split, _asked("llama-3.1-8b", split, "accelerate"), versions)
    with pytest.raises(CannotVerify, match="transformers is not installed"):
        scope_of(SHARDED, llama, NONE)
