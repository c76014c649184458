"""Plans: the answer of a search."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.plans.beyond import Beyond
from meshwright.answers.plans.switched_plan import SwitchedPlan, switched_plan
from meshwright.answers.unfit.ways_to_fit import ways_to_fit
from meshwright.arguments import checked
from meshwright.errors import InvalidInput
from meshwright.search.find import SearchResult
from meshwright.search.many_searches.constraint_costs import ConstraintCost, constraint_costs
from meshwright.search.many_searches.remedies import Remedy

MOST_BARS = 5


class PlanAnswer(Answer, SearchResult):
    """The best plans for a job, from `meshwright.plan`."""

    @cached_property
    def constraint_costs(self) -> tuple[ConstraintCost, ...]:
        """What the constraints of the question cost; searched for when it is asked for."""
        return tuple(constraint_costs(self))

    @cached_property
    def switched_plan(self) -> SwitchedPlan | None:
        """The best plan with other switches of the launch; searched for when it is asked for."""
        return switched_plan(self)

    @cached_property
    def ways_to_fit(self) -> list[Remedy] | None:
        """What would make a plan safe, where none is; searched for when it is asked for."""
        return ways_to_fit(self)

    @property
    def _beyond(self) -> Beyond:
        return Beyond(costs=self.constraint_costs, switched=self.switched_plan, ways=self.ways_to_fit)

    @checked
    def launch(
        self,
        folder: str | Path,
        rank: int = 1,
        *,
        framework: str | None = None,
        nearest: bool = False,
        overwrite: bool = False,
    ) -> list[Path]:
        """Write the files that launch a plan into a new folder, as `meshwright launch` does; returns where they are.

        rank: which plan, as `rows` numbers them; framework: whose files, else those of the runtime; nearest: take the
        nearest plan that the framework has; overwrite: replace files of a folder that is there. Raises `InvalidInput`
        where there is no such plan, no such writer or the folder cannot be written, `NothingFits` where the nearest
        plan does not fit in memory.
        """
        from meshwright.answers.launch.files import framework_of, launch_files
        from meshwright.answers.launch.folder import write_folder

        plans = [each.plan for each in (*self.best, *self.other_splits)]
        if not 1 <= rank <= len(plans):
            raise InvalidInput(f"rank is {rank}, and the answer has {len(plans)} plans; use 1 to {len(plans)}")
        name = framework or framework_of(self.inputs.runtime.id)
        written = launch_files(plans[rank - 1], self.inputs, name, nearest=nearest)
        there = write_folder(written.files, Path(folder), "folder", overwrite=overwrite)
        return [there / file for file in written.files]

    def to_dict(self) -> dict[str, Any]:
        """The plan file, as `meshwright plan --json` prints it."""
        from meshwright.answers.plans.table import plan_document

        return plan_document(self, self._beyond)

    def blocks(self) -> tuple[Block, ...]:
        """The question, the best plan with its verdict, the ranking, and pictures of memory and time."""
        from meshwright.answers.plans.table import plan_summary
        from meshwright.answers.public.pictures import memory_figure, waterfall_figure

        pictures = memory_figure(self.best[:MOST_BARS], self.inputs), waterfall_figure(self.best[0], self.inputs)
        return *plan_summary(self, self._beyond), *pictures

    def rows(self) -> list[dict[str, Any]]:
        """The plans of the ranking, then those of other splits, with the columns that a sweep has for a plan."""
        from meshwright.answers.sweep.answer import planned

        plans = (*self.best, *self.other_splits)
        return [{"rank": rank, **planned(each, self.inputs)} for rank, each in enumerate(plans, 1)]
