"""Page answer: what the page says of a question, from the screens and pictures of the command line and the memo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.compare.training import training_line, training_on
from meshwright.answers.document.blocks import Block, Figure, Heading, Lines, Paragraph
from meshwright.answers.document.html import body
from meshwright.answers.memo.micro_batching import micro_batching
from meshwright.answers.memo.sections.memory import budget_blocks
from meshwright.answers.memo.sections.pipeline import timeline_figure
from meshwright.answers.memo.unfit import Unfit, reasons, unfit
from meshwright.answers.pictures.focusable import focusable
from meshwright.answers.plans.beyond import beyond
from meshwright.answers.plans.table import (
    clearly_leaner,
    front_section,
    other_splits_section,
    plan_summary,
    risky_lines,
    search_lines,
)
from meshwright.answers.public.pictures import front_figure, memory_figure, waterfall_figure
from meshwright.answers.public.plans import MOST_BARS
from meshwright.answers.screen import assumption_list, headline, memory_table, time_table
from meshwright.answers.words import told_tokens
from meshwright.search.find import Progress, SearchResult, find
from meshwright.search.many_searches.pareto import pareto
from meshwright.web.changes import remedy_links
from meshwright.web.difference import difference
from meshwright.web.task import Answered, Task


def page_answer(task: Task, progress: Progress) -> Answered:
    """The sections of the answer to a task, as HTML."""
    result = find(task.inputs, progress=progress)
    changed = difference(task, result, progress)
    if result.best:
        return Answered(_html((*changed, *_plan(task, result, progress))))
    missing = unfit(result, task.question.price)
    links = remedy_links(task.question, missing.remedies)
    return Answered(links.encode() + _html((*changed, *_unfit(missing))), fits=False)


def _html(blocks: Iterable[Block]) -> bytes:
    """Blocks with pictures that one can tab through."""
    return body(
        each._replace(svg=focusable(each.svg)) if isinstance(each, Figure) else each for each in blocks
    ).encode()


def _plan(task: Task, result: SearchResult, progress: Progress) -> Iterator[Block]:
    best, inputs = result.best[0], result.inputs
    yield Heading("The plan", 2)
    yield from plan_summary(result, beyond(result, progress))
    yield from _cost(task, result)
    yield from risky_lines(result)
    yield from other_splits_section(result)
    yield Heading("Memory", 2)
    yield memory_figure(result.best[:MOST_BARS], inputs)
    yield memory_table(best, inputs)
    yield Heading("Time", 2)
    yield waterfall_figure(best, inputs)
    yield time_table(best)
    if pipeline := micro_batching(best, inputs):
        yield Heading("Pipeline", 2)
        yield timeline_figure(pipeline, best)
    front = pareto(result, progress)
    if len(shown := clearly_leaner(front)) > 1:
        yield Heading("Time against memory", 2)
        yield front_figure(shown, inputs)
        yield from (each for each in front_section(front) if not isinstance(each, Heading))
    yield Heading("Assumptions", 2)
    yield search_lines(result)
    yield from (each for each in assumption_list(assumptions(inputs)) if not isinstance(each, Heading))


def _cost(task: Task, result: SearchResult) -> Iterator[Block]:
    price, tokens = task.question.price, result.inputs.job.tokens
    if tokens or price is not None:
        tokens = told_tokens(result.inputs.job)
        training = training_on(tokens, result.best[0], result.inputs, price)
        yield Paragraph(training_line(training, tokens, price))


def _unfit(missing: Unfit) -> Iterator[Block]:
    result = missing.search
    yield headline(result.inputs)
    yield from reasons(missing)
    yield Heading("Memory", 2)
    yield from budget_blocks(missing.budgets, result.inputs, "least memory")
    yield Heading("Assumptions", 2)
    yield search_lines(result)
    yield from (each for each in assumption_list(assumptions(result.inputs)) if not isinstance(each, Heading | Lines))
