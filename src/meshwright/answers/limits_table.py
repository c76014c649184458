"""The limits: one line for each, then the plans that reach them."""

from __future__ import annotations

from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.context_length import beyond_positions
from meshwright.answers.document.blocks import Block, Lines, Table
from meshwright.answers.pace import longer
from meshwright.answers.plan_file import nodes_entry, plan_entry
from meshwright.answers.plans.constraint_lines import constraint_lines, constraints_entry
from meshwright.answers.plans.ties import unpublished_lines
from meshwright.answers.records import document_of
from meshwright.answers.screen import SPEED_COLUMNS, assumption_list, headline, speed_cells
from meshwright.answers.words import sequences, times
from meshwright.cost.memory.fit import Verdict
from meshwright.search.many_searches.fewest_nodes import MOST_TIMES_THE_NODES
from meshwright.search.many_searches.limits import SHORT_GRAIN, Limits
from meshwright.units import format_count

TOLD = 1.05
"""Times the step of the plan as asked, from which it is told how slow the largest micro-batch is."""


def limits_document(limits: Limits) -> dict[str, Any]:
    """The limits as JSON: the question, and per limit its size and the plan that reaches it; null where none does."""
    inputs, best = limits.asked.inputs, limits.asked.best
    sequence, nodes, micro_batch = limits.sequence, limits.nodes, limits.micro_batch
    return document_of(
        schema="meshwright.limits/1",
        inputs=inputs,
        asked=plan_entry(best[0], inputs) if best else None,
        longest_sequence=sequence
        and {
            "sequence_length": sequence.inputs.job.sequence_length,
            "global_batch": sequence.inputs.job.global_batch,
            **plan_entry(sequence.estimate, sequence.inputs),
        },
        fewest_nodes=nodes and nodes_entry(nodes),
        largest_micro_batch=micro_batch
        and {"micro_batch": micro_batch.estimate.plan.micro_batch, **plan_entry(micro_batch.estimate, inputs)},
        **constraints_entry(limits.asked, limits.constraint_costs),
        **({} if limits.complete else {"complete": False}),
        assumptions=assumptions(inputs),
    )


def limits_screen(limits: Limits) -> tuple[Block, ...]:
    """The question, one line for each limit, the plan that reaches it, and the assumptions."""
    inputs = limits.asked.inputs
    plans = [("as asked", estimate) for estimate in limits.asked.best[:1]]
    safe = all(estimate.verdict == Verdict.SAFE for _, estimate in plans)
    fits = "Every plan here fits safely." if safe else "The plan as asked is at risk; every other fits safely."
    note = f"{fits} Step times for other lengths or nodes are for different questions; do not compare them."
    lines = []
    for name, limit, words in (
        ("Longest sequence", limits.sequence, _sequence_words(limits)),
        ("Fewest nodes", limits.nodes, _nodes_words(limits)),
        ("Largest micro-batch", limits.micro_batch, _micro_batch_words(limits)),
    ):
        if not limits.complete:
            words = f"{words}, or better" if limit else "not found before the search was stopped"
        lines.append(f"{name}: **{words}**")
        told = (*beyond_positions(limit.inputs), *unpublished_lines(limit.estimate, limit.inputs)) if limit else ()
        lines += [f"  {line}" for line in told]
        plans += [(name.lower(), limit.estimate)] if limit else []
    lines += constraint_lines(limits.asked, limits.constraint_costs) if limits.asked.best else []
    rows = tuple((name, str(estimate.plan), *speed_cells(estimate)) for name, estimate in plans)
    return (
        headline(inputs),
        Lines(tuple(lines)),
        Table(("limit", "plan", *SPEED_COLUMNS), rows, "llrrr", note=note),
        *assumption_list(assumptions(inputs)),
    )


def _sequence_words(limits: Limits) -> str:
    asked, limit = limits.asked.inputs.job, limits.sequence
    if limit is None:
        return f"none: no sequence of {SHORT_GRAIN} tokens or more fits safely"
    job = limit.inputs.job
    tokens = f"{format_count(job.tokens_per_step)} tokens"
    if job.tokens_per_step != asked.tokens_per_step:
        tokens += f"; asked: {format_count(asked.tokens_per_step)}"
    return f"{job.sequence_length:,} tokens, {job.global_batch} a step ({tokens})"


def _nodes_words(limits: Limits) -> str:
    inputs, limit = limits.asked.inputs, limits.nodes
    asked = f"for {sequences(inputs.job.global_batch)} of {inputs.job.sequence_length}"
    if limit is None:
        return f"even {MOST_TIMES_THE_NODES * inputs.cluster.num_nodes} are too few {asked}"
    cluster = limit.inputs.cluster
    counts = (cluster.num_nodes, "node"), (cluster.num_gpus, "accelerator")
    nodes, gpus = (f"{count} {name}{'s' * (count > 1)}" for count, name in counts)
    return f"{nodes} ({gpus}) {asked}"


def _micro_batch_words(limits: Limits) -> str:
    length, limit, asked = limits.asked.inputs.job.sequence_length, limits.micro_batch, limits.asked.best
    if limit is None:
        return f"none: no micro-batch of sequences of {length} fits safely"
    words = f"{sequences(limit.estimate.plan.micro_batch)} of {length}"
    share = 1 + longer(limit.estimate, asked[0]) if asked else 1
    return f"{words}, at {times(share)} the step time of the plan as asked" if share >= TOLD else words
