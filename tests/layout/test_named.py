"""Named plans: what is left out is filled in with what the framework takes."""

from __future__ import annotations

import pytest

from meshwright.layout.legality import require_legal
from meshwright.layout.named import plan_of
from meshwright.specs.choices import ContextExchange
from meshwright.specs.reading.model import read_model
from strategies import question


@pytest.mark.parametrize(
    ("model", "sequence", "runtime", "exchange"),
    [
        ("llama-3.1-8b", 4096, "megatron-core", ContextExchange.RING),
        ("gemma-3-27b", 8192, "megatron-core", ContextExchange.ALL_GATHER),
        ("gemma-3-27b", 1024, "megatron-core", ContextExchange.RING),
        ("gpt-oss-20b", 4096, "megatron-core", ContextExchange.ALL_TO_ALL),
        ("gpt-oss-20b", 4096, "megatron-bridge", ContextExchange.ALL_TO_ALL),
        ("gpt-oss-20b", 4096, "torchtitan", ContextExchange.ALL_GATHER),
    ],
)
def test_a_plan_exchanges_its_context_as_the_models_attention_can(
    model: str, sequence: int, runtime: str, exchange: ContextExchange
) -> None:
    """TransformerEngine takes windows by all-gather and all-to-all, sinks by all-to-all alone (issue 2541); windows as
    long as a sequence are none.
    """
    inputs = question(read_model(model), "2x8:h100", runtime, sequence_length=sequence, global_batch=64)
    plan = plan_of(inputs, cp=2)
    assert plan.context_exchange == exchange
    require_legal(plan, inputs)
