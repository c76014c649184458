"""Ask what is recommended where vendors publish a recipe, and price the recipe beside it.

Without arguments all recipes are asked, and docs/recipes.md (models with experts) and docs/questions.md are written;
with `questions`, those of docs/questions.md; with other words, those whose model, cluster or source holds each of them
are printed alone.
"""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.plans.ties import tie_lines, unpublished_lines
from meshwright.answers.step_parts import why_lost
from meshwright.cost.estimate import Estimate
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import usual_schedule
from meshwright.search.find import find
from meshwright.search.published.layouts import has_published_layout
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime
from meshwright.units import GIB, format_seconds
from meshwright.validation.outcomes import outcome_of
from meshwright.validation.rows.configurations import Configuration, configurations
from meshwright.validation.rows.settings import settings_of
from meshwright.validation.rows.table import read_rows
from meshwright.validation.score.ranking import LogError

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "recipes.md"
QUESTIONS = ROOT / "docs" / "questions.md"
JOB = ("sequence_length", "global_batch", "precision", "gradients", "mtp_layers", "expert_capacity")
HOUR = 3600.0
CLOSE = 0.12
"""Of a measured time, within which a price is called close."""


class Recipe(NamedTuple):
    """A published plan, the question that it answers, and what it was measured to take."""

    inputs: Inputs
    plan: Plan
    measured_s: float | None
    """Seconds of a step; None: not printed."""
    source: str
    note: str
    run: str = ""
    """The row of the published runs that it is."""
    asked: str = ""
    """The question of the page of questions that it answers."""
    name: str = ""
    """Of the recipe, where its publisher gives it one."""

    @property
    def document(self) -> str:
        """The first word of its source: a paper or a repository."""
        return re.split(r"[,@ ]", self.source)[0]

    @property
    def question(self) -> str:
        """What is asked, in a few words."""
        cluster, job = self.inputs.cluster, self.inputs.job
        batch = f"{job.global_batch} x {job.sequence_length}"
        return f"{self.inputs.model.name}, {cluster.num_gpus} {cluster.accelerator.id}, {job.precision}, {batch}"


class Answer(NamedTuple):
    """A recipe priced, and the plan that is recommended in its place."""

    recipe: Recipe
    refused: str
    """The rules that the runtime would refuse it for."""
    priced: Estimate
    """With even routing, as it was measured."""
    in_training: Estimate
    """With the routing that is usual in training, as what is recommended."""
    best: Estimate | None
    """None: nothing fits."""
    usual: Inputs
    ties: tuple[str, ...]
    """Why it is recommended among equals, and what no published run has of it."""


def recipes() -> Iterator[Recipe]:
    """Every recipe of `recipes.toml`."""
    entries = tomllib.loads((ROOT / "benchmarks" / "recipes.toml").read_text("utf-8"))["recipes"]
    runs = {each.id: each for each in configurations(read_rows())}
    for entry in entries:
        recipe = _of_run(runs, entry["run"]) if "run" in entry else _of_entry(entry)
        yield recipe._replace(asked=entry.get("asked", ""), name=entry.get("name", ""))


def printed_recipes() -> Iterator[Recipe]:
    """Those that are no row of the published runs."""
    return (recipe for recipe in recipes() if not recipe.run)


def recipe_errors() -> Iterator[LogError]:
    """How far the price of each printed recipe with a time lies from it."""
    for recipe in printed_recipes():
        if recipe.measured_s:
            (priced,) = estimate_each([recipe.plan], recipe.inputs)
            error = math.log(priced.step_time_s / recipe.measured_s)
            yield LogError(recipe.document, recipe.inputs, recipe.plan, error)


def _of_run(runs: dict[str, Configuration], name: str) -> Recipe:
    run = next(each for each in runs.values() if name in {row["id"] for row in each.rows})
    outcome = outcome_of(run)
    if outcome.case is None:
        raise SystemExit(f"{name}: {outcome.refusal}")
    measured = outcome.step_time.measured if outcome.step_time else None
    case, settings = outcome.case, "; ".join(map(str, settings_of(run.rows[0])))
    return Recipe(case.inputs, case.plan, measured, f"published run {name}", settings, name)


def _of_entry(entry: dict[str, Any]) -> Recipe:
    job = Job(**{key: entry[key] for key in JOB if key in entry})
    runtime = with_behaviours(read_runtime(entry["runtime"]), entry.get("with", ()))
    inputs = read_inputs(entry["model"], entry["cluster"], job, runtime).with_even_routing()
    plan = Plan.from_dict({"schedule": usual_schedule(entry["plan"].get("vpp", 1)), **entry["plan"]})
    return Recipe(inputs, plan, _measured(entry, inputs), entry["source"], entry.get("note", ""))


def _measured(entry: dict[str, Any], inputs: Inputs) -> float | None:
    """Seconds of a step, from the share of the peak or the tokens of an hour where only these are printed."""
    ranks = inputs.cluster.num_gpus
    if "measured_mfu" in entry:
        return _megatron_flops(inputs) / inputs.peak_flops / ranks / float(entry["measured_mfu"])
    if "tokens_per_gpu_hour" in entry:
        return inputs.job.tokens_per_step / float(entry["tokens_per_gpu_hour"]) / ranks * HOUR
    return entry.get("measured_s")


def _megatron_flops(inputs: Inputs) -> float:
    """FLOP of one step with whole attention, as Megatron-LM's num_floating_point_operations counted until 2025."""
    job, total = inputs.job, float(model_flops_per_step(inputs))
    for kind, count in zip(inputs.model.layer_kinds, inputs.layers_per_kind, strict=True):
        width = kind.attention.heads * (kind.attention.head_dim + kind.attention.value_head_dim)
        total += 3.0 * count * width * job.sequence_length * job.tokens_per_step
    return total


def answer(recipe: Recipe) -> Answer:
    """Price a recipe and search for the best plan."""
    refused = ", ".join(fault.where for fault in faults(recipe.plan, recipe.inputs))
    usual = recipe.inputs.replace(job=recipe.inputs.job.replace(expert_imbalance=None))
    (priced,), (in_training,) = (estimate_each([recipe.plan], each) for each in (recipe.inputs, usual))
    result = find(usual, top=1)
    best = next(iter(result.best), None)
    ties = (*tie_lines(result), *unpublished_lines(best, usual)) if best else ()
    return Answer(recipe, refused, priced, in_training, best, usual, ties)


def priced_cells(each: Answer) -> tuple[str, ...]:
    """The recipe: question, runtime, plan, measured, priced, error, memory and verdict."""
    recipe, priced = each.recipe, each.priced
    measured = format_seconds(recipe.measured_s) if recipe.measured_s else ""
    error = f"{priced.step_time_s / recipe.measured_s - 1:+.0%}" if recipe.measured_s else ""
    verdict = f"refused: {each.refused}" if each.refused else f"{priced.memory.device / GIB:.0f} GiB, {priced.verdict}"
    runtime = recipe.inputs.runtime
    return (recipe.question, runtime.id, str(recipe.plan), measured, format_seconds(priced.step_time_s), error, verdict)


def recommended_cells(each: Answer) -> tuple[str, ...]:
    """The recommendation: question, plan, step, interval, memory, and what it gains over the recipe."""
    best, inputs = each.best, each.usual
    if best is None:
        return (each.recipe.question, "nothing fits", "", "", "", "")
    interval = step_time_interval(best, inputs)
    between = f"{format_seconds(interval.p10)} to {format_seconds(interval.p90)}"
    fits = f"{best.memory.device / GIB:.0f} GiB, {best.fit.probability:.0%}"
    against = "the recipe" if best.plan == each.recipe.plan else why_lost(best, each.in_training)
    return (each.recipe.question, str(best.plan), format_seconds(best.step_time_s), between, fits, against)


def question_lines(each: Answer) -> list[str]:
    """A question with the published plan, what is recommended, and what each takes."""
    recipe, best, inputs = each.recipe, each.best, each.usual
    job = inputs.job
    runtime, batch = inputs.runtime.id, f"{job.global_batch} sequences of {job.sequence_length} tokens"
    measured = f"measured {format_seconds(recipe.measured_s)}, " if recipe.measured_s else "no time published, "
    fits = f"{each.in_training.verdict}, {each.in_training.memory.device / GIB:.0f} GiB"
    priced = format_seconds(each.priced.step_time_s)
    if inputs.model.is_moe:
        priced += f" with even routing, {format_seconds(each.in_training.step_time_s)} with usual routing"
    named = f" (`{recipe.name}`)" if recipe.name else ""
    lines = [f"## {recipe.asked}", "", f"{runtime}, {job.precision}, {batch} a step.", ""]
    lines.append(f"- Published{named}: `{recipe.plan}`, {measured}predicted {priced}; {fits}.")
    if best is None:
        return [*lines, "- Recommended: nothing fits.", ""]
    if best.plan == recipe.plan:
        lines.append("- Recommended: the published plan.")
    else:
        interval = step_time_interval(best, inputs)
        between = f"8 in 10 between {format_seconds(interval.p10)} and {format_seconds(interval.p90)}"
        fits = f"{best.fit.probability:.0%} to fit, {best.memory.device / GIB:.0f} GiB"
        lines.append(f"- Recommended: `{best.plan}`, {format_seconds(best.step_time_s)}, {between}; {fits}.")
        lines.append(f"- Compared with the prediction for the published plan: {why_lost(best, each.in_training)}.")
        lines.append(f"- {unmeasured(best, inputs)}")
    return [*lines, *(f"- {line}" for line in each.ties), f"- Source: {source_line(each)[3:]}.", ""]


def unmeasured(best: Estimate, inputs: Inputs) -> str:
    """Whether anybody has measured a plan of such a split."""
    if has_published_layout(Plans.of([best.plan]), inputs).item():
        return "A published run of this model used this split, with other settings."
    return "No published run used this split, so its time is only a prediction; confirm it with twenty steps."


def wrapped(lines: Sequence[str]) -> str:
    """Lines of Markdown no longer than a page is wide."""
    return "\n".join(
        fill(line, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) for line in lines
    )


def score_line(answers: Sequence[Answer]) -> str:
    """How many of the measured recipes are priced within `CLOSE`."""
    measured = [each for each in answers if each.recipe.measured_s]
    close = [each for each in measured if abs(each.priced.step_time_s / (each.recipe.measured_s or 1) - 1) <= CLOSE]
    return f"{len(close)} of the {len(measured)} with a measured time are priced within {CLOSE:.0%}."


def source_line(each: Answer) -> str:
    """An item of a numbered list: where the recipe is printed, and what is not."""
    recipe = each.recipe
    return f"1. {recipe.source}{f'; {recipe.note}' if recipe.note else ''}"


PRICED = ("question", "runtime", "published plan", "measured", "priced", "error", "memory")
RECOMMENDED = ("question", "recommended plan", "step", "8 in 10", "memory, fits", "against the recipe")


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown."""
    numbered = ((str(number), *cells) for number, cells in enumerate(rows, 1))
    lines = [("#", *names), ["---"] * (len(names) + 1), *numbered]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(text: str, mark: str, block: str) -> str:
    """A page with what stands between two marks replaced."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{block}\n\n{found[2]}", text, flags=re.DOTALL)


def main(words: Sequence[str]) -> None:
    """Print the recipes that hold all words; without any, write the pages as well."""
    known = list(recipes())
    asked = [each for each in known if all(word in f"{each.question} {each.source}".lower() for word in words)]
    if words == ["questions"]:
        asked = [each for each in known if each.asked]
    answers = []
    for recipe in asked:
        each = answer(recipe)
        answers.append(each)
        print("  ".join(priced_cells(each)))
        print("    " + "  ".join(recommended_cells(each)[1:]), flush=True)
    if not words or words == ["questions"]:
        lines = [line for each in answers if each.recipe.asked for line in question_lines(each)]
        QUESTIONS.write_text(filled(QUESTIONS.read_text("utf-8"), "questions", wrapped(lines).rstrip()), "utf-8")
    if not words:
        write_recipes([each for each in answers if each.usual.model.is_moe])


def write_recipes(answers: Sequence[Answer]) -> None:
    """The page of recipes of models with experts."""
    block = f"{table(PRICED, [priced_cells(each) for each in answers])}\n\n{score_line(answers)}"
    text = filled(PAGE.read_text("utf-8"), "priced", block)
    text = filled(text, "recommended", table(RECOMMENDED, [recommended_cells(each) for each in answers]))
    PAGE.write_text(filled(text, "sources", "\n".join(map(source_line, answers))), "utf-8")


if __name__ == "__main__":
    main([word.lower() for word in sys.argv[1:]])
