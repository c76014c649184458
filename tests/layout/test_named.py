"""Named plans: what is left out is filled in with what the framework takes."""

from __future__ import annotations

import pytest

from meshwright.layout.legality import require_legal
from meshwright.layout.named import plan_of
from meshwright.specs.choices import ContextExchange
from meshwright.specs.read_model import read_model
from strategies import question


@pytest.mark.parametrize(
    ("model", "runtime", "exchange"),
    [
        ("llama-3.1-8b", "megatron-core", ContextExchange.RING),
        ("gemma-2-27b", "megatron-core", ContextExchange.ALL_GATHER),
        ("gpt-oss-20b", "megatron-core", ContextExchange.ALL_TO_ALL),
        ("gpt-oss-20b", "megatron-bridge", ContextExchange.ALL_TO_ALL),
        ("gpt-oss-20b", "torchtitan", ContextExchange.ALL_GATHER),
    ],
)
def test_a_plan_exchanges_its_context_as_the_models_attention_can(
    model: str, runtime: str, exchange: ContextExchange
) -> None:
    """TransformerEngine takes windows by all-gather and all-to-all, sinks by all-to-all alone (issue 2541)."""
    inputs = question(read_model(model), "2x8:h100", runtime, sequence_length=4096, global_batch=64)
    plan = plan_of(inputs, cp=2)
    assert plan.context_exchange == exchange
    require_legal(plan, inputs)
