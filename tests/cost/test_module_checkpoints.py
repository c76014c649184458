"""Full recomputation by modules: attention, the block and their norms, each with a checkpoint of its own."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.memory.activations import layer_memory
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, mixture, question

PLAN = Plan(dp=8, zero=3, recompute="full")


def by_modules(inputs: Inputs) -> Inputs:
    """The question under a runtime that checkpoints modules."""
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["checkpoints_modules=true"]))


def test_four_inputs_of_a_layer_are_kept_and_both_last_products_are_not_run_again() -> None:
    """NeMo AutoModel's Llama runs 26 products a layer and micro-batch: 7 forward, 14 backward, and 5 again."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan@0.2.2", sequence_length=4096, global_batch=8)
    (kind,) = inputs.model.layer_kinds
    whole, parted = (layer_time(PLAN, each, kind) for each in (inputs, by_modules(inputs)))
    sizes = (4096, 4096), (4096, 14336)
    last = sum(linear_time(4096, outputs, features, inputs).forward for outputs, features in sizes)
    assert parted.recompute.gemm == pytest.approx(parted.forward.gemm - last * slowdown(inputs))
    assert parted.recompute.attention == whole.recompute.attention
    assert parted.recompute.elementwise < whole.recompute.elementwise
    layer, modules = (layer_memory(PLAN, each, kind) for each in (inputs, by_modules(inputs)))
    assert modules.saved == 4 * layer.saved == 4 * 2 * 4096 * 4096


def test_only_attention_or_the_block_is_alive_again() -> None:
    """Beyond the inputs that are kept: queries, keys, values and the output of attention are not, beside the block."""
    inputs = question(llama_8b(), "1x8:h100", "torchtitan@0.2.2", sequence_length=4096, global_batch=8)
    (kind,) = inputs.model.layer_kinds
    layer, modules = (layer_memory(PLAN, each, kind) for each in (inputs, by_modules(inputs)))
    attention = 2 * 4096 * (4096 + 1024 + 1024 + 4096) + 4 * 4096 * 32
    assert modules.saved + modules.again == layer.saved + layer.again - attention


def test_layers_of_experts_are_checkpointed_whole() -> None:
    """components/moe/parallelizer.py of AutoModel wraps blocks."""
    inputs = question(mixture(), "1x8:h100", "torchtitan@0.2.2", sequence_length=4096, global_batch=8)
    (kind,) = inputs.model.layer_kinds
    assert layer_memory(PLAN, by_modules(inputs), kind) == layer_memory(PLAN, inputs, kind)
    assert layer_time(PLAN, by_modules(inputs), kind) == layer_time(PLAN, inputs, kind)
