"""The limits: one line for each, then the plans that reach them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.answers.document.blocks import Block, Lines, Table
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.screen import SPEED_COLUMNS, assumption_list, headline, speed_cells
from meshwright.search.fewest import MOST_TIMES_THE_NODES, Limit
from meshwright.search.limits import GRAIN, Limits
from meshwright.units import format_count, format_seconds


def limits_document(limits: Limits) -> dict[str, Any]:
    """The limits as JSON: the question, and per limit its size and the plan that reaches it; null where none does."""
    inputs, best = limits.asked.inputs, limits.asked.best
    sequence, nodes, micro_batch = limits.sequence, limits.nodes, limits.micro_batch
    return {
        "schema": "meshwright.limits/1",
        "inputs": inputs.model_dump(mode="json"),
        "asked": plan_entry(best[0], inputs) if best else None,
        "longest_sequence": sequence
        and {
            "sequence_length": sequence.inputs.job.sequence_length,
            "global_batch": sequence.inputs.job.global_batch,
            **plan_entry(sequence.estimate, sequence.inputs),
        },
        "fewest_nodes": nodes
        and {
            "num_nodes": nodes.inputs.cluster.num_nodes,
            "num_gpus": nodes.inputs.cluster.num_gpus,
            **plan_entry(nodes.estimate, nodes.inputs),
        },
        "largest_micro_batch": micro_batch
        and {
            "micro_batch": micro_batch.estimate.plan.micro_batch,
            **plan_entry(micro_batch.estimate, micro_batch.inputs),
        },
        "elapsed_s": limits.elapsed_s,
        "assumptions": assumptions(inputs),
    }


def limits_screen(limits: Limits) -> tuple[Block, ...]:
    """The question, one line for each limit, the plan that reaches it, and the assumptions."""
    inputs = limits.asked.inputs
    note = f"Every plan here is safe; each step time is of its own question; took {format_seconds(limits.elapsed_s)}"
    return (
        headline(inputs),
        Lines((_sequence_line(limits), _nodes_line(limits), _micro_batch_line(limits))),
        Table(("limit", "plan", *SPEED_COLUMNS), tuple(_rows(limits)), "llrrr", note=note),
        *assumption_list(assumptions(inputs)),
    )


def _sequence_line(limits: Limits) -> str:
    asked, limit = limits.asked.inputs.job, limits.sequence
    if limit is None:
        return _line("Longest sequence", f"none of {GRAIN} tokens or more is safe")
    job = limit.inputs.job
    batch = f"{job.global_batch} a step ({format_count(job.tokens_per_step)} tokens"
    told = f"; asked: {format_count(asked.tokens_per_step)})" if job.tokens_per_step != asked.tokens_per_step else ")"
    return _line("Longest sequence", f"{job.sequence_length:,} tokens, {batch}{told}")


def _nodes_line(limits: Limits) -> str:
    inputs, limit = limits.asked.inputs, limits.nodes
    asked = f"for {inputs.job.global_batch} sequences of {inputs.job.sequence_length}"
    if limit is None:
        return _line("Fewest nodes", f"{MOST_TIMES_THE_NODES * inputs.cluster.num_nodes} are too few {asked}")
    cluster = limit.inputs.cluster
    nodes = "1 node" if cluster.num_nodes == 1 else f"{cluster.num_nodes} nodes"
    return _line("Fewest nodes", f"{nodes} ({cluster.num_gpus} accelerators) {asked}")


def _micro_batch_line(limits: Limits) -> str:
    length = limits.asked.inputs.job.sequence_length
    if limits.micro_batch is None:
        return _line("Largest micro-batch", f"none of sequences of {length} is safe")
    return _line("Largest micro-batch", f"{limits.micro_batch.estimate.plan.micro_batch} sequences of {length}")


def _line(name: str, told: str) -> str:
    return f"{name}: **{told}**"


def _rows(limits: Limits) -> Iterator[tuple[str, ...]]:
    for estimate in limits.asked.best[:1]:
        yield "as asked", str(estimate.plan), *speed_cells(estimate)
    named: dict[str, Limit | None] = {
        "longest sequence": limits.sequence,
        "fewest nodes": limits.nodes,
        "largest micro-batch": limits.micro_batch,
    }
    for name, limit in named.items():
        if limit:
            yield name, str(limit.estimate.plan), *speed_cells(limit.estimate)
