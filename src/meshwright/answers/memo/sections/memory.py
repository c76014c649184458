"""Memory: how the plan resolves what does not fit on one accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.answers.basis.uncertainty import margin_line
from meshwright.answers.document.blocks import Block, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.budget import Budgets
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.activations import activations
from meshwright.answers.pace import pace
from meshwright.answers.pictures.memory import MOST, MemoryBar, is_cut, memory_picture
from meshwright.answers.plans.ties import unpublished_lines
from meshwright.answers.screen import eighty_percent_words
from meshwright.answers.words import percent, plural, times
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plan import Plan
from meshwright.specs.choices import RECOMPUTE_NAMES
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES
from meshwright.units import GIB, format_gib, format_seconds

GRAPHS = "CUDA graphs"
BUFFERS = "exchange buffers"
PARTS = (
    ("parameters", ("parameters",)),
    ("gradients", ("gradients",)),
    ("optimizer states", ("optimizer_states",)),
    ("activations", ("activations",)),
    ("logits and temporaries", ("logits", "temporaries", "workspaces")),
    ("fragmentation", ("fragmentation",)),
    (GRAPHS, ("cuda_graphs",)),
    ("context and communicators", ("context", "communicators")),
    (BUFFERS, ("exchange_buffers",)),
)
"""Rows of the budget, and the components in each."""
WHERE_ANY = (GRAPHS, BUFFERS)
"""Rows that are left out where they hold nothing."""
WHOLE = "whole"
FITS = {
    Verdict.SAFE: "still fits",
    Verdict.AT_RISK: "does not fit safely",
    Verdict.OUT_OF_MEMORY: "does not fit",
}
"""What a plan does in memory, by its verdict."""


def memory_section(memo: Memo) -> Iterator[Block]:
    """The budget before and after, who shards what, activations, the worst stage, the margin and the alternative."""
    inputs, budgets = memo.inputs, memo.budgets
    yield Heading("Appendix B. Memory: how it fits", 2)
    yield Paragraph(_before(budgets, inputs))
    yield from budget_blocks(budgets, inputs)
    yield Heading("Who divides what", 3)
    if rows := tuple(sharding_rows(budgets.chosen.plan, inputs)):
        columns = ("axis", "weights", "gradients", "optimizer states", "activations")
        yield Table(columns, rows, "lllll", caption="What each axis divides each part of the memory by")
        yield Paragraph(_saved(budgets))
    else:
        yield Paragraph("Nothing is divided: the only rank holds all of it.")
    yield Heading("Activations, and the fullest stage", 3)
    yield from activations(memo)
    yield Heading("Margin", 3)
    yield Paragraph(_margin(budgets.chosen, inputs))
    yield Heading("The alternative: full sharding", 3)
    yield Paragraph(_alternative(budgets, inputs))


def budget_blocks(budgets: Budgets, inputs: Inputs, called: str = "the plan") -> Iterator[Block]:
    """Memory by component in the layouts that are compared, as a table and as a picture; called: the chosen one."""
    columns, accelerator = _columns(budgets, inputs, called), inputs.cluster.accelerator
    parts = [(name, [_size(memory, names) for _, memory in columns]) for name, names in PARTS]
    shown = ((name, sizes) for name, sizes in parts if name not in WHERE_ANY or any(sizes))
    rows = [(name, *(f"{size / GIB:.1f}" for size in sizes)) for name, sizes in shown]
    rows.append(("sum", *(f"{memory.device / GIB:.1f}" for _, memory in columns)))
    yield Table(("GiB", *(name for name, _ in columns)), tuple(rows), caption="Memory by component", total=True)
    bars = [memory_bar(name, memory) for name, memory in columns]
    visible = format_gib(accelerator.visible_memory_bytes)
    title = f"Memory of the fullest rank, of the {visible} that {accelerator.id} has"
    picture = memory_picture(bars, accelerator.visible_memory_bytes, f"{visible} usable", title)
    cut = any(is_cut(bar, accelerator.visible_memory_bytes) for bar in bars)
    yield Figure("memory", picture, f"{title}, in GiB{f'; bars are cut at {MOST:g} times that' if cut else ''}")


def memory_bar(label: str, memory: Components[float]) -> MemoryBar:
    """The bar of one layout; memory: bytes."""
    sizes = ((part, _size(memory, names)) for part, names in PARTS)
    return MemoryBar(label, tuple((part, size) for part, size in sizes if part not in WHERE_ANY or size))


def _before(budgets: Budgets, inputs: Inputs) -> str:
    accelerator, ranks = inputs.cluster.accelerator, inputs.cluster.num_gpus
    one, copy, visible = budgets.one.memory, budgets.replicated.memory, accelerator.visible_memory_bytes
    need = (
        f"On one {accelerator.id} the weights, gradients and optimizer states of {inputs.model.name} alone take "
        f"{format_gib(one.states)}. With {plural(budgets.one.plan.micro_batch, 'sequence')} in a micro-batch the model "
        f"needs {format_gib(one.device)}, and {format_gib(visible)} is available"
    )
    copies = f"Data parallelism alone puts a full replica on each of the {ranks}, {format_gib(copy.device)}."
    copies = copies if ranks > 1 else ""
    if budgets.one.verdict.fits:
        return f"{need}. It fits, so every split below is for speed. {copies}"
    return (
        f"{need}: {times(one.device / visible)} too large. {copies} More replicas do not help: data "
        f"parallelism divides the work of a step, not the {format_gib(one.states)} of states."
    )


def _columns(budgets: Budgets, inputs: Inputs, called: str) -> list[tuple[str, Components[float]]]:
    """The layouts that the budget compares."""
    ranks, chosen = inputs.cluster.num_gpus, budgets.chosen
    columns = [("one accelerator", budgets.one.memory)]
    if budgets.without_zero:
        columns.append((f"{called} without ZeRO", budgets.without_zero.memory))
    if budgets.without_recompute:
        columns.append((f"{called} without recomputation", budgets.without_recompute.memory))
    columns.append((f"{called}, stage {chosen.worst_stage}", chosen.memory))
    if budgets.fully_sharded and budgets.fully_sharded.plan != chosen.plan:
        columns.append((f"full sharding over {ranks}", budgets.fully_sharded.memory))
    return columns


def _size(memory: Components[float], names: Sequence[str]) -> float:
    return sum(float(getattr(memory, name)) for name in names)


def _saved(budgets: Budgets) -> str:
    chosen, whole = budgets.chosen.memory, budgets.one.memory
    share = percent(chosen.states / whole.states)
    text = f"The fullest rank keeps {format_gib(chosen.states)} of the {format_gib(whole.states)} of states, {share}."
    if budgets.without_zero:
        plain = budgets.without_zero.memory.device
        text += (
            f" ZeRO {budgets.chosen.plan.zero} saves {format_gib(plain - chosen.device)} on the fullest rank: "
            f"without it the plan needs {format_gib(plain)}, which {FITS[budgets.without_zero.verdict]}."
        )
    if budgets.without_recompute:
        plain = budgets.without_recompute.memory.device
        text += (
            f" Recomputation ({RECOMPUTE_NAMES[budgets.chosen.plan.recompute]}) saves "
            f"{format_gib(plain - chosen.device)}: keeping every activation would need {format_gib(plain)}."
        )
    return text


def _margin(best: Estimate, inputs: Inputs) -> str:
    fit, memory = best.fit, best.memory
    graphs = f", {format_gib(memory.cuda_graphs)} of {GRAPHS}" if memory.cuda_graphs else ""
    graphs += f", {format_gib(memory.exchange_buffers)} of {BUFFERS}" if memory.exchange_buffers else ""
    return (
        f"The plan is predicted to leave {format_gib(fit.visible_bytes - fit.needed_bytes)} of the fullest rank "
        f"free, after {format_gib(memory.fragmentation)} of fragmentation{graphs} and "
        f"{format_gib(memory.context + memory.communicators)} of CUDA context and communicators; it fits with a "
        f"probability of {fit.probability:.0%}. "
        f"{margin_line(best, inputs)} The 80% rule (states and activations alone, arXiv:2411.06465) counts "
        f"{eighty_percent_words(best, inputs)}."
    )


def _alternative(budgets: Budgets, inputs: Inputs) -> str:
    ranks, sharded, chosen = inputs.cluster.num_gpus, budgets.fully_sharded, budgets.chosen
    if ranks == 1:
        return "A single accelerator has nothing to share with."
    if sharded is None:
        return (
            f"`{inputs.runtime.id}` has no ZeRO 3 for this model and cluster, so full sharding over {ranks} ranks is "
            "not possible; other runtimes have it (`meshwright plan --runtime all`)."
        )
    if sharded.plan == chosen.plan:
        shared = int(sharding_ranks(chosen.plan))
        return f"This plan is fully sharded: ZeRO 3 divides weights, gradients and states over {shared} ranks."
    memory = sharded.memory
    return (
        f"ZeRO 3 without a pipeline (`{sharded.plan}`) keeps {format_gib(memory.states)} of states and "
        f"{format_gib(memory.activations)} of activations, {format_gib(memory.device)} in all: "
        f"{sharded.verdict}, {format_seconds(sharded.step_time_s)} a step ({pace(sharded, chosen)}; the recommended "
        f"plan takes {format_seconds(chosen.step_time_s)}). It exchanges weights for every layer, and "
        f"{format_seconds(sharded.time.exposed_dp_s)} of that stays exposed in a step."
        f"{''.join(f' {line}' for line in unpublished_lines(sharded, inputs))}"
    )


def sharding_rows(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, ...]]:
    """One row for every axis with two or more ranks: axis, weights, gradients, optimizer states, activations."""
    if plan.tp > 1:
        cut = f"by {plan.tp}"
        yield f"tp {plan.tp}", cut, cut, cut, cut if plan.sp else f"{cut}, but norms and residuals"
    if plan.cp > 1:
        parts = ("with dp" if plan.zero >= stage else WHOLE for stage in (3, 2, 1))
        yield f"cp {plan.cp}", *parts, f"by {plan.cp}"
    if plan.pp > 1:
        cut = f"by {plan.pp}, in layers"
        yield f"pp {plan.pp}", cut, cut, cut, "not divided: fewer layers, but more micro-batches in flight"
    if inputs.model.is_moe and plan.ep > 1:
        cut = f"experts by {plan.ep}"
        yield f"ep {plan.ep}", cut, cut, cut, "not divided: they move with their tokens"
    if plan.dp * plan.cp > 1:
        ranks = f"dp {plan.dp}" + (f" x cp {plan.cp}" if plan.cp > 1 else "")
        cut = f"by {int(sharding_ranks(plan))}"
        if inputs.model.is_moe:
            cut += f", experts by {int(expert_sharding_ranks(plan))}"
        weights, *others = (cut if plan.zero >= stage else WHOLE for stage in (3, 2, 1))
        if plan.zero == 2 and inputs.runtime.storage.weights == "full":
            in_fp32 = inputs.runtime.storage.weight_bytes == FP32_BYTES
            weights = f"fp32 {cut}, {inputs.recipe.half} whole" if in_fp32 else f"{cut}, and gathered whole"
        yield f"{ranks}, ZeRO {plan.zero}", weights, *others, "not divided: every replica has its own sequences"
