"""Write published_plans.json of the catalogue: how the published runs were split, what they took and what is predicted.

`make fit` writes it too, with the constants that it finds; this takes a quarter of a minute where prices alone changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import meshwright
from meshwright.search.published.runs import HeldMemory, PublishedRun, published_plans_of
from meshwright.specs.fitted import fitted_values
from meshwright.validation.fit.curves import Constants, step_time_under
from meshwright.validation.outcomes import Outcome, outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from recipes import printed_recipes

PLANS = Path(meshwright.__file__).parent / "specs" / "catalog" / "published_plans.json"
DIGITS = 4
"""Of a figure."""


def main() -> None:
    PLANS.write_text(published_json(outcomes_of(configurations(read_rows())), fitted_values()), "utf-8")


def published_json(outcomes: Sequence[Outcome], constants: Constants) -> str:
    """How far the plans of published runs go and what is predicted for them under the constants, as a file."""
    ran = [each for each in outcomes if each.configuration.rows[0]["fits"] != "no"]
    runs = [
        PublishedRun(
            plan=case.plan,
            inputs=case.inputs,
            step_time_s=each.step_time.measured if each.step_time else None,
            name=each.configuration.id,
            memory=held_memory(each),
        )
        for each in ran
        if (case := each.case)
    ]
    runs += [
        PublishedRun(recipe.plan, recipe.inputs, recipe.measured_s, recipe.name or recipe.document)
        for recipe in printed_recipes()
    ]
    plans = published_plans_of([with_prediction(run, constants) for run in runs])
    layouts = ",\n".join(f"  {json.dumps(layout.model_dump())}" for layout in plans.layouts)
    limits = json.dumps({"generations": plans.model_dump()["generations"]}, indent=1)
    return f'{{\n"layouts": [\n{layouts}\n],\n{limits[2:]}\n'


def held_memory(outcome: Outcome) -> HeldMemory | None:
    """What a run held, measured and predicted, to the digits that all machines agree on."""
    if outcome.memory is None:
        return None
    sizes = (float(f"{size:.{DIGITS}g}") for size in (outcome.memory.measured, outcome.memory.predicted))
    return HeldMemory(outcome.configuration.rows[0]["memory_kind"], *sizes)


def with_prediction(run: PublishedRun, constants: Constants) -> PublishedRun:
    """A run beside what is predicted for it, to the digits that all machines agree on; as it is where none is timed."""
    seconds = step_time_under(run.plan, run.inputs, constants) if run.step_time_s else None
    return run._replace(predicted_s=seconds and float(f"{seconds:.{DIGITS}g}"))


if __name__ == "__main__":
    main()
