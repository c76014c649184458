"""Memory: how the plan resolves what does not fit on one accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.answers.document.blocks import Block, Figure, Heading, Paragraph, Table
from meshwright.answers.memo.budget import Budgets
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.activations import activations
from meshwright.answers.memo.words import percent, plural, times
from meshwright.answers.pictures.memory import MemoryBar, memory_picture
from meshwright.answers.uncertainty import margin_line
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plan import RECOMPUTE_NAMES, Plan
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, GIGA, format_gib, format_seconds

PARTS = (
    ("parameters", ("parameters",)),
    ("gradients", ("gradients",)),
    ("optimizer states", ("optimizer_states",)),
    ("activations", ("activations",)),
    ("logits and temporaries", ("logits", "temporaries", "workspaces")),
    ("fragmentation", ("fragmentation",)),
    ("context and communicators", ("context", "communicators")),
)
"""Rows of the budget, and the components in each."""


WHOLE = "whole"


def memory_section(memo: Memo) -> Iterator[Block]:
    """The budget before and after, who shards what, activations, the worst stage, the margin and the alternative."""
    inputs, held = memo.inputs, memo.budgets
    yield Heading("1. Memory: how it fits", 2)
    yield Paragraph(_before(held, inputs))
    yield from budget_blocks(held, inputs)
    yield Heading("Who divides what", 3)
    yield Table(
        ("axis", "weights", "gradients", "optimizer states", "activations"),
        tuple(sharding_rows(held.chosen.plan, inputs)),
        "lllll",
        "What each axis divides each part of the memory by",
    )
    yield Paragraph(_saved(held))
    yield Heading("Activations, and the fullest stage", 3)
    yield from activations(memo)
    yield Heading("Margin", 3)
    yield Paragraph(_margin(held.chosen, inputs))
    yield Heading("The alternative: full sharding", 3)
    yield Paragraph(_alternative(held, inputs))


def budget_blocks(held: Budgets, inputs: Inputs, called: str = "the plan") -> Iterator[Block]:
    """Memory by component in the layouts that are compared, as a table and as a picture; called: the chosen one."""
    columns = _columns(held, inputs, called)
    yield _budget(columns)
    yield _picture(columns, inputs)


def _before(held: Budgets, inputs: Inputs) -> str:
    visible, name = inputs.cluster.accelerator.visible_memory_bytes, inputs.cluster.accelerator.id
    one, copy = held.one.memory, held.replicated.memory
    told = (
        f"On one {name} the weights, gradients and optimizer states of {inputs.model.name} alone take "
        f"{format_gib(one.states)}; with {plural(held.one.plan.micro_batch, 'sequence')} in a micro-batch it would "
        f"need {format_gib(one.device)}, and {format_gib(visible)} are available"
    )
    if held.one.verdict < Verdict.OUT_OF_MEMORY:
        return f"{told}: it fits, so every split below is for speed. {_copies(held, inputs)}"
    return f"{told}: {times(one.device / visible)} too large. {_copies(held, inputs)}" + (
        f" No number of replicas changes that: data parallelism divides the work of a step, not the "
        f"{format_gib(copy.states)} of states."
    )


def _copies(held: Budgets, inputs: Inputs) -> str:
    ranks, size = inputs.cluster.num_gpus, format_gib(held.replicated.memory.device)
    if ranks == 1:
        return ""
    return f"Data parallelism alone on all {ranks} puts a full replica on each, {size}."


def _columns(held: Budgets, inputs: Inputs, called: str) -> list[tuple[str, Components[float]]]:
    """The layouts that the budget compares."""
    ranks, chosen = inputs.cluster.num_gpus, held.chosen
    columns = [("one accelerator", held.one.memory), (f"replicas on all {ranks}", held.replicated.memory)]
    if held.without_zero:
        columns.append((f"{called} without ZeRO", held.without_zero.memory))
    if held.without_recompute:
        columns.append((f"{called} without recomputation", held.without_recompute.memory))
    columns.append((f"{called}, stage {chosen.worst_stage}", chosen.memory))
    if held.fully_sharded and held.fully_sharded.plan != chosen.plan:
        columns.append((f"full sharding over {ranks}", held.fully_sharded.memory))
    return columns


def _budget(columns: Sequence[tuple[str, Components[float]]]) -> Table:
    rows = [(name, *(f"{_size(memory, names):.1f}" for _, memory in columns)) for name, names in PARTS]
    rows.append(("sum", *(f"{memory.device / GIB:.1f}" for _, memory in columns)))
    return Table(("GiB", *(name for name, _ in columns)), tuple(rows), caption="Memory by component", total=True)


def _size(memory: Components[float], names: Sequence[str]) -> float:
    return sum(float(getattr(memory, name)) for name in names) / GIB


def _picture(columns: Sequence[tuple[str, Components[float]]], inputs: Inputs) -> Figure:
    visible = inputs.cluster.accelerator.visible_memory_bytes
    bars = [
        MemoryBar(name, tuple((part, _size(memory, names) * GIB) for part, names in PARTS)) for name, memory in columns
    ]
    title = f"Memory of the fullest rank against the {format_gib(visible)} of {inputs.cluster.accelerator.id}"
    return Figure("memory", memory_picture(bars, visible, f"{format_gib(visible)} visible", title), title)


def _saved(held: Budgets) -> str:
    chosen, told = held.chosen.memory, []
    if held.without_zero:
        whole = held.without_zero.memory
        fits = "which still fits" if held.without_zero.verdict.fits else "which does not fit"
        told.append(
            f"ZeRO {held.chosen.plan.zero} saves {format_gib(whole.device - chosen.device)} on the fullest rank: "
            f"without it the plan needs {format_gib(whole.device)}, {fits}."
        )
    if held.without_recompute:
        kept = held.without_recompute.memory
        told.append(
            f"Recomputation ({RECOMPUTE_NAMES[held.chosen.plan.recompute]}) saves "
            f"{format_gib(kept.device - chosen.device)}: keeping every activation needs {format_gib(kept.device)}."
        )
    states = f"Of {format_gib(held.one.memory.states)} of states the fullest rank keeps {format_gib(chosen.states)}"
    return " ".join([f"{states}, {percent(chosen.states / held.one.memory.states)}.", *told])


def _margin(best: Estimate, inputs: Inputs) -> str:
    fit, memory = best.fit, best.memory
    label = inputs.cluster.accelerator.memory_bytes / GIGA
    return (
        f"The plan leaves {format_gib(fit.visible_bytes - fit.needed_bytes)} of the fullest rank free, after "
        f"{format_gib(memory.fragmentation)} of fragmentation and "
        f"{format_gib(memory.context + memory.communicators)} of CUDA context and communicators; it fits with a "
        f"probability of {fit.probability:.0%}. "
        f"{margin_line(best, inputs)} By the 80% rule (states and activations alone, arXiv:2411.06465) it "
        f"uses {percent(best.eighty_percent_usage)} of the {label:.0f} GB on the label: {best.eighty_percent_verdict}."
    )


def _alternative(held: Budgets, inputs: Inputs) -> str:
    ranks, sharded, chosen = inputs.cluster.num_gpus, held.fully_sharded, held.chosen
    if sharded is None:
        return (
            f"`{inputs.runtime.id}` has no ZeRO 3 for this model and cluster, so full sharding over {ranks} ranks is "
            "not possible; other runtimes have it (`meshwright plan --runtime all`)."
        )
    if sharded.plan == chosen.plan:
        return f"This plan is it: ZeRO 3 divides weights, gradients and states over {ranks} ranks."
    pace = sharded.step_time_s / chosen.step_time_s - 1
    speed = f"{percent(abs(pace))} {'slower' if pace >= 0 else 'faster'} than the recommendation"
    held_by = (
        f"{format_gib(sharded.memory.states)} of states and {format_gib(sharded.memory.activations)} of activations"
    )
    return (
        f"ZeRO 3 without a pipeline (`{sharded.plan}`) keeps {held_by}, {format_gib(sharded.memory.device)} in all: "
        f"{sharded.verdict}, {format_seconds(sharded.step_time_s)} a step, {speed}. It exchanges weights for every "
        f"layer, and {format_seconds(sharded.time.exposed_dp_s)} of that stay exposed in a step."
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
        yield f"pp {plan.pp}", cut, cut, cut, "not: fewer layers, more micro-batches in flight"
    if inputs.model.is_moe and plan.ep > 1:
        cut = f"experts by {plan.ep}"
        yield f"ep {plan.ep}", cut, cut, cut, "moved with their tokens"
    if plan.dp * plan.cp > 1:
        ranks = f"dp {plan.dp}" + (f" x cp {plan.cp}" if plan.cp > 1 else "")
        cut = f"by {int(sharding_ranks(plan))}"
        if inputs.model.is_moe:
            cut += f", experts by {int(expert_sharding_ranks(plan))}"
        parts = (cut if plan.zero >= stage else WHOLE for stage in (3, 2, 1))
        yield f"{ranks}, ZeRO {plan.zero}", *parts, "whole: every replica has its own sequences"
