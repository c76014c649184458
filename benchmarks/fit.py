"""Fit the constants that training runs alone can give to the published runs, and write them and the residuals.

Writes fitted.toml, residuals.json, residuals_by_words.json and published_plans.json of the catalogue, and prints what
every constant is worth: the mean error of sources that it does not rest on, with it and without it.
"""

from __future__ import annotations

import io
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

import meshwright
from meshwright.answers.document.blocks import Block, Table
from meshwright.answers.document.terminal import terminal
from meshwright.specs.fitted import fitted_values
from meshwright.specs.residuals import OrderError, Residuals
from meshwright.validation.fit.curves import Curve, curves_of
from meshwright.validation.fit.fitting import fit_constants, leave_one_source_out, leave_one_source_out_coverage
from meshwright.validation.fit.residuals import memory_residuals, residuals_of, step_time_residuals
from meshwright.validation.fit.unproven import unproven_coverage
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.siblings import as_known, as_strangers
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.ranking import order_error_of
from meshwright.validation.score.score import Score, score_of
from meshwright.validation.score.screen import score_screen
from published import PLANS, published_json
from readme import filled
from recipes import recipe_errors

UNSEEN = Path(__file__).parent / "unseen_runs.csv"
DOCS = Path(__file__).parents[1] / "docs"
CATALOG = Path(meshwright.__file__).parent / "specs" / "catalog"
SUMMARY = ("step time, judged together", "inside intervals")
"""How the first columns of the tables of a summary begin."""


def main() -> None:
    outcomes = outcomes_of(configurations(read_rows()))
    curves = curves_of(outcomes)
    constants = fit_constants(curves)
    before, path = fitted_values(), CATALOG / "fitted.toml"
    path.write_text(with_values(path.read_text("utf-8"), constants), "utf-8")
    worth = [f"{'constant':24} {'value':>6} {'error without it':>17}"]
    for name, value in constants.items():
        worth.append(f"{name:24} {value:6.2f} {left_out_error(curves, name):17.1%}")
    worth.append(f"{'none left out':24} {'':6} {left_out_error(curves):17.1%}")
    print("\n".join(worth), f"before: {before}", sep="\n")
    strangers = outcomes_of(configurations(as_strangers(read_rows())))
    judged = leave_one_source_out([*outcomes, *strangers], outcomes)
    without, strangers = judged[: len(outcomes)], judged[len(outcomes) :]
    known = {
        "step_time": residuals_of(step_time_residuals(without), off_zero=True),
        "memory": residuals_of(memory_residuals(outcomes)),
    }
    unproven = unproven_coverage(without)
    print(
        f"of {unproven.n} runs of {unproven.sources} sources whose kind of plan no other source has, "
        f"{unproven.mean_of_sources:.0%} are inside the interval of an unproven plan (mean over sources)"
    )
    order = order_error_of(without, recipe_errors())
    (CATALOG / "residuals.json").write_text(as_json({**known, "order": order}), "utf-8")
    unseen = outcomes_of(configurations(as_known(read_rows(UNSEEN))))
    worded = [*strangers, *unseen]
    by_words = {
        "step_time": residuals_of(step_time_residuals(worded), off_zero=True),
        "memory": residuals_of(memory_residuals(worded)),
    }
    (CATALOG / "residuals_by_words.json").write_text(as_json(by_words), "utf-8")
    PLANS.write_text(published_json(outcomes, constants), "utf-8")
    left_out = score_of(without, leave_one_source_out_coverage(without, without))
    never_used = score_of(unseen, leave_one_source_out_coverage(unseen, worded))
    read_by_words = score_of(strangers, leave_one_source_out_coverage(strangers, worded))
    shown = {"glance": glance(left_out, never_used), "left-out": printed(left_out), "constants": "\n".join(worth)}
    write_page("accuracy", {**shown, "by-words": printed_summary(read_by_words)})
    write_page("blind-predictions", {"unseen": printed(never_used)})


def write_page(name: str, shown: Mapping[str, str]) -> None:
    """Write what a page shows, by its marks."""
    page = DOCS / f"{name}.md"
    text = page.read_text("utf-8")
    for mark, content in shown.items():
        text = filled(text, mark, content)
    page.write_text(text, "utf-8")


def glance(left_out: Score, never_used: Score) -> str:
    """What both tests say, one line for each figure."""
    both = (left_out, never_used)
    fits = [each.fit for each in both]
    lines = [
        _line("step time, mean of sources", ["each source left out", "runs of other sources"]),
        *(
            _line(name, [f"{each.judged_together[name].mean_of_datasets:.1%}" for each in both])
            for name in left_out.judged_together
        ),
        *(
            _line(f"{kind} memory, mean of runs", [f"{each.memory_by_kind[kind].mape:.1%}" for each in both])
            for kind in ("allocated", "reserved")
        ),
        "",
        "inside intervals meant to hold 80 %, mean of sources",
        *(_line(name, [f"{each.intervals[name].mean_of_sources:.0%}" for each in both]) for name in left_out.intervals),
        "",
        _line("ran out of memory, predicted to be safe", [f"{each.oom_called_safe} of {each.oom}" for each in fits]),
        _line("fitted, predicted to run out of it", [f"{each.fitted_called_oom} of {each.fitted}" for each in fits]),
    ]
    return "\n".join(lines)


def _line(name: str, figures: Sequence[str]) -> str:
    return f"{name:40}" + "".join(f"{each:>24}" for each in figures)


def printed(score: Score) -> str:
    """The score as the command prints it, without the rows that are not represented."""
    return as_text(score_screen(score)).partition("Not represented")[0].rstrip()


def printed_summary(score: Score) -> str:
    """What is represented and judged together, and the intervals."""
    first, *others = score_screen(score)
    tables = (each for each in others if isinstance(each, Table) and each.columns[0].startswith(SUMMARY))
    return as_text([first, *tables])


def as_text(blocks: Iterable[Block]) -> str:
    """Blocks as the terminal prints them."""
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(terminal(tuple(blocks)))
    return "\n".join(line.rstrip() for line in console.export_text().rstrip().splitlines())


def left_out_error(curves: Sequence[Curve], without: str = "") -> float:
    """The mean over sources of their mean absolute errors, each under constants fitted to the others; a share."""
    means: list[float] = []
    for source in {curve.source for curve in curves}:
        constants = fit_constants([curve for curve in curves if curve.source != source], without)
        mine = [curve for curve in curves if curve.source == source]
        errors = (np.exp(curve.log_errors(curve.times_of(constants))).item() - 1 for curve in mine)
        means.append(statistics.mean(abs(error) for error in errors))
    return statistics.mean(means)


def with_values(text: str, constants: dict[str, float]) -> str:
    """The file with other values, all else as it is."""
    for name, value in constants.items():
        pattern = rf"(^\[{name}\]\n(?:(?!\[)[^\n]*\n)*?value = )[\d.]+"
        text = re.sub(pattern, rf"\g<1>{value:.2f}", text, flags=re.MULTILINE)
    return text


def as_json(parts: Mapping[str, Residuals | OrderError]) -> str:
    """The parts of a file, each cell of residuals on a line of its own."""
    return "{\n" + ",\n".join(f'"{name}": {one_part(each)}' for name, each in parts.items()) + "\n}\n"


def one_part(part: Residuals | OrderError) -> str:
    """One of them."""
    if isinstance(part, OrderError):
        return json.dumps(part.model_dump())
    between, unseen = json.dumps(part.between.model_dump()), json.dumps(part.unseen.model_dump())
    cells = ",\n".join(json.dumps(cell) for cell in part.cells)
    return f'{{"waiting": {part.waiting}, "between": {between}, "unseen": {unseen}, "cells": [\n{cells}\n]}}'


if __name__ == "__main__":
    main()
