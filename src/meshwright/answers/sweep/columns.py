"""Columns of the table of a sweep: what each is called and holds, in their order."""

from __future__ import annotations

from typing import Any, Literal

from meshwright.cost.estimate import Waterfall
from meshwright.layout.plan import KINDS, Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.job_options import JOB_OPTIONS, JobOption
from meshwright.specs.sweep.sweep import SweepQuestion

Row = dict[str, Any]
"""Cells by column; those that are missing are null."""
Kind = Literal["text", "count", "number", "switch"]
Status = Literal["planned", "nothing fits", "refused"]
UNFIT: Status = "nothing fits"
REFUSED: Status = "refused"
PLAN: dict[str, Kind] = {
    name: "switch" if kind is bool else "count" if kind is int else "text" for name, kind in KINDS.items()
}
"""The fields of a plan, lists as text."""
OF_QUESTIONS = sorted((each for each in JOB_OPTIONS if not each.in_place_of), key=lambda each: each.name == "tokens")
"""Options of a job, the tokens that no plan depends on last."""
LABELS: dict[str, Kind] = {
    "question": "text",
    "model": "text",
    "cluster": "text",
    "accelerator": "text",
    "nodes": "count",
    "gpus": "count",
    **{each.field: each.kind.column for each in OF_QUESTIONS},
    "runtime": "text",
    "with": "text",
    "limits": "text",
}
"""What was asked; `question` is its key."""
COLUMNS: dict[str, Kind] = {
    **LABELS,
    "status": "text",
    "reason": "text",
    "considered": "count",
    "legal": "count",
    "fitting": "count",
    "leanest_bytes": "count",
    "visible_bytes": "count",
    "plan": "text",
    **PLAN,
    "step_time_s": "number",
    "step_time_p10_s": "number",
    "step_time_p90_s": "number",
    "tokens_per_s": "number",
    "mfu": "number",
    "device_bytes": "count",
    "verdict": "text",
    "fits": "number",
    **dict.fromkeys(Waterfall._fields, "number"),
    "limiting": "text",
    "limiting_s": "number",
    "days": "number",
    "accelerator_hours": "number",
    "cost": "number",
}
OF_JOB = tuple(each.field for each in OF_QUESTIONS)
"""Labels that are fields of the job."""


def labels_of(question: SweepQuestion, key: str) -> Row:
    """What was asked, as cells, and why it cannot be where its parts do not go together; key: of the question."""
    cluster, framework = question.where, question.framework
    labels = {
        "question": key,
        "model": question.model,
        "cluster": question.cluster,
        "accelerator": cluster.accelerator.id,
        "nodes": cluster.num_nodes,
        "gpus": cluster.num_gpus,
        **{each.field: _asked(each, question.job) for each in OF_QUESTIONS},
        "runtime": framework.runtime,
        "with": framework.behaviours,
        "limits": question.limits,
    }
    if isinstance(question.inputs, Inputs):
        return labels
    return labels | {"status": REFUSED, "reason": str(question.inputs)}


def _asked(option: JobOption, job: Job) -> Any:
    if option.only_with:
        return option.of(job) if getattr(job, option.only_with) else ""
    return getattr(job, option.field)


def plan_cells(plan: Plan) -> Row:
    """The fields of a plan as cells."""
    return {name: cell(value) for name, value in plan.to_dict().items()}


def cell(value: Any) -> Any:
    """A field of a plan file as a cell: lists as text with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else value
