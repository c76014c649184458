"""Reserved memory of fully_shard: what PyTorch's allocator holds beside the tensors that are alive at the peak.

Counted with PyTorch 2.13: every allocation and release of two steps of one rank, in order and by stream (a fake process
group, sizes 16 or 32 times smaller, scaled back), played through the rules of CUDACachingAllocator with expandable
segments: best fit in each stream's pool, pieces of one segment joined, growth by 20 MiB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Model
from meshwright.units import GIB
from strategies import llama_8b, llama_70b, of_torchtitan_0_1, question

APART = {"ends_apart": True, "keeps_last_layer_gathered": False}
COMPILED = {"cross_entropy": "compiled"}
PER_OPERATOR = {"zero": 3, "recompute": Recompute.SELECTIVE}
FULL = {"zero": 3, "recompute": Recompute.FULL}


def _memory(model: Model, plan: Plan, sequence: int = 8192, runtime: str = "torchtitan", **changes: Any) -> Components:
    ranks = plan.tp * plan.dp * plan.cp
    batch = plan.micro_batch * plan.num_microbatches * plan.dp
    cluster = f"{max(ranks // 8, 1)}x{min(ranks, 8)}:h100"
    inputs = question(model, cluster, runtime, sequence_length=sequence, global_batch=batch)
    return estimate_each([plan], of_torchtitan_0_1(inputs, **changes))[0].memory


@pytest.mark.parametrize(
    ("plan", "sequence", "changes", "allocated", "reserved"),
    [
        (Plan(dp=8, micro_batch=2, **PER_OPERATOR), 8192, {}, 68.48, 79.21),
        (Plan(dp=128, micro_batch=2, **PER_OPERATOR), 8192, {}, 58.01, 65.05),
        (Plan(dp=8, **PER_OPERATOR), 8192, {}, 41.05, 49.60),
        (Plan(dp=8, **FULL), 32768, {}, 69.19, 84.66),
        (Plan(dp=8, zero=3), 8192, {}, 66.58, 75.00),
        (Plan(dp=8, **PER_OPERATOR), 8192, COMPILED, 33.22, 39.82),
        (Plan(dp=32, micro_batch=2, **PER_OPERATOR), 8192, COMPILED, 44.42, 48.23),
        (Plan(dp=8, **PER_OPERATOR), 8192, {"cross_entropy": "chunked_logits"}, 35.67, 42.28),
        (Plan(dp=8, **PER_OPERATOR), 8192, APART, 39.67, 47.59),
        (Plan(dp=64, **PER_OPERATOR), 8192, APART, 29.85, 34.38),
        (Plan(tp=2, sp=True, dp=4, **PER_OPERATOR), 8192, {}, 31.11, 37.38),
        (Plan(tp=2, sp=True, dp=4, zero=3), 8192, {}, 42.87, 49.11),
    ],
)
def test_llama_8b_holds_what_the_allocator_of_pytorch_is_counted_to_hold(
    plan: Plan, sequence: int, changes: dict[str, Any], allocated: float, reserved: float
) -> None:
    """GiB, library workspaces apart; the last layers' prefetch is counted alive here and gone there."""
    memory = _memory(llama_8b(), plan, sequence, **changes)
    assert (memory.allocated - memory.workspaces) / GIB == pytest.approx(allocated, rel=0.015)
    assert (memory.reserved - memory.workspaces) / GIB == pytest.approx(reserved, rel=0.02)


def test_a_compiled_loss_holds_six_bytes_a_logit_more_where_tp_splits_the_vocabulary() -> None:
    """25.24 GiB were counted as if two ranks' loss held 4 bytes a logit, as one rank's does. What inductor writes holds
    10: the logits, fp32 zeros that take the gradient, and what backward reads. Reserved was not counted again."""
    memory = _memory(llama_8b(), Plan(tp=2, sp=True, dp=4, **PER_OPERATOR), 8192, **COMPILED)
    logits = 8192 * 128256 // 2
    assert memory.allocated - memory.workspaces == pytest.approx(25.24 * GIB + 6 * logits, rel=0.015)


def test_llama_70b_holds_what_the_allocator_of_pytorch_is_counted_to_hold() -> None:
    """TP 8 on 32 shards, 16 sequences: an eager cross-entropy of a split vocabulary makes 16 bytes per logit."""
    memory = _memory(llama_70b(), Plan(tp=8, sp=True, dp=32, micro_batch=16, **FULL))
    assert memory.allocated / GIB == pytest.approx(58.12, rel=0.015)
    assert memory.reserved / GIB == pytest.approx(65.69, rel=0.04)


@pytest.mark.parametrize(("recompute", "multiple"), [(Recompute.NONE, 34.16), (Recompute.SELECTIVE, 13.56)])
def test_a_compiled_layer_keeps_less(recompute: Recompute, multiple: float) -> None:
    """Multiples of s b h of what torch.compile saves of a Llama-3 8B layer: no activation beside its product, and of
    every second product none that backward does not read.
    """
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192, global_batch=8)
    inputs = of_torchtitan_0_1(inputs, fused_activation=True, keeps_unread_products=False)
    saved = layer_memory(Plan(recompute=recompute), inputs, inputs.model.layer_kinds[0]).saved
    assert saved / (8192 * 4096) == pytest.approx(multiple, abs=0.03)


def test_pools_of_the_exchanges_hold_gathered_weights_and_gradient_shards() -> None:
    """2 bytes of both ends and one layer, the ends' sent shard, and 4 bytes of every gradient on the rank."""
    plan = Plan(dp=8, zero=3, micro_batch=2)
    with_pools, without = (_memory(llama_8b(), plan, exchange_pools=pools) for pools in (True, False))
    ends = 2 * 128256 * 4096 + 4096
    expected = 2 * (ends + 218112000 + ends / 8) + 4 * 8030261248 / 8
    assert with_pools.reserved - without.reserved == pytest.approx(expected)
    assert with_pools.allocated == without.allocated


def test_gradient_shards_that_live_between_micro_batches_are_not_counted_twice() -> None:
    once, twice = (_memory(llama_8b(), Plan(dp=8, zero=3, num_microbatches=count)) for count in (1, 2))
    shards = 4 * 8030261248 / 8
    assert twice.allocated - once.allocated == pytest.approx(shards)
    assert twice.reserved - once.reserved == pytest.approx(0.007 * shards)


@pytest.mark.parametrize("runtime", ["megatron-core", "deepspeed", "pytorch-fsdp1", "pytorch-ddp"])
def test_other_runtimes_hold_a_share_of_what_is_allocated(runtime: str) -> None:
    inputs = question(llama_8b(), "1x8:h100", runtime, sequence_length=4096, global_batch=8)
    stage = {"megatron-core": 1, "deepspeed": 3, "pytorch-fsdp1": 3, "pytorch-ddp": 0}[runtime]
    memory = estimate_each([Plan(dp=8, zero=stage)], inputs)[0].memory
    unjoined = inputs.runtime.cross_entropies[inputs.runtime.kernels.cross_entropy].unjoined_bytes * 4096 * 128256
    share = inputs.runtime.memory.fragmentation * memory.allocated
    assert np.isin(round(memory.fragmentation - share), [0, round(unjoined * (memory.logits > 0))])
