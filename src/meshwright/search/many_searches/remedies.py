"""Remedies: when nothing fits, what would, each with the plan that a search recommends there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from itertools import chain, islice
from typing import Any

from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput
from meshwright.layout.legality.rule import divisors
from meshwright.search.find import Progress, SearchResult
from meshwright.search.fits.host_memory import hosts_hold
from meshwright.search.fits.least_states import states_fit
from meshwright.search.many_searches.fewest_nodes import fewest_inside, round_numbers, safe_at, stays_inside
from meshwright.search.published.untested import unpublished
from meshwright.search.safe import safe_plan
from meshwright.specs.adapters import ATTENTION, runtimes_with_adapters
from meshwright.specs.behaviours import LIGER, beside_adapters, position_of, with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.scale import with_full_node, with_gpus
from meshwright.specs.switches import narrower_forms

SEQUENCE_DIVISORS = (2, 4, 8, 16)
MOST_CHANGES = 5
"""Ways to hold fewer bytes that are kept."""
MORE_STEPS = 3
"""Numbers of nodes, or of accelerators of a node, that are kept beyond the fewest."""
USUAL_RANK = 16
"""Of adapters. Source: Dettmers et al., arXiv:2305.14314, figure 4: adapters on all layers train alike from rank 8 on.
"""
OPTIONS = {"sequence_length": "seq-len", "lora_rank": "lora-rank", "lora_modules": "lora-modules"}
"""Fields of a job that the command line calls otherwise."""
KERNELS_OF_TRANSFORMERS = (LIGER, "on"), ("compiled", "true")
"""Switches for models of transformers, with the position at which logits take fewer bytes."""
Question = tuple[tuple[str, ...], Inputs]
"""Options, and the question with them."""


class Kind(Enum):
    """What a remedy changes."""

    FEWER_CONSTRAINTS = "fewer constraints"
    FEWER_BYTES = "fewer bytes"
    """The form of what a rank holds, or slices of sequences that are shorter than usual; on the same accelerators."""
    SHORTER_SEQUENCE = "shorter sequence"
    ADAPTERS = "adapters beside frozen weights"
    """Another training on the same accelerators."""
    MORE_ACCELERATORS = "more accelerators"


@dataclass(frozen=True)
class Remedy:
    """A question that differs in one thing or two, for which a search recommends a plan that is safe."""

    kind: Kind
    inputs: Inputs
    """The changed question."""
    estimate: Estimate
    """Of the plan that is recommended there."""
    options: tuple[str, ...] = ()
    """What the command line says in addition; of fewer constraints, what it leaves out."""
    usual_nodes: bool = False
    """Whether its nodes are usual machines, where the question has a part of one."""


Asking = Callable[[Kind, int, int], None]
"""Told what is looked for next: its kind, its place among those of all kinds, 1 first, and how many these are."""


def remedies(
    result: SearchResult, most: int | None = None, progress: Progress | None = None, asking: Asking | None = None
) -> list[Remedy]:
    """Of a search without a fitting plan, what would make one safe: constraints left out, then fewer bytes on the same
    accelerators, a shorter sequence, adapters, and more accelerators. None where neither 32 times the nodes nor a
    sixteenth of the sequence length would.

    Recomputation and ZeRO are no remedies of their own: a search tries all that the runtime has. most: how many to look
    for; None: all; progress: told as by `find`, anew for each search; asking: told before each kind is looked for.
    Raises `Stopped` where it stops one.
    """

    def found() -> Iterator[Remedy]:
        for place, (kind, way) in enumerate(WAYS.items(), start=1):
            if asking:
                asking(kind, place, len(WAYS))
            yield from way(result.inputs, progress)

    return [*islice(found(), most)]


def _fewer_constraints(inputs: Inputs, progress: Progress | None) -> list[Remedy]:
    """Every constraint left out by itself where that makes a plan safe, else all of them where that does."""
    given = inputs.constraints.given

    def without(*names: str) -> Question:
        options = tuple(map(inputs.constraints.option, names))
        return options, inputs.replace(constraints=inputs.constraints.without(*names))

    alone = [*_answers(Kind.FEWER_CONSTRAINTS, map(without, given), progress)]
    return alone or [*_answers(Kind.FEWER_CONSTRAINTS, [without(*given)] if len(given) > 1 else [], progress)]


def _fewer_bytes(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    """Other forms of logits, gradients, optimizer states and matrix products, each by itself; then slices that a search
    passes over; where none of them is enough, other forms of logits and of optimizer states together.
    """
    alone = False
    questions = chain(_other_forms(inputs), _shorter_slices(inputs))
    for each in islice(_answers(Kind.FEWER_BYTES, questions, progress), MOST_CHANGES):
        alone = True
        yield each
    if not alone:
        yield from islice(_answers(Kind.FEWER_BYTES, _two_forms(inputs), progress), MOST_CHANGES)


def _loads_in_pieces(inputs: Inputs) -> list[str]:
    """The change that loads packed weights layer by layer, where they are loaded whole."""
    return ["loads_whole=false"] if inputs.packs_weights and inputs.runtime.sharding.loads_whole else []


def _other_forms(inputs: Inputs) -> Iterator[Question]:
    runtime, job = inputs.runtime, inputs.job
    for change in _loads_in_pieces(inputs):
        yield from _question(inputs, behaviours=[change])
    for change in _other_losses(runtime):
        yield from _question(inputs, behaviours=[change])
    if runtime.sharding.accumulates_whole:
        yield from _question(inputs, behaviours=["accumulates_whole=false"])
    if inputs.gradient_bytes > HALF_BYTES:
        yield from _question(inputs, gradients="half")
    yield from (((f"--with {change}",), after) for change, after in narrower_forms(inputs))
    for precision in runtime.plans.precisions:
        if precision != job.precision:
            yield from _question(inputs, precision=precision)


def _two_forms(inputs: Inputs) -> Iterator[Question]:
    for change in _other_losses(inputs.runtime):
        for options, after in _question(inputs, behaviours=[change]):
            yield from (((*options, f"--with {states}"), both) for states, both in narrower_forms(after))


def _other_losses(runtime: Runtime) -> Iterator[str]:
    """Other forms of logits: cross-entropies that a run may ask for, and what models of transformers can switch."""
    others = (name for name in runtime.kernels.other_cross_entropies if name != runtime.kernels.cross_entropy)
    yield from (f"cross_entropy={name}" for name in others)
    for switch, position in KERNELS_OF_TRANSFORMERS:
        if switch in runtime.switches and position_of(runtime, switch) != position:
            yield f"{switch}={position}"


def _question(inputs: Inputs, behaviours: Sequence[str] = (), **fields: Any) -> Iterator[Question]:
    """The question with other fields of its job and behaviours of its runtime, if it is a valid one."""
    texts = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    options = [f"--{OPTIONS.get(name, name)} {text}" for name, text in texts.items()]
    options += [f"--with {each}" for each in behaviours]
    try:
        job, runtime = inputs.job.replace(**fields), with_behaviours(inputs.runtime, behaviours)
        yield tuple(options), inputs.replace(job=job, runtime=beside_adapters(runtime, job))
    except InvalidInput:
        return


def _shorter_slices(inputs: Inputs) -> Iterator[Question]:
    """The question with each cp, where it names none: one that a search passes over is tried where it is named."""
    if inputs.runtime.plans.context_exchanges and inputs.constraints.cp is None:
        for degree in divisors(inputs.cluster.num_gpus)[1:]:
            constraints = Constraints(**inputs.constraints.given | {"cp": degree})
            yield (f"--cp {degree}",), inputs.replace(constraints=constraints)


def _shorter_sequence(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    lengths = (inputs.job.sequence_length // divisor for divisor in SEQUENCE_DIVISORS)
    questions = (each for length in lengths for each in _question(inputs, sequence_length=length))
    return islice(_answers(Kind.SHORTER_SEQUENCE, questions, progress), 1)


def _adapters(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    """Adapters of the usual rank, where all weights are trained; under another runtime where this one has none. Beside
    packed weights where 2-byte ones do not fit, or are asked for.
    """
    has_own = inputs.runtime.plans.adapters and not inputs.runtime.plans.adapters_of
    whole = [] if inputs.freezes_weights else [*(_with_adapters if has_own else _adapters_elsewhere)(inputs)]
    packed = (
        ((*options, *more), question)
        for options, asked in whole or [((), inputs)]
        for more, question in ([] if asked.packs_weights else _question(asked, behaviours=["frozen_weights=nf4"]))
    )
    return islice(_answers(Kind.ADAPTERS, chain(whole, packed), progress), 1)


def _with_adapters(inputs: Inputs) -> Iterator[Question]:
    """Beside every linear layer, of models with experts beside those of attention."""
    modules = {"lora_modules": ATTENTION} if inputs.model.is_moe else {}
    return _question(inputs, lora_rank=USUAL_RANK, **modules)


def _adapters_elsewhere(inputs: Inputs) -> Iterator[Question]:
    for name in runtimes_with_adapters():
        try:
            other = inputs.replace(runtime=read_runtime(name))
        except InvalidInput:
            continue
        for options, question in _with_adapters(other):
            yield (f"--runtime {name}", *options), question


def _more_accelerators(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    """More of them; where no number makes a plan safe, with other logits, or packed weights loaded in pieces."""
    found = False
    for each in _on_more(inputs, progress):
        found = True
        yield each
    losses = _other_losses(inputs.runtime) if LIGER in inputs.runtime.switches else ()
    for change in () if found else (*losses, *_loads_in_pieces(inputs)):
        for options, question in _question(inputs, behaviours=[change]):
            yield from (replace(each, options=options) for each in _on_more(question, progress))


def _on_more(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    """Of accelerators of one node up to the usual machine, else of whole nodes: the fewest on which a plan is safe,
    then of the next numbers those that are faster than all before, until published runs are like one of these plans.
    """
    full = with_full_node(inputs.cluster)
    found = [*islice(_enough(_within_a_node(inputs, full, progress)), 1 + MORE_STEPS)] if full else []
    if found or not full:
        yield from found or _enough(_whole_nodes(inputs, progress))
        return
    for each in _enough(_whole_nodes(inputs.replace(cluster=full), progress)):
        yield replace(each, usual_nodes=True)


def _within_a_node(inputs: Inputs, full: Cluster, progress: Progress | None) -> Iterator[Remedy]:
    """Of 2, 4, 8 … accelerators, as machines are sold and rented, and of the whole node."""
    more = range(inputs.cluster.gpus_per_node + 1, full.gpus_per_node + 1)
    counts = (count for count in more if count.bit_count() == 1 or count == full.gpus_per_node)
    clusters = (with_gpus(full, count) if count < full.gpus_per_node else full for count in counts)
    return _answers(Kind.MORE_ACCELERATORS, (((), inputs.replace(cluster=cluster)) for cluster in clusters), progress)


def _whole_nodes(inputs: Inputs, progress: Progress | None) -> Iterator[Remedy]:
    """The fewest nodes, as `limits` finds them, and round numbers beyond, up to twice as many; where the plan on the
    fewest keeps tensor parallelism within a scale-up domain, only those whose plan does.
    """
    at = cache(partial(safe_at, inputs, progress=progress))
    if fewest := fewest_inside(inputs, at=at):
        first, inside = fewest.inputs.cluster.num_nodes, stays_inside(fewest)
        for limit in filter(None, map(at, (first, *round_numbers(first)))):
            if stays_inside(limit) or not inside:
                yield Remedy(Kind.MORE_ACCELERATORS, limit.inputs, limit.estimate)


def _enough(found: Iterable[Remedy]) -> Iterator[Remedy]:
    """Of plans on ever more accelerators those that are faster than all before: so many, and if published runs are like
    none of these, the first that they are like.
    """
    fastest, proven, count = math.inf, False, 0
    for each in found:
        if each.estimate.step_time_s >= fastest:
            continue
        is_proven = not unpublished(each.estimate.plan, each.inputs)
        fastest, count = each.estimate.step_time_s, count + 1
        if count <= 1 + MORE_STEPS or is_proven:
            yield each
        proven = proven or is_proven
        if proven and count > MORE_STEPS:
            return


def _answers(kind: Kind, questions: Iterable[Question], progress: Progress | None) -> Iterator[Remedy]:
    """Of questions with their options, those for which a search recommends a plan that is safe."""
    for options, inputs in questions:
        if not states_fit(inputs) or not hosts_hold(inputs):
            continue
        try:
            best = safe_plan(inputs, progress)
        except InvalidInput:
            continue
        if best:
            yield Remedy(kind, inputs, best, options)


WAYS: dict[Kind, Callable[[Inputs, Progress | None], Iterable[Remedy]]] = {
    Kind.FEWER_CONSTRAINTS: _fewer_constraints,
    Kind.FEWER_BYTES: _fewer_bytes,
    Kind.SHORTER_SEQUENCE: _shorter_sequence,
    Kind.ADAPTERS: _adapters,
    Kind.MORE_ACCELERATORS: _more_accelerators,
}
"""By which each kind is looked for, in this order."""
