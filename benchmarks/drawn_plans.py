"""Plans over models and axes, drawn at random from a seed, for `make verified`.

Those of torchtitan by model; of accelerate, dense, with experts and GPT-2, and of pytorch-ddp, on the models of
transformers where tp and cp are 1, else with norms of one kernel. Schedules that split the backward pass are drawn
without a compiler, as torch compiles none of them, and without recomputation, whose memory is not priced there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from meshwright.errors import CannotVerify, IllegalPlan, InvalidSpec, NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.pytorch.frameworks import INSTALLED
from meshwright.pytorch.scope import scope_of
from meshwright.schedules.records import Schedule
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-0.6b", "qwen3-32b", "mixtral-8x7b", "qwen3-30b-a3b")
"""Of torchtitan's plans."""
DENSE_MODELS = ("llama-3.2-1b", "qwen2.5-7b", "qwen3-0.6b")
GPT2_MODELS = ("gpt2", "gpt2-large", "gpt2-xl")
EXPERTS_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
TRANSFORMERS = {
    "accelerate": ("accelerate", DENSE_MODELS),
    "accelerate-experts": ("accelerate", EXPERTS_MODELS),
    "accelerate-gpt2": ("accelerate", GPT2_MODELS),
    "pytorch-ddp": ("pytorch-ddp", DENSE_MODELS),
    "pytorch-ddp-gpt2": ("pytorch-ddp", GPT2_MODELS),
}
"""Runtime and models of what is drawn by these names."""
NAMES = (*MODELS, *TRANSFORMERS)
RING_RELEASE = "torchtitan@0.1.0"
SCHEDULES = (
    Schedule.ONE_F_ONE_B,
    Schedule.INTERLEAVED,
    Schedule.GPIPE,
    Schedule.INTERLEAVED_ZERO_BUBBLE,
    Schedule.ZERO_BUBBLE_V,
    Schedule.DUALPIPE_V,
)


class Case(NamedTuple):
    """A plan, and the question that it answers."""

    name: str
    """Of those that it was drawn by: one of `NAMES`."""
    plan: Plan
    inputs: Inputs

    def __str__(self) -> str:
        inputs = self.inputs
        return f"{inputs.model.name} {inputs.runtime.id} s{inputs.job.sequence_length} {self.plan}"


def drawn_plans(seed: str, count: int, names: Sequence[str] = NAMES) -> list[Case]:
    """So many plans, dealt out to the names in turn; the same ones for the same seed, and the first ones of a longer
    list; none of transformers where that is missing.
    """
    possible = [name for name in names if INSTALLED.transformers or name not in TRANSFORMERS]
    rows = zip(*(_plans(seed, name) for name in possible), strict=True)
    return [*islice((case for row in rows for case in row), count)]


def _plans(seed: str, name: str) -> Iterator[Case]:
    """Plans of one name without end, none of them twice."""
    lot, seen = random.Random(f"{seed} {name}"), set[str]()
    while True:
        case = _of_transformers(lot, name) if name in TRANSFORMERS else _of_torchtitan(lot, name)
        if case and str(case) not in seen:
            seen.add(str(case))
            yield case


def _of_torchtitan(lot: random.Random, name: str) -> Case | None:
    plan, sequence = _split_plan(lot), lot.choice((2048, 4096, 8192))
    splits = plan.schedule.record.splits_backward
    behaviours = [f"compiled={'false' if splits else lot.choice(('true', 'false'))}"]
    return _legal(name, name, plan, sequence, _release(plan), behaviours + ["cross_entropy=eager"] * splits)


def _of_transformers(lot: random.Random, name: str) -> Case | None:
    runtime, models = TRANSFORMERS[name]
    model, plan, sequence = lot.choice(models), _replicated_plan(lot, runtime), lot.choice((1024, 4096))
    own_norms = ["elementwise=eager"] * (plan.tp * plan.cp > 1)
    return _legal(name, model, plan, sequence, runtime, ["compiled=false", *own_norms])


def _replicated_plan(lot: random.Random, runtime: str) -> Plan:
    """Without a pipeline or experts; of replicas alone under DistributedDataParallel."""
    sharded, dp = runtime == "accelerate", lot.choice((1, 2, 4, 8, 16))
    tp, cp = (lot.choice((1, 1, 2, 4)), lot.choice((1, 1, 2))) if sharded else (1, 1)
    return Plan(
        tp=tp,
        sp=tp > 1,
        cp=cp,
        context_exchange=ContextExchange.ALL_GATHER if cp > 1 else ContextExchange.RING,
        dp=dp,
        zero=lot.choice((2, 3)) if sharded else 0,
        dp_replicate=lot.choice((1, 1, 2)) if sharded and dp > 2 else 1,
        micro_batch=lot.choice((1, 2)),
        num_microbatches=lot.choice((1, 2, 4)),
        recompute=lot.choice((Recompute.NONE, Recompute.FULL)),
    )


def _split_plan(lot: random.Random) -> Plan:
    tp, cp, pp = lot.choice((1, 1, 2, 4, 8)), lot.choice((1, 1, 1, 2, 4)), lot.choice((1, 1, 2, 2, 4))
    dp, ep = lot.choice((1, 2, 4, 8, 16)), lot.choice((1, 2, 4, 8))
    schedule = lot.choice(SCHEDULES) if pp > 1 else Schedule.ONE_F_ONE_B
    ends, recompute = lot.choice((True, True, False)), lot.choice((Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL))
    exchanges = (ContextExchange.RING, ContextExchange.ALL_GATHER)
    return Plan(
        tp=tp,
        sp=tp > 1 and lot.random() < 0.75,
        cp=cp,
        context_exchange=lot.choice(exchanges) if cp > 1 else ContextExchange.RING,
        pp=pp,
        vpp=lot.choice((2, 2, 3, 4)) if schedule.record.chunks == "several" else schedule.record.chunks,
        schedule=schedule,
        dp=dp,
        ep=ep,
        zero=lot.choice((2, 3)),
        dp_replicate=lot.choice((1, 1, 2)) if dp > 1 else 1,
        micro_batch=lot.choice((1, 1, 2)),
        num_microbatches=pp * lot.choice((1, 2)) if pp > 1 else lot.choice((1, 2, 4)),
        embedding_as_layer=pp > 1 and ends,
        head_as_layer=pp > 1 and ends,
        recompute=Recompute.NONE if schedule.record.splits_backward else recompute,
    )


def _legal(name: str, model: str, plan: Plan, sequence: int, runtime: str, behaviours: Sequence[str]) -> Case | None:
    """The case, where it is legal and can be run on PyTorch."""
    try:
        inputs = Inputs(
            model=read_model(model),
            cluster=read_cluster(f"{max(plan.num_gpus // 8, 1)}x{min(plan.num_gpus, 8)}:h100"),
            job=Job(sequence_length=sequence, global_batch=plan.dp * plan.micro_batch * plan.num_microbatches),
            runtime=with_behaviours(read_runtime(runtime), behaviours),
        )
        require_legal(plan, inputs)
        scope_of(plan, inputs, INSTALLED)
    except (CannotVerify, IllegalPlan, InvalidSpec, NotModelled):
        return None
    return Case(name, plan, inputs)


def _release(plan: Plan) -> str:
    """Today's torchtitan, or its release that has a ring."""
    return RING_RELEASE if plan.cp > 1 and plan.context_exchange == ContextExchange.RING else "torchtitan"
