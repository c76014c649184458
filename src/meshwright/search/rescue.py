"""Rescue: when nothing fits, what would."""

from __future__ import annotations

from meshwright.errors import IllegalPlan, NothingFits
from meshwright.search.find import Found, find
from meshwright.search.turn import cheapest_that_fit, turn
from meshwright.specs.inputs import Inputs
from meshwright.specs.scale import with_full_node, with_nodes
from meshwright.units import format_gib, format_seconds

NODE_FACTORS = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SEQUENCE_DIVISORS = (2, 4, 8, 16)
MOST_CHANGES = 3
"""Single changes that are told of."""


def nothing_fits(found: Found) -> NothingFits:
    """The error for a search without a fitting plan: the leanest plan, what it lacks, and what would fit, the cheapest
    first: one change of that plan or its question on the same accelerators, a shorter sequence, more accelerators.
    """
    inputs, leanest = found.inputs, found.leanest
    needed, visible = format_gib(leanest.fit.needed_bytes), format_gib(leanest.fit.visible_bytes)
    would = (
        "; ".join(what_would_fit(found))
        or "neither 32 times the nodes nor a sixteenth of the sequence length would fit"
    )
    return NothingFits(
        f"none of the {found.legal} legal plans of {inputs.model.name} fits on {inputs.cluster.name}: the leanest, "
        f"{leanest.plan}, needs {needed} of the {visible} that "
        f"{inputs.cluster.accelerator.id} has. What would fit: {would}"
    )


def what_would_fit(found: Found) -> list[str]:
    """Of a search without a fitting plan, the changes that would make one fit, in words, the cheapest first; none where
    neither 32 times the nodes nor a sixteenth of the sequence length would.
    """
    more = _full_node(found.inputs) or _more_nodes(found.inputs)
    return [*_single_changes(found), *filter(None, (_shorter_sequence(found.inputs), more))]


def _single_changes(found: Found) -> list[str]:
    """Changes of the leanest plan that no search makes: of precision, gradients, a switch, or cp beyond its slices."""
    fitting = [each for each in cheapest_that_fit(turn(found.leanest, found.inputs)) if each.knob != "nodes"]
    return [
        f"that plan with {each.change} ({format_gib(each.estimate.memory.device)}, {each.estimate.verdict}, "
        f"{format_seconds(each.estimate.step_time_s)} a step)"
        for each in fitting[:MOST_CHANGES]
    ]


def _full_node(inputs: Inputs) -> str | None:
    cluster = with_full_node(inputs.cluster)
    plan = _first_fit(inputs.replace(cluster=cluster)) if cluster else None
    return f"one node of {cluster.num_gpus} accelerators with {plan}" if cluster and plan else None


def _more_nodes(inputs: Inputs) -> str | None:
    for factor in NODE_FACTORS:
        nodes = round(inputs.cluster.num_nodes * factor)
        bigger = inputs.replace(cluster=with_nodes(inputs.cluster, nodes))
        plan = _first_fit(bigger)
        if plan:
            return f"{nodes} nodes ({bigger.cluster.num_gpus} accelerators; fewer may do) with {plan}"
    return None


def _shorter_sequence(inputs: Inputs) -> str | None:
    for divisor in SEQUENCE_DIVISORS:
        length = inputs.job.sequence_length // divisor
        if length and (plan := _first_fit(inputs.replace(job=inputs.job.replace(sequence_length=length)))):
            return f"sequence length {length} with {plan}"
    return None


def _first_fit(inputs: Inputs) -> str | None:
    try:
        found = find(inputs, top=1)
    except IllegalPlan:
        return None
    return str(found.best[0].plan) if found.fitting else None
