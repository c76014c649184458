"""Plan: every degree and setting, the runners-up and why they lost, what to measure, and what the answer rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.document.blocks import Block, Bullets, Heading, Paragraph, Table
from meshwright.answers.launch.baseline import baseline_lines
from meshwright.answers.links import axes, placement_words
from meshwright.answers.memo.memo import Memo
from meshwright.answers.pace import longer, pace
from meshwright.answers.plans.constraint_lines import constraint_lines
from meshwright.answers.plans.switched_plan import switched_lines
from meshwright.answers.plans.ties import published_run_words, reasons, unpublished_lines
from meshwright.answers.screen import runtime_words
from meshwright.answers.step_parts import why_lost
from meshwright.answers.words import accelerators, percent, plural, sequences
from meshwright.cost.estimate import Estimate
from meshwright.launch.settings import launch_settings
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plan import Plan, in_runs
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.published.untested import unpublished
from meshwright.search.ranking.rank import rank_key
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.recompute_modules import names_of
from meshwright.specs.weights import parameter_count
from meshwright.units import GIB, format_count, format_gib, format_seconds

FLAG = re.compile(r"(--[a-z0-9-]+(?: '[^']*')?|[A-Z_]{8,}=\S+\b|\b[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+\b)")
"""An option of a launch, a variable of its environment, or a field of a recipe or a file."""
SHOWN = 6
"""Runners-up."""
NAMED = 2
"""Parts of the step that are named of a runner-up."""
DIVIDED = {
    0: "nothing is sharded",
    1: "optimizer states sharded",
    2: "optimizer states and gradients sharded",
    3: "optimizer states, gradients and weights sharded",
}


def plan_section(memo: Memo) -> Iterator[Block]:
    """The plan with every degree, where its ranks stand, what its launch must set, and the runners-up."""
    best, inputs = memo.best, memo.inputs
    yield Heading("Appendix A. The plan and its runners-up", 2, new_page=True)
    if lines := [*constraint_lines(memo.search, memo.constraint_costs), *switched_lines(memo.switched, best)]:
        yield Bullets(tuple(lines))
    yield Table(("", "value", "which means"), tuple(_fields(best.plan, inputs)), "lll", caption="The configuration")
    yield Paragraph(_placed(best, inputs))
    launch = [FLAG.sub(r"`\1`", str(setting)) for setting in launch_settings(best.plan, inputs)]
    if launch:
        yield Paragraph(f"Besides the degrees, the launch with `{inputs.runtime.id}` must set:")
        yield Bullets(tuple(launch))
    if memo.existing:
        yield Heading("The launch file today", 3)
        yield from (Paragraph(f"{line.strip()}.") for line in baseline_lines(memo.existing, best))
    yield Heading("Runners-up, and why they lost", 3)
    yield from _runners_up(memo)


def premises_section(memo: Memo) -> Iterator[Block]:
    """What to measure first, and what was given and assumed."""
    yield Heading("Appendix G. What to measure first, and the assumptions", 2)
    yield Bullets(tuple(_measure(memo.best)), numbered=True)
    yield Paragraph("Given:")
    yield Bullets(tuple(_given(memo.inputs, memo.assumed)))
    yield Paragraph("Assumed. If one of these is wrong, correct the question:")
    yield Bullets((*memo.assumed, *assumptions(memo.inputs)))


def _fields(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, str, str]]:
    job, ranks = inputs.job, inputs.cluster.num_gpus
    degrees = f"tp {plan.tp} x cp {plan.cp} x pp {plan.pp} x dp {plan.dp}"
    sequence = ", and norms and residuals split along the sequence" if plan.sp else ""
    matrices = f"every layer's matrices split over {plan.tp} ranks{sequence}" if plan.tp > 1 else "matrices stay whole"
    yield "tensor parallel", f"tp {plan.tp}", matrices
    if plan.cp > 1:
        name = CONTEXT_EXCHANGE_NAMES[plan.context_exchange].replace("_", "-")
        yield "context parallel", f"cp {plan.cp}", f"every sequence split over {plan.cp} ranks; exchange: {name}"
    yield "pipeline parallel", f"pp {plan.pp}", _pipeline(plan, inputs)
    yield "data parallel", f"dp {plan.dp}", f"{plural(plan.dp, 'replica')}; {degrees} = {accelerators(ranks)}"
    if inputs.model.is_moe:
        split = f", each split over {plan.etp}" if plan.etp > 1 else ""
        spread = f"spread over {plan.ep} ranks" if plan.ep > 1 else "stay together"
        yield "expert parallel", f"ep {plan.ep}", f"the experts of a layer {spread}{split}"
    yield "micro-batch", plural(plan.micro_batch, "sequence"), f"{plan.micro_batch * job.sequence_length} tokens"
    batch = f"dp {plan.dp} x micro-batch {plan.micro_batch} x m {plan.num_microbatches} = {job.global_batch} sequences"
    yield "micro-batches a step", f"m {plan.num_microbatches}", f"{batch}, the global batch"
    over = f" over {plural(int(sharding_ranks(plan)), 'rank')}" if plan.zero else ""
    yield "ZeRO stage", f"{plan.zero}", f"{DIVIDED[plan.zero]}{over}"
    yield "recompute", RECOMPUTE_NAMES[plan.recompute], _recompute(plan, inputs)
    alone = "" if inputs.runtime.storage.weight_bytes == FP32_BYTES else "no fp32 weights, which loses small updates; "
    apart = inputs.kept_gradient_bytes != inputs.gradient_bytes
    kept = f", kept in {inputs.kept_gradient_bytes}" if apart else ""
    yield "precision", job.precision, f"{alone}gradients summed in {inputs.gradient_bytes} bytes{kept}"


def _pipeline(plan: Plan, inputs: Inputs) -> str:
    if plan.pp == 1:
        return f"every rank works on all {inputs.model.num_layers} layers; no pipeline"
    chunks = f"; {plan.vpp} chunks on each" if plan.vpp > 1 else ""
    layers = f"; layers of the chunks `{in_runs(plan.chunk_layers)}`" if plan.chunk_layers else ""
    ends = [name for name, there in (("embedding", plan.embedding_as_layer), ("head", plan.head_as_layer)) if there]
    counted = f"; {' and '.join(ends)} counted as a layer" if ends else ""
    schedule = SCHEDULE_NAMES[plan.schedule]
    return f"{inputs.model.num_layers} layers over {plan.pp} stages, schedule {schedule}{chunks}{layers}{counted}"


def _recompute(plan: Plan, inputs: Inputs) -> str:
    if plan.recompute == Recompute.NONE:
        return "every activation is kept"
    if plan.recompute == Recompute.FULL:
        which = f"{plan.recompute_layers} layers of every chunk" if plan.recompute_layers else "every layer"
        return f"{which} recomputed from its input"
    if not inputs.runtime.plans.recompute_modules:
        return f"recomputed: what the selective recomputation of {inputs.runtime.id} does not keep"
    return f"recomputed: {', '.join(names_of(plan.recompute_modules))}"


def _placed(best: Estimate, inputs: Inputs) -> str:
    order = ", ".join(axis for axis in inputs.runtime.plans.rank_order if axis != "ep" or inputs.model.is_moe)
    placed = [placement_words(axis, inputs.cluster) for axis in axes(best, inputs)]
    groups = "; ".join(placed) or "a single rank has no peers"
    return f"**Rank placement.** Ranks are numbered in the order {order}, the first varying fastest: {groups}."


def _runners_up(memo: Memo) -> Iterator[Block]:
    best, search = memo.best, memo.search
    others = _others(memo)
    if not others:
        yield Paragraph(f"None: of {search.legal:,} legal plans {search.fitting_words}; all that fit have this layout.")
        return
    rows = tuple(
        (
            f"`{each.plan}`",
            format_seconds(each.step_time_s),
            percent(each.mfu),
            f"{each.memory.device / GIB:.1f}",
            f"{each.fit.probability:.0%}",
            reason_lost(each, memo),
        )
        for each in others
    )
    counts = f"The best plan of each other split; of {search.considered:,} plans considered, {search.legal:,} are "
    counts += f"legal and {search.fitting_words}"
    yield Table(("plan", "step", "MFU", "GiB", "fits", "why it lost"), rows, "lrrrrl", caption=counts)
    yield from (Paragraph(line) for line in unpublished_lines(best, memo.inputs))
    if search.fastest and search.fastest.plan != best.plan:
        yield Paragraph(f"Predicted fastest: `{search.fastest.plan}`, {pace(search.fastest, best)}.")
    if ran := published_run_words(search):
        yield Paragraph(ran)
    if risky := search.faster_at_risk:
        yield Paragraph(f"Not recommended: `{risky.plan}` is {why_lost(risky, best)}.")


def reason_lost(plan: Estimate, memo: Memo) -> str:
    """Why a plan is not the recommended one: in what it is slower, or less safe, simple or proven where it is not."""
    best, inputs = memo.best, memo.inputs
    unproven = unpublished(plan.plan, inputs)
    rest = f"; no published run has {unproven[0].what}" if unproven else ""
    if plan.verdict > best.verdict or longer(plan, best) > share_of_ties(inputs):
        return why_lost(plan, best, NAMED) + rest
    return f"{pace(plan, best)}, closer than predictions can tell: the best plan {reasons(best, plan, inputs)}{rest}"


def _others(memo: Memo) -> list[Estimate]:
    """The best other plans, the fastest first, one of every split."""
    others = [*memo.search.best[1:], *memo.search.other_splits]
    ranked = sorted(others, key=rank_key)
    first: dict[tuple[int, int, int], Estimate] = {}
    for each in ranked:
        first.setdefault((each.plan.tp, each.plan.cp, each.plan.pp), each)
    return list(first.values())[:SHOWN]


def _measure(best: Estimate) -> Iterator[str]:
    memory = best.memory
    yield (
        f"Memory of stage {best.worst_stage} after three steps: {format_gib(memory.allocated)} allocated at the peak, "
        f"{format_gib(memory.reserved)} reserved, {format_gib(memory.device)} as the driver reports it. More than "
        f"{format_gib(best.fit.most_bytes)} is more than 9 of 10 runs like this need; in that case plan again with the "
        "measured figures."
    )
    yield (
        f"Step time, the median of the last ten of twenty steps: {format_seconds(best.step_time_s)}. 10% more on "
        "all ranks means slower kernels at this site; 10% more on some ranks means stragglers."
    )
    worst = max(best.stages, key=lambda stage: stage.forward_s + stage.backward_s)
    both = format_seconds(worst.forward_s + worst.backward_s)
    yield f"Forward and backward of one micro-batch on stage {worst.stage}, the slowest: {both}."


def _given(inputs: Inputs, assumed: tuple[str, ...]) -> Iterator[str]:
    model, cluster, job = inputs.model, inputs.cluster, inputs.job
    links = ", ".join(f"{level.name} {level.effective_bandwidth / 1e9:.4g} GB/s" for level in cluster.levels)
    yield (
        f"model `{model.name}`: {model.num_layers} layers, hidden size {model.hidden_size}, vocabulary "
        f"{model.vocab_size}, {format_count(parameter_count(model))} parameters"
    )
    yield (
        f"cluster: {plural(cluster.num_nodes, 'node')} of {cluster.gpus_per_node} `{cluster.accelerator.id}`; links of "
        f"one accelerator, one direction: {links}"
    )
    yield (
        f"job: {sequences(job.global_batch)} of {job.sequence_length} tokens in one step "
        f"({format_count(job.tokens_per_step)} tokens)"
    )
    if not any("precision" in each for each in assumed):
        yield f"precision: {job.precision}"
    if not any("runtime" in each for each in assumed):
        yield f"runtime: {runtime_words(inputs)}"
