"""Vary: what another choice would do to a saved plan, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from meshwright.answers.plan_file import ranked_plan
from meshwright.arguments import checked, require_kinds
from meshwright.errors import UnknownName
from meshwright.layout.named import changed_fields
from meshwright.layout.plan import KINDS, Plan
from meshwright.search.changes.variation import Variation, varied
from meshwright.specs.inputs import Inputs
from meshwright.specs.job_options import JOB_OPTIONS
from meshwright.specs.reading.inputs import ClusterSource, ModelSource
from meshwright.specs.runtime import Runtime
from meshwright.specs.varied import varied_inputs

LAYERS = {"pipeline_layout": "chunk_layers"}
"""What names layers of chunks, and the field that holds them."""
OF_A_PLAN = {*KINDS, *LAYERS} - {"chunk_layers", "num_microbatches"}
"""What may be changed of a plan: layers of chunks by a layout, micro-batches through the batch."""
_OF_JOB = {each.name if each.name != "seq_len" else each.field: each for each in JOB_OPTIONS if not each.only_with}
OF_A_QUESTION = {*("model", "text_only", "cluster", "runtime", "behaviours"), *_OF_JOB}
"""And of its question."""
TYPES = {name: kind if kind in (bool, int) else str for name, kind in KINDS.items() if name in OF_A_PLAN} | {
    **dict.fromkeys(LAYERS, str),
    **{name: each.type for name, each in _OF_JOB.items()},
    "sequence_length": int,
}
"""What each of them is given as, where another type would break what reads it."""


@checked
def vary(
    plan_file: str | Path,
    rank: int = 1,
    *,
    model: ModelSource | None = None,
    cluster: ClusterSource | None = None,
    runtime: Runtime | str | None = None,
    behaviours: Sequence[str] = (),
    **changes: Any,
) -> Variation:
    """A plan of a file with some of its fields, or of its question, changed; what follows from that is in `follows`.

    plan_file: what `meshwright plan --json` wrote, `-` for standard input; rank: which of its plans; behaviours: as
    `overlap.tensor_parallel=0.9`; changes: fields of a plan and of a job as the command line names them, `tp=8`,
    `recompute="full"`, `precision="fp8"`. `estimate` of the result is its price, which raises `IllegalPlan` with the
    nearest plan that works. Raises `InvalidInput` for what is no plan file or no such field.
    """
    inputs, plan = ranked_plan(plan_file, rank)
    return varied_by_names(
        plan, inputs, model=model, cluster=cluster, runtime=runtime, behaviours=behaviours, **changes
    )


def varied_by_names(plan: Plan, inputs: Inputs, **named: Any) -> Variation:
    """A plan and its question changed, from what users name of both."""
    unknown = [name for name in named if name not in OF_A_PLAN | OF_A_QUESTION]
    if unknown:
        raise UnknownName("field to change", unknown[0], OF_A_PLAN | OF_A_QUESTION)
    require_kinds("the change", named, TYPES)
    of_plan = {name: value for name, value in named.items() if name in OF_A_PLAN}
    changed = varied_inputs(inputs, **{name: value for name, value in named.items() if name not in of_plan})
    names = [LAYERS.get(name, name) for name in of_plan]
    return varied(plan, inputs, changed, changed_fields(plan, **of_plan), names)
