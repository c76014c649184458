"""Kinds of plans, such as ZeRO 3 or a pipeline schedule, of which published runs have some and not others."""

from __future__ import annotations

import numpy as np

from meshwright.arrays import BoolColumn
from meshwright.layout.plan import USUAL
from meshwright.layout.plans import Plans
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, ContextExchange
from meshwright.specs.inputs import Inputs

RARE_EXCHANGES = (ContextExchange.ALL_TO_ALL, ContextExchange.HIERARCHICAL)
"""Of context parallelism; whether the other two have published runs is not told by their rows."""


def kinds(plans: Plans, inputs: Inputs) -> dict[str, BoolColumn]:
    """What sets plans apart, by the words that users read: whether each plan is of that kind, shape (n,)."""
    family, experts = inputs.runtime.family, np.full(len(plans), inputs.model.is_moe)
    split, sharded, whole = plans.pp > 1, plans.zero == 3, plans.ep * plans.etp == 1
    return {
        f"tensor parallelism across scale-up domains in {family}": plans.tp > inputs.cluster.levels[0].size,
        "tensor without sequence parallelism": (plans.tp > 1) & (plans.sp == 0),
        f"expert parallelism in {family}": experts & (plans.ep > 1),
        f"experts fully sharded without expert parallelism in {family}": experts & sharded & whole,
        f"experts fully sharded under expert parallelism in {family}": experts & sharded & (plans.ep > 1),
        "experts under context parallelism": experts & (plans.cp > 1),
        "tensor parallelism of experts": experts & (plans.etp > 1),
        f"ZeRO 2 in {family}": plans.zero == 2,
        f"ZeRO 3 in {family}": sharded,
        "fewer micro-batches than pipeline stages": split & (plans.num_microbatches < plans.pp),
        "ZeRO 2 in a pipeline": split & (plans.zero == 2),
        "ZeRO 3 in a pipeline": split & sharded,
        "ZeRO 3 under tensor parallelism": (plans.tp > 1) & sharded,
        f"ZeRO 3 under context parallelism in {family}": (plans.cp > 1) & sharded,
        "replicas of a sharding group": plans.dp_replicate > 1,
        "some layers of a chunk recomputed": plans.recompute_layers > 0,
        **{f"{SCHEDULE_NAMES[each]} schedule": plans.schedule == each for each in Schedule if each not in USUAL},
        **{
            f"{CONTEXT_EXCHANGE_NAMES[each].replace('_', '-')} context exchange": (plans.cp > 1)
            & (plans.context_exchange == each)
            for each in RARE_EXCHANGES
        },
    }
