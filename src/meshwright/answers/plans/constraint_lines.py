"""Constraint lines: which plans a question allows, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from meshwright.answers.launch.unlaunched import unlaunched
from meshwright.answers.pace import pace
from meshwright.answers.records import fields_of, priced_plan
from meshwright.cost.estimate import Estimate
from meshwright.errors import listed
from meshwright.search.find import SearchResult
from meshwright.search.many_searches.constraint_costs import DISPATCHER, ConstraintCost, constrained, options_of
from meshwright.search.plan_space.constrained import says_nothing
from meshwright.specs.behaviours import OF_EXPERTS, as_catalogued, replaced_words
from meshwright.specs.constraints import ABOUT, without_effect
from meshwright.specs.inputs import Inputs


def constraint_lines(result: SearchResult, costs: Sequence[ConstraintCost]) -> list[str]:
    """What of the question has no effect, and the best plan without each constraint that costs or gains
    something; nothing without either.
    """
    inputs, given = result.inputs, constrained(result.inputs)
    why = _without_effect(inputs)
    idle = [f"{options_of(inputs, (name,))[0]} has no effect: {reason}." for name, reason in why.items()]
    idle += *idle_behaviours(inputs), *_idle_documents(inputs)
    for name in says_nothing(result.best[0].plan, inputs):
        if name not in why:
            why[name] = ABOUT[name]
            idle.append(f"{options_of(inputs, (name,))[0]} says nothing of this plan: {ABOUT[name]}.")
    if costs or why.keys() >= {*given}:
        return idle + [_cost(each, result.best[0], inputs) for each in costs]
    if len(given) == 1:
        return [*idle, f"{options_of(inputs, given)[0]} costs nothing: what is recommended without it is no faster."]
    return [*idle, "The constraints cost nothing: what is recommended without one of them, or all, is no faster."]


def idle_of_each(results: Mapping[str, SearchResult]) -> tuple[str, ...]:
    """What of a question about several runtimes says nothing of the best plan of some. results: by runtime."""
    of = {name: says_nothing(each.best[0].plan, each.inputs) for name, each in results.items()}
    inputs = next(iter(results.values())).inputs
    return tuple(
        f"{options_of(inputs, (field,))[0]} says nothing of the plans of "
        f"{listed([name for name, fields in of.items() if field in fields])}: {ABOUT[field]}."
        for field in dict.fromkeys(chain(*of.values()))
    )


def _without_effect(inputs: Inputs) -> dict[str, str]:
    """By what the question constrains in vain, why."""
    why = without_effect(inputs.constraints)
    if DISPATCHER in constrained(inputs) and not inputs.model.is_moe:
        why[DISPATCHER] = f"{inputs.model.name} has no experts"
    return why


def idle_behaviours(inputs: Inputs) -> Iterator[str]:
    """Behaviours that a question replaces, and on which nothing of it rests."""
    runtime, accelerator = inputs.runtime, inputs.cluster.accelerator
    why = dict[str, tuple[str, ...]]()
    if not inputs.model.is_moe:
        why[f"{inputs.model.name} has no experts"] = OF_EXPERTS
    if runtime.storage.fused_update:
        why["one kernel updates a parameter (fused_update)"] = ("update_lists",)
    if not inputs.stores_quantised:
        why["no weight is stored in quantised form alone (quantised_weights)"] = ("keeps_transposed_weights",)
    known = runtime.storage.quantised_weights + as_catalogued(runtime, "quantised_weights").storage.quantised_weights
    if inputs.job.precision not in known:
        why[f"the job trains in {inputs.job.precision}"] = ("quantised_weights",)
    if runtime.communication.hides_by_peer_access and not accelerator.overlaps_by_peer_access:
        why[f"no {accelerator.id} writes to the memory of another"] = ("tensor_parallel",)
    for reason, fields in why.items():
        idle = tuple(each for each in runtime.replaced if each.field in fields)
        others = tuple(each for each in runtime.replaced if each.field not in fields)
        matter = replaced_words(runtime.replace(replaced=others))
        for words in replaced_words(runtime.replace(replaced=idle)):
            if words not in matter:
                yield f"--with {words.replace(' ', '=', 1)} has no effect: {reason}."


def _idle_documents(inputs: Inputs) -> list[str]:
    """That documents are longer than the sequences that they are packed into."""
    documents, sequence = inputs.job.document_length, inputs.job.sequence_length
    if documents is None or documents <= sequence:
        return []
    return [f"--document-length {documents} has no effect on sequences of {sequence} tokens."]


def _cost(cost: ConstraintCost, best: Estimate, inputs: Inputs) -> str:
    """As `Without --cp 1: 3.1% faster (tp4 ...)`, or `With --dispatcher fused the best plan is 3.1% faster than
    without.`
    """
    if cost.gains:
        tied = ", closer than predictions can tell" if cost.tied else ""
        return f"With {' '.join(cost.without)} the best plan is {pace(best, cost.estimate)} than without{tied}."
    safer = f"{cost.estimate.verdict} instead of {best.verdict}, " if cost.estimate.verdict < best.verdict else ""
    tied = ", closer than predictions can tell" if cost.tied else ""
    refusal = None if unlaunched(best.plan, inputs) else unlaunched(cost.estimate.plan, inputs)
    risk = f", which {refusal.framework} cannot launch as it stands" if refusal else ""
    return f"Without {' '.join(cost.without)}: {safer}{pace(cost.estimate, best)}{tied} ({cost.estimate.plan}{risk})"


def constraints_entry(result: SearchResult, costs: Sequence[ConstraintCost]) -> dict[str, Any]:
    """The same for JSON; nothing where the question has no constraints."""
    if not constrained(result.inputs):
        return {}
    return {
        "constraint_costs": [
            fields_of(each, "without", "faster", "tied") | priced_plan(each.estimate) for each in costs
        ]
    }
