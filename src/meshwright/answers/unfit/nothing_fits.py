"""Nothing fits: the error of a search without a fitting plan, and what would fit, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from meshwright.answers.launch.unlaunched import unlaunched
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.progress.looking import what_would_fit
from meshwright.answers.records import document_of, priced_plan
from meshwright.answers.words import rack_words
from meshwright.cost.memory.parameters import sharded_expert_parameters
from meshwright.cost.routing import routed_experts
from meshwright.errors import MeshwrightError, NothingFits, Stopped
from meshwright.layout.groups import expert_sharding_ranks
from meshwright.layout.plan import FULLY_SHARDED
from meshwright.search.find import Progress, SearchResult
from meshwright.search.fits.host_memory import host_bytes
from meshwright.search.many_searches.remedies import Kind, Remedy
from meshwright.search.published.untested import unpublished
from meshwright.specs.hosts import unknown_host
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds

UNEVEN = 1.1
"""Times its even share of the experts, from which it is told what a rank holds."""
HOPELESS = "No plan fits safely even with 32 times the nodes or a sixteenth of the sequence length."


def nothing_fits(
    result: SearchResult, most: int | None = None, progress: Progress | None = None, of_all: bool = False
) -> NothingFits:
    """The error for a search without a fitting plan: the leanest plan, what it lacks, and what would fit.

    most: how many ways to look for; None: all; progress: as in `remedies`; of_all: every runtime is asked.
    """
    inputs, leanest = result.inputs, result.leanest
    ways = what_would_fit(result, most, progress)
    words = [*map(remedy_words, ways)]
    listed = "".join([f" {each}" for each in words] if most == 1 else [f"\n  - {each}" for each in words])
    why = unsharded_words(inputs, of_all) + uneven_experts_words(result, hopeless=not ways)
    return NothingFits(
        f"{shortfall_words(result)} {why}{f'What would fit:{listed}' if ways else HOPELESS}",
        document_of(
            inputs=inputs,
            considered=result.considered,
            legal=result.legal,
            leanest=plan_entry(leanest, inputs),
            why=why.strip(),
            what_would_fit=map(remedy_entry, ways),
        ),
    )


def unsharded_words(inputs: Inputs, of_all: bool = False) -> str:
    """That no plan of the runtime divides the weights among ranks, and where to look; nothing where one does.

    of_all: every runtime is asked, so that there is nowhere else to look.
    """
    plans = inputs.runtime.plans
    if plans.tensor_parallel or plans.pipeline_parallel or 3 in plans.zero_stages:
        return ""
    elsewhere = "" if of_all else "; meshwright plan --runtime all looks at the other runtimes"
    return f"{inputs.runtime.id} keeps all weights on every rank{elsewhere}. "


def uneven_experts_words(result: SearchResult, hopeless: bool = False) -> str:
    """That whole experts are dealt out to more ranks than there are experts, were all ranks of the leanest plan to
    share them; hopeless: or would be on more accelerators. Nothing where they are not.
    """
    inputs, plan = result.inputs, replace(result.leanest.plan, dp_replicate=1)
    kind = next((each for each in inputs.model.layer_kinds if each.is_moe), None)
    if kind is None or plan.zero < FULLY_SHARDED:
        return ""
    ranks = int(expert_sharding_ranks(plan))
    held, whole = (float(sharded_expert_parameters(plan, inputs, kind, n)) for n in (ranks, 1))
    share, count = held * ranks / whole, routed_experts(kind).count
    words = f"{inputs.runtime.id} shards experts one by one"
    if share >= UNEVEN:
        dealt = f"with {count} experts on {ranks * plan.ep} ranks"
        return f"{words}: {dealt}, the fullest rank holds {share:.1f} times its share of them. "
    divides_no_further = hopeless and ranks * plan.ep == count and not inputs.runtime.sharding.divides_few_experts
    return f"{words}, so that no more than {count} ranks share its {count} experts. " if divides_no_further else ""


def nothing_fits_or_stopped(
    result: SearchResult, progress: Progress | None, most: int | None = None, of_all: bool = False
) -> MeshwrightError:
    """The same, where it is not stopped before; else that no plan fits, and that this is not complete."""
    try:
        return nothing_fits(result, most, progress, of_all)
    except Stopped:
        return Stopped(f"{shortfall_words(result)} The search was stopped, so this answer is not complete.")


def shortfall_words(result: SearchResult) -> str:
    """What the leanest plan of a search lacks, where none fits, and that no such node is known."""
    inputs, leanest, fit = result.inputs, result.leanest, result.leanest.fit
    unknown = unknown_host(inputs.cluster)
    return (
        f"none of the {result.legal:,} legal plans of {inputs.model.name} fits on "
        f"{inputs.cluster.name}{rack_words(inputs.cluster)}: the one that needs least memory, {leanest.plan}, "
        f"needs {format_gib(fit.needed_bytes)}, and {inputs.cluster.accelerator.id} has "
        f"{format_gib(fit.visible_bytes)}.{assumed_words(inputs)}"
        f"{' ' if unknown else ''}{unknown}"
    )


def assumed_words(inputs: Inputs) -> str:
    """What of the job nobody gave, behind a blank; nothing where all is given."""
    return f" Assumed: {'; '.join(inputs.job.assumptions)}." if inputs.job.assumptions else ""


def remedy_entry(remedy: Remedy) -> dict[str, Any]:
    """What makes a plan safe, with the question that it makes and that plan, for JSON."""
    job, cluster = remedy.inputs.job, remedy.inputs.cluster
    question = {
        "kind": remedy.kind.value,
        "words": remedy_words(remedy),
        "change": short_words(remedy),
        "options": remedy.options,
        "sequence_length": job.sequence_length,
        "num_nodes": cluster.num_nodes,
        "num_gpus": cluster.num_gpus,
    }
    return document_of(**question) | priced_plan(remedy.estimate)


def error_document(refusal: MeshwrightError | None) -> Any:
    """What `--json` prints of one of several questions without a plan."""
    return refusal.document if isinstance(refusal, NothingFits) else {"error": str(refusal)}


def remedy_words(remedy: Remedy) -> str:
    """What makes a plan safe, with that plan, its step time, how likely it fits, and whether it cannot be launched."""
    estimate, refusal = remedy.estimate, unlaunched(remedy.estimate.plan, remedy.inputs)
    unproven = [each.what for each in unpublished(estimate.plan, remedy.inputs)]
    mark = f"; untested: no published run has {' or '.join(unproven)}" if unproven else ""
    mark += f"; {refusal.framework} cannot launch it as it stands" if refusal else ""
    return (
        f"{change_words(remedy)}: {estimate.plan}, {format_seconds(estimate.step_time_s)} a step, "
        f"probability of fitting {estimate.fit.probability:.0%}{mark}"
    )


def change_words(remedy: Remedy) -> str:
    """What makes a plan safe, as options or words, with the memory of hosts that options take."""
    host = host_bytes(remedy.inputs) if remedy.options else 0
    return short_words(remedy) + (f" ({format_gib(host)} of the memory of each host)" if host else "")


def short_words(remedy: Remedy) -> str:
    """What makes a plan safe, as options or words."""
    cluster, options = remedy.inputs.cluster, " ".join(remedy.options)
    beside = f" and {options}" if options else ""
    nodes = f"nodes of {cluster.gpus_per_node}, the usual machine" if remedy.usual_nodes else "nodes"
    return {
        Kind.FEWER_CONSTRAINTS: f"without {options}",
        Kind.FEWER_BYTES: options,
        Kind.SHORTER_SEQUENCE: f"sequences of {remedy.inputs.job.sequence_length} tokens",
        Kind.ADAPTERS: f"low-rank adapters in place of all weights ({options})",
        Kind.MORE_ACCELERATORS: f"{cluster.num_nodes} {nodes} ({cluster.num_gpus} accelerators){beside}"
        if cluster.num_nodes > 1
        else f"one node of {cluster.num_gpus} accelerators{beside}",
    }[remedy.kind]
