"""Plans that are run on PyTorch once for all tests of a file that look at them."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.pytorch.frameworks import NONE
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question
from torch_forks import verify

ENDS = {"embedding_as_layer": True, "head_as_layer": True}


class Case(NamedTuple):
    """A plan of torchtitan, or of another runtime."""

    model: str
    plan: Plan
    length: int = 2048
    runtime: str = "torchtitan"
    changes: dict[str, Any] = {}
    layers: int | None = None
    """Of the model, its first ones alone."""


def _interleaved(**fields: int) -> Plan:
    usual = {"pp": 2, "vpp": 2, "dp": 4, "zero": 2, "num_microbatches": 4}
    return Plan(**usual | fields, schedule=Schedule.INTERLEAVED, **ENDS)


EAGER = {"elementwise": "eager"}
"""Norms of one kernel, in place of those that transformers writes out."""
UNCOMPILED = EAGER | {
    "fused_activation": False,
    "keeps_unread_products": True,
    "cross_entropy": "eager",
    "rotary_copies": "all",
    "checkpoint_stops_early": False,
}
"""What `compiled=false` sets for torchtitan, without which it has no split backward passes."""
CASES = {
    "zero 3": Case("llama-3.1-8b", Plan(dp=8, zero=3, num_microbatches=2)),
    "whole gradients": Case(
        "llama-3.1-8b", Plan(dp=8, zero=3, num_microbatches=2), changes=UNCOMPILED | {"accumulates_whole": True}
    ),
    "whole gradients, tied, of replicas": Case(
        "qwen3-0.6b",
        Plan(dp=8, zero=2, dp_replicate=2, num_microbatches=3, recompute=Recompute.FULL),
        changes=UNCOMPILED | {"accumulates_whole": True},
    ),
    "whole gradients of experts": Case(
        "mixtral-8x7b",
        Plan(dp=16, zero=3, num_microbatches=2, recompute=Recompute.FULL),
        changes=UNCOMPILED | {"accumulates_whole": True},
        layers=8,
    ),
    "whole gradients under tp": Case(
        "llama-3.1-8b",
        Plan(tp=4, sp=True, dp=2, zero=3, num_microbatches=2),
        changes=UNCOMPILED | {"accumulates_whole": True},
    ),
    "zero 2 full": Case("llama-3.1-8b", Plan(dp=8, zero=2, recompute=Recompute.FULL)),
    "ends apart": Case("llama-3.1-8b", Plan(dp=8, zero=3)),
    "one root unit": Case(
        "llama-3.1-8b", Plan(dp=8, zero=3), changes=UNCOMPILED | {"ends_apart": False, "fused_projections": False}
    ),
    "norms of queries, tied": Case("qwen3-0.6b", Plan(dp=8, zero=3, micro_batch=2)),
    "tp with sp": Case("llama-3.1-8b", Plan(tp=8, sp=True, dp=8, zero=3), 8192),
    "tp full": Case("llama-3.1-8b", Plan(tp=4, sp=True, dp=2, zero=3, recompute=Recompute.FULL)),
    "tp selective": Case("qwen3-32b", Plan(tp=8, sp=True, dp=4, zero=3, recompute=Recompute.SELECTIVE)),
    "selective, with biases": Case("qwen2.5-1.5b", Plan(dp=8, zero=3, recompute=Recompute.SELECTIVE)),
    "selective, with biases, 0.2.2": Case(
        "qwen2.5-1.5b", Plan(dp=8, zero=3, recompute=Recompute.SELECTIVE), runtime="torchtitan@0.2.2"
    ),
    "tp full to its end": Case(
        "llama-3.1-70b",
        Plan(tp=8, sp=True, pp=2, dp=2, zero=3, micro_batch=2, num_microbatches=2, recompute=Recompute.FULL),
        8192,
        changes=UNCOMPILED,
        layers=8,
    ),
    "tp without sp in a pipeline": Case(
        "llama-3.1-70b",
        Plan(tp=8, pp=4, dp=2, zero=3, micro_batch=2, num_microbatches=8, recompute=Recompute.FULL),
        8192,
        changes=UNCOMPILED,
        layers=8,
    ),
    "tp without sp, selective": Case(
        "llama-3.1-70b",
        Plan(tp=8, pp=2, dp=2, zero=2, num_microbatches=4, recompute=Recompute.SELECTIVE),
        8192,
        changes=UNCOMPILED,
        layers=4,
    ),
    "tp without sp": Case("llama-3.1-8b", Plan(tp=4, dp=2, zero=2)),
    "replicas, tied": Case("qwen3-0.6b", Plan(tp=2, sp=True, dp=8, zero=3, dp_replicate=2, num_microbatches=2)),
    "alone, tied": Case("qwen3-0.6b", Plan(zero=2, recompute=Recompute.FULL)),
    "tp alone, tied": Case("qwen3-0.6b", Plan(tp=4, zero=2, num_microbatches=4, recompute=Recompute.FULL)),
    "ring": Case("llama-3.1-8b", Plan(cp=4, dp=2, zero=3), 8192, "torchtitan@0.1.0"),
    "all-gather": Case(
        "llama-3.1-8b",
        Plan(cp=2, dp=2, zero=3, recompute=Recompute.SELECTIVE, context_exchange=ContextExchange.ALL_GATHER),
    ),
    "two layers": Case("llama-2-7b", Plan(dp=8, zero=3), 4096, layers=2),
    "one layer": Case("llama-2-7b", Plan(dp=8, zero=3, recompute=Recompute.SELECTIVE), 4096, layers=1),
    "experts": Case("mixtral-8x7b", Plan(dp=16, zero=3, micro_batch=2, recompute=Recompute.FULL)),
    "ep in tp": Case("qwen3-30b-a3b", Plan(tp=2, sp=True, dp=8, ep=4, zero=3)),
    "1f1b": Case("llama-3.1-8b", Plan(pp=2, tp=4, sp=True, dp=2, zero=2, num_microbatches=8, **ENDS)),
    "1f1b zero 3": Case("llama-3.1-8b", Plan(pp=2, dp=4, zero=3, num_microbatches=4, **ENDS)),
    "gpipe": Case("llama-3.1-8b", Plan(pp=2, dp=4, zero=2, num_microbatches=4, schedule=Schedule.GPIPE, **ENDS)),
    "interleaved": Case("llama-3.1-8b", _interleaved()),
    "interleaved zero 3": Case("llama-3.1-8b", _interleaved(zero=3)),
    "one group zero 3": Case("llama-3.1-8b", _interleaved(zero=3, num_microbatches=2)),
    "embedding reduced beside its chunk": Case("llama-3.1-8b", _interleaved(zero=3, num_microbatches=2), layers=8),
    "a chunk without layers": Case("llama-3.1-8b", _interleaved(vpp=4, zero=3, num_microbatches=2), layers=8),
    "chunks of unlike sizes": Case("llama-3.1-8b", _interleaved(pp=4, vpp=4, zero=3), layers=30),
    "chunks of few layers, zero 2": Case(
        "llama-3.1-70b",
        _interleaved(tp=4, dp=8, vpp=4, micro_batch=2, num_microbatches=2, sp=True),
        1024,
        layers=8,
    ),
    "chunks of one layer": Case("llama-3.1-8b", _interleaved(pp=4, vpp=4, zero=3), 4096, layers=16),
    "experts by rows of three chunks": Case(
        "mixtral-8x7b",
        Plan(
            pp=2,
            vpp=3,
            dp=16,
            zero=3,
            num_microbatches=2,
            recompute=Recompute.FULL,
            schedule=Schedule.INTERLEAVED,
            **ENDS,
        ),
        layers=16,
    ),
    "experts by rows, zero 2": Case("mixtral-8x7b", Plan(dp=16, zero=2, recompute=Recompute.FULL), layers=6),
    "ends beside layers": Case(
        "llama-3.1-8b", Plan(pp=2, vpp=2, dp=4, zero=2, num_microbatches=4, schedule=Schedule.INTERLEAVED)
    ),
    "four chunks": Case("llama-3.1-8b", _interleaved(vpp=4)),
    "interleaved zero bubble": Case(
        "llama-3.1-8b",
        Plan(pp=4, vpp=2, dp=2, zero=2, num_microbatches=8, schedule=Schedule.INTERLEAVED_ZERO_BUBBLE, **ENDS),
        changes=UNCOMPILED,
    ),
    "as few micro-batches as stages": Case(
        "llama-3.1-8b",
        Plan(pp=2, vpp=2, tp=2, sp=True, dp=2, zero=2, num_microbatches=2, schedule=Schedule.INTERLEAVED_ZERO_BUBBLE),
        changes=UNCOMPILED,
    ),
    "zb-v": Case(
        "llama-3.1-8b",
        Plan(pp=2, vpp=2, tp=4, sp=True, dp=2, zero=2, num_microbatches=8, schedule=Schedule.ZERO_BUBBLE_V),
        changes=UNCOMPILED,
    ),
    "dualpipe-v": Case(
        "qwen3-32b",
        Plan(pp=4, vpp=2, tp=2, dp=2, zero=2, num_microbatches=8, schedule=Schedule.DUALPIPE_V),
        changes=UNCOMPILED,
    ),
    "ddp": Case("llama-3.2-1b", Plan(dp=8, num_microbatches=4), runtime="pytorch-ddp", changes=EAGER),
    "ddp, full, biases": Case("qwen2.5-7b", Plan(dp=8, recompute=Recompute.FULL), 512, "pytorch-ddp", EAGER),
    "ddp, buckets of one rank": Case(
        "llama-3.2-1b", Plan(), 2048, "pytorch-ddp", EAGER | {"gradient_buckets": "views"}
    ),
    "megatron": Case(
        "llama-3.1-8b", Plan(pp=2, tp=4, sp=True, dp=2, zero=1, num_microbatches=8), 2048, "megatron-core"
    ),
}

LOOKED_AT = ("1f1b", "megatron")
"""Pipelines that other tests look at, too."""
PIPELINES = sorted(
    (name for name, case in CASES.items() if case.plan.pp > 1 and name not in LOOKED_AT),
    key=lambda name: -CASES[name].plan.pp * CASES[name].plan.vpp * CASES[name].plan.num_microbatches,
)
"""All others, those that take the longest first."""


def asked(name: str) -> tuple[Plan, Inputs]:
    """The plan and the question of a case."""
    named, plan, length, runtime, changes, layers = CASES[name]
    whole = read_model(named)
    model = whole.replace(layer_pattern=whole.layer_pattern[:layers])
    cluster = f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    inputs = question(model, cluster, runtime, sequence_length=length, global_batch=batch)
    return plan, inputs.replace(runtime=inputs.runtime.replace(**changes))


@cache
def run(name: str) -> Verification:
    """What PyTorch did with a case."""
    return verify(*asked(name), versions=NONE)


def off(done: Verification) -> list[object]:
    """The figures that are not as they must be, and the stages whose order is not."""
    figures = [each for stage in done.stages for each in (*stage.quantities, *stage.collectives) if not each.holds]
    return [*figures, *(stage.order for stage in done.stages if not stage.order_holds)]
