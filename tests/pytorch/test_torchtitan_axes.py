"""Torchtitan's own model with context parallelism, experts, tensor parallelism in a pipeline and on one rank."""

from __future__ import annotations

import pytest

from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.reading.model import read_model
from strategies import question
from torch_forks import verify

ENDS = {"embedding_as_layer": True, "head_as_layer": True}
GATHERED = {"context_exchange": ContextExchange.ALL_GATHER}
FULL, SELECTIVE = {"recompute": Recompute.FULL}, {"recompute": Recompute.SELECTIVE}


def _run(plan: Plan, model: str, length: int = 2048, layers: int | None = None) -> Verification:
    batch, whole = plan.dp * plan.micro_batch * plan.num_microbatches, read_model(model)
    cluster = f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"
    model_asked = whole.replace(layer_pattern=whole.layer_pattern[:layers])
    inputs = question(model_asked, cluster, "torchtitan", sequence_length=length, global_batch=batch)
    return verify(plan, inputs)


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "plan"),
    [
        ("llama-3.1-8b", Plan(cp=2, tp=2, sp=True, dp=2, zero=3, **GATHERED, **SELECTIVE)),
        ("llama-3.1-8b", Plan(cp=2, pp=2, dp=2, zero=2, num_microbatches=4, **GATHERED, **FULL, **ENDS)),
        ("llama-3.1-8b", Plan(pp=2, tp=2, sp=True, dp=2, zero=2, num_microbatches=4, **FULL, **ENDS)),
        ("qwen3-30b-a3b", Plan(dp=8, ep=8, zero=2, **SELECTIVE)),
        ("qwen3-30b-a3b", Plan(pp=2, dp=4, ep=2, zero=2, num_microbatches=4, **FULL, **ENDS)),
    ],
    ids=["cp, tp", "cp, pp", "tp, pp", "experts", "experts, pp"],
)
def test_every_figure_is_that_of_torchtitan(model: str, plan: Plan) -> None:
    done = _run(plan, model)
    assert done.scope.framework.startswith("torchtitan 0.3.")
    assert done.holds


@pytest.mark.clients("torch", "torchtitan")
@pytest.mark.slow
@pytest.mark.parametrize("zero", [2, 3])
def test_on_one_rank_a_quotient_stands_beside_the_gradients_that_it_is_copied_to(zero: int) -> None:
    """torch 2.13 _fsdp_collectives.py L628: 4 bytes a parameter of the head more than on several."""
    done = _run(Plan(zero=zero, num_microbatches=2), "llama-3.1-8b", layers=8)
    peak = next(each for each in done.stages[0].quantities if each.name == "peak allocated")
    assert peak.ratio == pytest.approx(1, abs=0.01)
