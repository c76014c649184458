"""Unfit: the memo of a question that no plan fits; it is about what would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.compare.training import Training, training_on
from meshwright.answers.document.blocks import Block, Bullets, Callout, Document, Heading, Paragraph, Table
from meshwright.answers.memo.budget import Budgets, budgets
from meshwright.answers.memo.output import SCHEMA, budgets_entry, subtitle
from meshwright.answers.memo.sections.memory import budget_blocks
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import document_of
from meshwright.answers.unfit.nothing_fits import change_words, remedy_entry
from meshwright.answers.words import SIGNATURE, accelerators, capitalised, percent, times, told_tokens
from meshwright.errors import listed
from meshwright.search.find import SearchResult
from meshwright.search.fits.least_states import whole_states
from meshwright.search.many_searches.remedies import Kind, Remedy, remedies
from meshwright.search.published.untested import unpublished
from meshwright.specs.inputs import Inputs
from meshwright.units import format_count, format_days, format_gib, format_seconds

TRIED = (
    {Kind.FEWER_CONSTRAINTS},
    {Kind.FEWER_BYTES, Kind.MORE_ACCELERATORS},
    {Kind.SHORTER_SEQUENCE},
    {Kind.ADAPTERS},
)
"""Kinds of ways, what changes the question least first."""


@dataclass(frozen=True)
class Unfit:
    """A question that no plan fits."""

    search: SearchResult
    budgets: Budgets
    """Of the leanest plan."""
    remedies: tuple[Remedy, ...]
    """Changes of the question with which a plan is safe: fewer bytes on the same accelerators, then more of them."""
    price: float | None = None
    """Of one accelerator for one hour; None where none is given."""

    @property
    def chosen(self) -> Remedy:
        """The way to ask for: fewer constraints, else the same job by fewer bytes or on more accelerators, else a
        shorter sequence, else adapters; of these one that published runs have, and the fewest accelerator-hours.
        """
        alike = next(found for kinds in TRIED if (found := [each for each in self.remedies if each.kind in kinds]))
        return min(alike, key=lambda each: (_unproven(each), _training(each, self).accelerator_hours))

    @property
    def inputs(self) -> Inputs:
        """The question."""
        return self.search.inputs

    @property
    def least_gpus(self) -> int:
        """Accelerators whose memory holds the states alone, divided over all of them."""
        return ceil(whole_states(self.inputs) / self.search.leanest.fit.visible_bytes)


def unfit(search: SearchResult, price: float | None = None) -> Unfit:
    """The figures of a memo for a search that found no plan that fits. price: of one accelerator for one hour."""
    return Unfit(search, budgets(search.leanest, search.inputs), tuple(remedies(search)), price)


def unfit_document(memo: Unfit) -> Document:
    """What is missing, why, and what would fit."""
    inputs = memo.inputs
    title = f"{inputs.model.name} does not fit on {inputs.cluster.num_gpus} {inputs.cluster.accelerator.id}"
    return Document(title, subtitle(inputs), tuple(_blocks(memo)))


def unfit_entry(memo: Unfit) -> dict[str, Any]:
    """The figures as JSON."""
    inputs, search = memo.inputs, memo.search
    return document_of(
        schema=SCHEMA,
        inputs=inputs,
        fits=False,
        legal=search.legal,
        leanest=plan_entry(search.leanest, inputs),
        budgets=budgets_entry(memo.budgets, inputs),
        least_accelerators_for_states=memo.least_gpus,
        what_would_fit=map(remedy_entry, memo.remedies),
        assumptions=assumptions(inputs),
    )


def _blocks(memo: Unfit) -> Iterator[Block]:
    yield from reasons(memo)
    yield Heading("Decision asked", 2)
    yield Paragraph(_asked(memo))
    yield Paragraph(SIGNATURE)
    yield Heading("Appendix A. Memory: why nothing fits", 2, new_page=True)
    yield from budget_blocks(memo.budgets, memo.inputs, "least memory")
    yield Heading("Appendix B. Assumptions", 2)
    yield Bullets(tuple(assumptions(memo.inputs)))


def reasons(memo: Unfit) -> Iterator[Block]:
    """That nothing fits, why, and what would."""
    inputs, leanest = memo.inputs, memo.search.leanest
    visible, needed = leanest.fit.visible_bytes, leanest.fit.needed_bytes
    yield Heading("Verdict", 2)
    yield Callout(
        "No plan fits: do not start this job",
        f"None of the {memo.search.legal:,} legal plans for {inputs.runtime.id} fits. The one that needs the least "
        f"memory, `{leanest.plan}`, needs {format_gib(needed)} on stage {leanest.worst_stage}: "
        f"{times(needed / visible)} the {format_gib(visible)} that a process can use.",
        "bad",
    )
    yield Paragraph(_bound(memo))
    yield Paragraph(_largest(memo))
    yield Heading("What would fit", 2)
    yield from _remedies(memo)


def _bound(memo: Unfit) -> str:
    inputs, ranks = memo.inputs, memo.inputs.cluster.num_gpus
    states, visible = memo.budgets.one.memory.states, memo.search.leanest.fit.visible_bytes
    states_words = (
        f"Weights, gradients and optimizer states of {inputs.model.name} take {format_gib(states)}. Data parallelism "
        f"alone puts all of that on each of the {ranks} accelerators. Divided over all of them it is "
        f"{format_gib(states / ranks)} on each, {percent(states / ranks / visible)} of the {format_gib(visible)} there"
    )
    if memo.least_gpus > ranks:
        return f"{states_words}, so no layout can hold it. The states alone need {memo.least_gpus} accelerators."
    return f"{states_words}. With activations and the rest no legal layout fits."


def _largest(memo: Unfit) -> str:
    memory = memo.search.leanest.memory
    parts = {name: size for name, size in memory._asdict().items() if size}
    name = max(parts, key=lambda each: parts[each])
    return (
        f"**The bottleneck is memory, above all {name.replace('_', ' ')}**: {format_gib(parts[name])} of the "
        f"{format_gib(memory.device)} that this plan needs."
    )


def _remedies(memo: Unfit) -> Iterator[Block]:
    if not memo.remedies:
        yield Paragraph(
            f"With `{memo.inputs.runtime.id}` no plan fits even with 32 times the nodes or a sixteenth of the sequence "
            "length. `meshwright plan --runtime all` tries the other runtimes."
        )
        return
    chosen, tokens = memo.chosen, format_count(told_tokens(memo.inputs.job))
    yield Callout("First thing to try", f"{capitalised(change_words(chosen))}, with `{chosen.estimate.plan}`.", "good")
    columns = ["change, each alone", "plan", "step", f"{tokens} tokens", "accelerator-hours", "fits"]
    columns[5:5] = ["price"] if memo.price else []
    yield Table(
        tuple(columns),
        tuple(_remedy(each, memo) for each in memo.remedies),
        "ll" + "r" * (len(columns) - 2),
        caption="Ways to a safe plan: first less memory on the same accelerators, then a shorter sequence, adapters or "
        "more accelerators",
    )


def _remedy(remedy: Remedy, memo: Unfit) -> tuple[str, ...]:
    estimate, training = remedy.estimate, _training(remedy, memo)
    unproven = [each.what for each in unpublished(estimate.plan, remedy.inputs)]
    return (
        change_words(remedy) + (f" (untested: no published run has {listed(unproven)})" if unproven else ""),
        f"`{estimate.plan}`",
        format_seconds(estimate.step_time_s),
        format_days(training.days),
        format_count(training.accelerator_hours),
        *([format_count(training.cost)] if training.cost else []),
        f"{estimate.fit.probability:.0%}",
    )


def _unproven(remedy: Remedy) -> bool:
    return bool(unpublished(remedy.estimate.plan, remedy.inputs))


def _training(remedy: Remedy, memo: Unfit) -> Training:
    """As many tokens with every remedy, also where one trains adapters alone."""
    return training_on(told_tokens(memo.inputs.job), remedy.estimate, remedy.inputs, memo.price)


def _asked(memo: Unfit) -> str:
    inputs = memo.inputs
    text = f"Do not commit {accelerators(inputs.cluster.num_gpus)} of `{inputs.cluster.accelerator.id}` to this job."
    if not memo.remedies:
        return text
    chosen, per = memo.chosen, format_count(told_tokens(inputs.job))
    training = _training(chosen, memo)
    price = f", {format_count(training.cost)} at {memo.price:g} an hour" if training.cost else ""
    return (
        f"{text} Plan again with {change_words(chosen)}: the probability of fitting is then "
        f"{chosen.estimate.fit.probability:.0%}, and {per} tokens take {format_days(training.days)} "
        f"({format_count(training.accelerator_hours)} accelerator-hours{price}{_fewest(memo)}). Or choose another of "
        "the ways above."
    )


def _fewest(memo: Unfit) -> str:
    """What the way that is asked for saves over that with the fewest accelerators."""
    more = [each for each in memo.remedies if each.kind is Kind.MORE_ACCELERATORS]
    if memo.chosen not in more[1:]:
        return ""
    hours, least = (_training(each, memo).accelerator_hours for each in (memo.chosen, more[0]))
    fewest = accelerators(more[0].inputs.cluster.num_gpus)
    return f", {percent(1 - hours / least)} fewer than on {fewest}" if hours < least else ""
