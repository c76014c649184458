"""Peft's own adapters in transformers' own models, under DDP and fully_shard, where they are installed."""

from __future__ import annotations

import pytest

from meshwright.errors import CannotVerify
from meshwright.layout.plan import Plan
from meshwright.pytorch.frameworks import Versions, own_framework
from meshwright.pytorch.scope import scope_of
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from torch_forks import verify

FULL = {"recompute": Recompute.FULL}
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


def _asked(model: str, plan: Plan, runtime: str, rank: int, modules: tuple[str, ...]) -> Inputs:
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    job = Job(sequence_length=2048, global_batch=batch, lora_rank=rank, lora_modules=modules)
    return read_inputs(model, f"1x{plan.dp}:h100", job, runtime)


@pytest.mark.clients("torch", "transformers", "peft")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "plan", "runtime", "rank", "modules"),
    [
        ("llama-3.1-8b", Plan(micro_batch=2), "accelerate", 16, ("all-linear",)),
        ("llama-3.2-1b", Plan(dp=8, zero=3, num_microbatches=2), "accelerate", 64, ("q_proj", "down_proj")),
        ("qwen2.5-7b", Plan(dp=8, zero=2, **FULL), "accelerate", 8, ("all-linear",)),
        ("qwen3-8b", Plan(dp=8, num_microbatches=2), "pytorch-ddp", 16, ("o_proj", "gate_proj")),
        ("llama-3.1-8b", Plan(dp=8, micro_batch=4, **FULL), "pytorch-ddp", 16, ("all-linear",)),
        ("qwen3-30b-a3b", Plan(dp=8, zero=3), "accelerate", 16, ATTENTION),
        ("mixtral-8x7b", Plan(dp=8, zero=2, **FULL), "accelerate", 8, ("q_proj", "v_proj")),
        ("qwen3-30b-a3b", Plan(dp=8, num_microbatches=2), "pytorch-ddp", 16, ATTENTION),
    ],
    ids=[
        *("one rank", "sharded, tied", "zero 2, biases, full", "ddp, norms of queries", "ddp, full"),
        *("experts, sharded", "experts, zero 2, full", "experts, ddp"),
    ],
)
def test_every_figure_is_that_of_peft(
    model: str, plan: Plan, runtime: str, rank: int, modules: tuple[str, ...]
) -> None:
    done = verify(plan, _asked(model, plan, runtime, rank, modules))
    assert [each for stage in done.stages for each in (*stage.quantities, *stage.collectives) if not each.holds] == []
    peaks = [each.ratio for stage in done.stages for each in stage.quantities if each.name == "peak allocated"]
    assert peaks == pytest.approx([1], abs=0.01)
    exact = [each.ratio for stage in done.stages for each in stage.quantities if each.name != "peak allocated"]
    assert exact == pytest.approx([1] * len(exact), abs=1e-9)


def test_adapters_are_not_run_without_peft() -> None:
    plan = Plan(dp=8, zero=3)
    inputs = _asked("llama-3.1-8b", plan, "accelerate", 16, ("all-linear",))
    assert own_framework(plan, inputs, Versions(transformers="5.23.0")) == ("", "peft is not installed")
    assert own_framework(plan, inputs, Versions(transformers="5.23.0", peft="0.21.2"))[1] == ""


def test_the_trainer_s_own_model_has_no_adapters() -> None:
    plan = Plan(dp=8, zero=3)
    inputs = _asked("llama-3.1-8b", plan, "accelerate", 16, ("all-linear",))
    eager = inputs.replace(runtime=inputs.runtime.replace(elementwise="eager"))
    with pytest.raises(CannotVerify, match="adapters are run in transformers' own models"):
        scope_of(plan, eager)
    with pytest.raises(CannotVerify, match="own models, and transformers is not installed"):
        scope_of(plan, inputs)
