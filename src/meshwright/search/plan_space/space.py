"""Space: every plan whose degrees multiply to the cluster, before any rule is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from meshwright.arrays import IntColumn
from meshwright.layout.groups import context_split
from meshwright.layout.legality.rule import divisors
from meshwright.layout.microbatches import group_sizes
from meshwright.layout.named import usual_exchange
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import grouped
from meshwright.search.plan_space.constrained import allowed, allowed_modules, named, too_many_nodes
from meshwright.search.plan_space.modules import module_sets
from meshwright.search.plan_space.schedule_choices import schedule_choices
from meshwright.specs.choices import RECOMPUTE_NAMES, ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import RecomputeModules

MOST_TOKENS = 1 << 16
"""Tokens of one micro-batch on a rank, unless a single sequence has more."""
SHORTEST_SLICE = 4096
"""Tokens of one sequence that a context-parallel rank holds at least."""


class _Split(NamedTuple):
    """Degrees that are tried together."""

    tp: int
    cp: int
    pp: int
    dp: int
    embedding_as_layer: int = 0
    head_as_layer: int = 0


CHOSEN = (
    *("vpp", "schedule", "micro_batch", "zero", "dp_replicate", "context_exchange", "recompute", "recompute_modules"),
    *("sp", "ep", "etp"),
)
"""Fields that are chosen beside a split, in the order of a part's choices and grids."""
ENUMERATED = (*_Split._fields, *CHOSEN, "num_microbatches", "microbatch_group")
TOGETHER = 1 << 15
"""Plans from which on parts are not enumerated in one table with further ones."""


class Part(NamedTuple):
    """One split, and what can be chosen beside it."""

    split: _Split
    choices: list[Sequence[int] | Sequence[tuple[int, int]]]
    """Field by field or pair by pair."""
    grids: Sequence[tuple[int, int]]
    """Every (ep, etp)."""

    @property
    def size(self) -> int:
        """How many plans it has."""
        return math.prod(map(len, [*self.choices, self.grids]))


def space(inputs: Inputs) -> Iterator[Plans]:
    """All combinations of tp, cp, pp, dp with tp x cp x pp x dp = ranks, and of what can be chosen beside them.

    cp: down to 4096 tokens a rank, where the runtime has it, with each of its exchanges (hierarchical where it is
    neither all ring nor all all-to-all); each schedule of the runtime, with vpp: the divisors of a stage's layers
    (where layers do not divide, one for every largest chunk); micro-batch: the divisors of a replica's batch, up to
    65536 tokens a rank (1 where the batch does not divide, so that the rule can refuse it); sequence parallelism where
    tp > 1; ZeRO stages of the runtime where dp cp > 1, over all ranks or, with hybrid sharding, groups that end where a
    level of links does; its recompute kinds, selective with each of `module_sets`; ep: the common divisors of the
    experts and the ranks that hold one pipeline stage, with etp 1 or tp. One table per split.

    Of all these only what the constraints of the question allow; a cp, micro-batch, vpp, etp or modules that they name
    are tried where they would not be without them, and pipelines where the runtime needs models written for them.
    """
    return tables_of(parts(inputs), inputs)


def size(inputs: Inputs) -> int:
    """How many plans the space holds."""
    return sum(part.size for part in parts(inputs))


def parts(inputs: Inputs) -> list[Part]:
    """The splits of the space that have a plan, before their plans are enumerated."""
    recompute, known = _recomputations(inputs), list[Part]()
    schedules_of = cache(partial(schedule_choices, inputs))
    for degrees in _degrees(inputs):
        choices, grids = _choices(degrees, recompute, inputs), _expert_grids(degrees, inputs)
        if all(choices) and grids:
            splits = (degrees._replace(embedding_as_layer=e, head_as_layer=h) for e, h in _ends(degrees.pp, inputs))
            several = ((split, schedules_of(*_scheduled(split, inputs))) for split in splits)
            known += [Part(split, [schedules, *choices], grids) for split, schedules in several if schedules]
    return known


def tables_of(known: Iterable[Part], inputs: Inputs) -> Iterator[Plans]:
    """The plans of parts of the space, in their order; those of small parts in one table."""
    together, rows = list[Part](), 0
    for part in known:
        together, rows = [*together, part], rows + part.size
        if rows >= TOGETHER:
            yield _table(together, rows, inputs)
            together, rows = [], 0
    if together:
        yield _table(together, rows, inputs)


def _degrees(inputs: Inputs) -> Iterator[_Split]:
    """Every split, its ends no layers."""
    world, limited = inputs.cluster.num_gpus, inputs.constraints.max_nodes_per_tp is not None
    for tp in allowed("tp", divisors(world), inputs):
        for cp in allowed("cp", _context_degrees(world // tp, inputs), inputs):
            for pp in allowed("pp", _pipeline_degrees(world // tp // cp, inputs), inputs):
                dp = world // tp // cp // pp
                too_wide = limited and too_many_nodes(Plan(tp=tp, cp=cp, pp=pp, dp=dp), inputs)
                if allowed("dp", [dp], inputs) and not too_wide:
                    yield _Split(tp=tp, cp=cp, pp=pp, dp=dp)


def _context_degrees(ranks: int, inputs: Inputs) -> list[int]:
    if not inputs.runtime.plans.context_exchanges:
        return [1]
    most = max(inputs.job.sequence_length // SHORTEST_SLICE, 1, *named("cp", inputs))
    return [cp for cp in divisors(ranks) if cp <= most]


def _pipeline_degrees(ranks: int, inputs: Inputs) -> list[int]:
    return divisors(ranks) if inputs.runtime.plans.searches_pipelines or named("pp", inputs) else [1]


def _ends(pp: int, inputs: Inputs) -> list[tuple[int, int]]:
    """Whether the embedding and the head count as layers: every choice that the runtime has; where they take the place
    of missing layers, those that divide by pp, or none where none does.

    Of such a runtime, unequal stages without them are the same as equal ones with them. They alone leave room for
    multi-token prediction.
    """
    runtime, layers = inputs.runtime, inputs.model.num_layers
    counts = [int(counts) for counts in runtime.plans.ends_as_layers] if pp > 1 else [0]
    choices = [(embedding, head) for embedding in counts for head in counts]
    if runtime.pipeline.stage_split == "front":
        return choices
    even = [ends for ends in choices if (layers + sum(ends)) % pp == 0 and layers + sum(ends) >= pp]
    alone = [] if even and not inputs.mtp_layers else [(0, 0)]
    return list(dict.fromkeys([*alone, *even]))


def _choices(
    split: _Split, recompute: list[tuple[int, int]], inputs: Inputs
) -> list[Sequence[int] | Sequence[tuple[int, int]]]:
    """What can be chosen beside degrees, their schedule and experts, field by field or pair by pair."""
    return [
        _micro_batches(split, inputs),
        _sharding(split, inputs),
        _exchanges(split, inputs),
        recompute,
        _sequence_parallel(split, inputs),
    ]


def _table(known: Sequence[Part], rows: int, inputs: Inputs) -> Plans:
    """The plans of some parts, which have so many rows."""
    columns: dict[str, IntColumn] = {name: np.empty(rows, dtype=np.int64) for name in ENUMERATED}
    start = 0
    for part in known:
        _fill({name: column[start : start + part.size] for name, column in columns.items()}, part, inputs)
        start += part.size
    return Plans.filled(columns)


def _fill(columns: Mapping[str, IntColumn], part: Part, inputs: Inputs) -> None:
    """Write the plans of a part into columns of its size."""
    choices = [*part.choices, part.grids]
    shape = [len(choice) for choice in choices]
    fields = (
        (inner, values)
        for inner, choice in zip(reversed(range(len(shape))), choices, strict=True)
        for values in np.atleast_2d(np.array(choice).T)
    )
    for name, (inner, values) in zip(CHOSEN, fields, strict=True):
        columns[name].reshape(shape)[:] = values.reshape(-1, *[1] * inner)
    for name, degree in part.split._asdict().items():
        columns[name][:] = degree
    counts = np.maximum(inputs.job.global_batch // (part.split.dp * columns["micro_batch"]), 1)
    columns["num_microbatches"][:] = counts
    columns["microbatch_group"][:] = _microbatch_groups(part.split.pp, counts, inputs) * grouped(columns["schedule"])


def _scheduled(split: _Split, inputs: Inputs) -> tuple[int, int, bool]:
    """What the schedules of a split depend on: its stages, its layers with the ends that count as some, and whether
    there are as many micro-batches as stages whatever their size.
    """
    fewest = inputs.job.global_batch // (split.dp * _every_micro_batch(split, inputs)[-1])
    layers = inputs.model.num_layers + split.embedding_as_layer + split.head_as_layer
    return split.pp, layers, fewest >= split.pp


def _micro_batches(split: _Split, inputs: Inputs) -> list[int]:
    return allowed("micro_batch", _every_micro_batch(split, inputs), inputs)


def _every_micro_batch(split: _Split, inputs: Inputs) -> list[int]:
    """The divisors of a replica's batch, up to where products gain nothing more; 1 where it does not divide."""
    whole, rest = divmod(inputs.job.global_batch, split.dp)
    most = max(MOST_TOKENS * split.cp // inputs.job.sequence_length, 1, *named("micro_batch", inputs))
    return [1] if rest else [count for count in divisors(whole) if count <= most]


def _microbatch_groups(pp: int, counts: IntColumn, inputs: Inputs) -> IntColumn:
    """The smallest groups in which interleaving can work on numbers of micro-batches that pp does not divide; 0 where
    it does, where there is none or where the runtime chooses.
    """
    groups = np.zeros(int(counts.max()) + 1, dtype=np.int64)
    if pp > 1 and inputs.runtime.plans.microbatch_grouping == "chosen":
        for count in set(counts[(counts > pp) & (counts % pp > 0)].tolist()):
            groups[count] = next(group_sizes(pp, count))
    chosen: IntColumn = groups[counts]
    return chosen


def _recomputations(inputs: Inputs) -> list[tuple[int, int]]:
    """Every (kind of recomputation, modules): the runtime's kinds, the selective one with every set worth trying."""
    default, most = [RecomputeModules.CORE_ATTENTION], allowed_modules(inputs)
    chosen = [modules for modules in module_sets(inputs) if modules in most]
    if inputs.constraints.recompute_modules and most not in chosen:
        chosen.append(most)
    known = [code for code, name in RECOMPUTE_NAMES.items() if name in inputs.runtime.plans.recompute]
    kinds = allowed("recompute", known, inputs)
    sets = {kind: chosen if kind == Recompute.SELECTIVE else default for kind in kinds}
    return [(int(kind), int(modules)) for kind in kinds for modules in sets[kind]]


def _exchanges(split: _Split, inputs: Inputs) -> list[int]:
    """The runtime's context exchanges that differ; without context parallelism the first stands for all."""
    if split.cp == 1:
        return [int(usual_exchange(inputs))]
    known = [ContextExchange[name.upper()] for name in inputs.runtime.plans.context_exchanges]
    plan = Plan(tp=split.tp, cp=split.cp, pp=split.pp, dp=split.dp, context_exchange=ContextExchange.HIERARCHICAL)
    mixed = 1 < context_split(plan, inputs).heads < split.cp
    differing = [int(code) for code in known if mixed or code != ContextExchange.HIERARCHICAL]
    return allowed("context_exchange", differing, inputs)


def _sequence_parallel(split: _Split, inputs: Inputs) -> tuple[int, ...]:
    """Without and with it where tp > 1; with it alone where the runtime asks for it beside experts."""
    runtime = inputs.runtime
    if split.tp == 1 or not runtime.plans.sequence_parallel:
        return (0,)
    needed = inputs.model.is_moe and runtime.plans.experts_need_sequence_parallel
    return tuple(allowed("sp", (1,) if needed else (0, 1), inputs))


def _expert_grids(split: _Split, inputs: Inputs) -> list[tuple[int, int]]:
    """Every (ep, etp) that divides tp cp dp and the experts: etp 1 or tp."""
    ranks = split.tp * split.cp * split.dp
    experts = math.gcd(*(each.count for each in inputs.model.mixtures)) if inputs.model.is_moe else 1
    sliced = {1, split.tp, *(etp for etp in named("etp", inputs) if ranks % etp == 0)} if inputs.model.is_moe else {1}
    return [
        (ep, etp)
        for etp in allowed("etp", sorted(sliced), inputs)
        for ep in allowed("ep", divisors(math.gcd(ranks // etp, experts)), inputs)
    ]


def _sharding(split: _Split, inputs: Inputs) -> list[tuple[int, int]]:
    """Every (ZeRO stage, replicas of the sharding group): groups of two or more ranks; no runtime with half weights
    shards gradients beside a pipeline. A single rank passes for any stage that more ranks could have.
    """
    ranks, step = split.dp * split.cp, split.tp
    stages = inputs.runtime.plans.zero_stages
    if split.pp > 1 and inputs.runtime.storage.weights == "half":
        stages = tuple(stage for stage in stages if stage < 2)
    chosen = allowed("zero", stages, inputs)
    if ranks == 1 and not inputs.runtime.shards_one_rank:
        return [(0, 1)] if chosen else []
    replicas = [1]
    if inputs.runtime.plans.hybrid_sharding:
        ends = [level.size // step for level in inputs.cluster.levels]
        groups = {end for end in ends if 1 < end < ranks and ranks % end == 0 and split.dp % (ranks // end) == 0}
        replicas += [ranks // group for group in sorted(groups, reverse=True)]
    return [(zero, count) for zero in chosen for count in (replicas if zero else [1])]
