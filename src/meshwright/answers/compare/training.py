"""Training: what all tokens of a job take with a plan: days, accelerator-hours, money, and nodes for a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import json_of
from meshwright.cost.estimate import Estimate
from meshwright.search.fewest import Limit, fewest_nodes
from meshwright.search.find import Progress
from meshwright.specs.inputs import Inputs

SECONDS_A_DAY = 86400
HOURS_A_DAY = 24


@dataclass(frozen=True)
class Training:
    """All tokens of the job with one plan."""

    days: float
    accelerator_hours: float
    cost: float | None
    """In the currency of the price; None where none is given."""


@dataclass(frozen=True)
class Deadline:
    """Whether a cluster trains all tokens in time."""

    days: float
    met: bool
    """By its best plan."""
    nodes: Limit | None
    """Where it is not met, the fewest nodes with a safe plan that meets it; None: 32 times the nodes do not."""
    training: Training | None
    """On those nodes."""


def training_of(estimate: Estimate, inputs: Inputs, price: float | None = None) -> Training | None:
    """What a plan takes for all tokens: days = tokens / tokens a step x step; None where the job names no tokens.

    price: of one accelerator for one hour, in any currency.
    """
    steps = _steps(inputs)
    if steps is None:
        return None
    days = steps * estimate.step_time_s / SECONDS_A_DAY
    hours = days * HOURS_A_DAY * inputs.cluster.num_gpus
    return Training(days, hours, None if price is None else price * hours)


def deadline_of(
    estimate: Estimate | None,
    inputs: Inputs,
    days: float,
    price: float | None = None,
    progress: Progress | None = None,
) -> Deadline | None:
    """Whether the best plan of a question meets a deadline, and the fewest nodes that would; None without tokens.

    estimate: None where nothing fits; days: of training; price: of one accelerator for one hour.
    """
    steps = _steps(inputs)
    if steps is None:
        return None
    step_s = days * SECONDS_A_DAY / steps
    if estimate is not None and estimate.step_time_s <= step_s:
        return Deadline(days, True, None, None)
    asked = inputs.cluster.num_nodes
    limit = fewest_nodes(inputs, lambda best: best.step_time_s <= step_s, asked, progress)
    return Deadline(days, False, limit, training_of(limit.estimate, limit.inputs, price) if limit else None)


def deadline_entry(deadline: Deadline | None) -> dict[str, Any] | None:
    """The deadline as it stands in a document; `nodes` is null where it is met, and where no number meets it."""
    if deadline is None:
        return None
    limit = deadline.nodes
    nodes = limit and {
        "num_nodes": limit.inputs.cluster.num_nodes,
        "num_gpus": limit.inputs.cluster.num_gpus,
        **plan_entry(limit.estimate, limit.inputs),
        "training": json_of(deadline.training),
    }
    return {"days": deadline.days, "met": deadline.met, "nodes": nodes}


def _steps(inputs: Inputs) -> float | None:
    """Optimizer steps until all tokens are seen."""
    return inputs.job.tokens / inputs.job.tokens_per_step if inputs.job.tokens else None
