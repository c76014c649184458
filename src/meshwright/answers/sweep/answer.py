"""Answer: one question of a sweep as a row, and a batch of them as a worker takes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.compare.clusters import limiting_part
from meshwright.answers.compare.training import training_of
from meshwright.answers.sweep.all_plans import write_all_plans
from meshwright.answers.sweep.columns import REFUSED, UNFIT, Row, Status, plan_cells
from meshwright.answers.unfit.nothing_fits import shortfall_words
from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput
from meshwright.search.executors import stopped_by_parent
from meshwright.search.find import whole_answer
from meshwright.search.plan_space.space import size
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs

KERNELS = ("kernels_s",)
"""What limits nearly every step, so that the part beside it tells more."""


@dataclass(frozen=True)
class Batch:
    """Questions that one worker answers in a row."""

    questions: Mapping[str, Inputs]
    """By key."""
    planner: str
    """The planner that must answer them: its `planner_hash`."""
    plans: Path | None
    """The folder to write all plans of each question into, if they are asked for."""


def answers_of(batch: Batch, progress: Progress = stopped_by_parent) -> dict[str, Row]:
    """The answer of every question of a batch by its key.

    progress: told by every search. Raises `InvalidInput` where the worker runs another planner than the process that
    asks, or cannot write, `Stopped` where progress stops a search.
    """
    if batch.planner != planner_hash():
        raise InvalidInput("a worker runs another Meshwright than this process: install the same one everywhere")
    answers = {}
    for key, inputs in batch.questions.items():
        answers[key] = answer(inputs, progress)
        if batch.plans is not None and answers[key]["status"] != REFUSED:
            write_all_plans(inputs, key, batch.plans)
    return answers


def sizes_of(questions: Mapping[str, Inputs]) -> dict[str, int]:
    """The plans that every question considers, counts by its key."""
    return {key: size(inputs) for key, inputs in questions.items()}


def answer(inputs: Inputs, progress: Progress | None = None) -> Row:
    """What a sweep says of one question: its best plan, or why it has none; raises `Stopped` where it is stopped."""
    try:
        result = whole_answer(inputs, progress)
    except InvalidInput as refusal:
        return {"status": REFUSED, "reason": str(refusal)}
    status: Status = "planned" if result.best else UNFIT
    counts = {
        "status": status,
        "considered": result.considered,
        "legal": result.legal,
        "fitting": result.fitting,
        "leanest_bytes": result.leanest.memory.device,
        "visible_bytes": int(result.leanest.fit.visible_bytes),
    }
    if not result.best:
        return counts | {"reason": shortfall_words(result)}
    return counts | planned(result.best[0], inputs)


def planned(best: Estimate, inputs: Inputs) -> Row:
    """The cells of one priced plan."""
    limiting, interval = limiting_part(best, inputs, KERNELS), step_time_interval(best, inputs)
    training = training_of(best, inputs)
    return {
        "plan": str(best.plan),
        **plan_cells(best.plan),
        "step_time_s": best.step_time_s,
        "step_time_p10_s": interval.p10,
        "step_time_p90_s": interval.p90,
        "tokens_per_s": best.tokens_per_s_per_gpu * inputs.cluster.num_gpus,
        "mfu": best.mfu,
        "device_bytes": best.memory.device,
        "verdict": str(best.verdict),
        "fits": best.fit.probability,
        **best.time._asdict(),
        "limiting": limiting.part.removesuffix("_s"),
        "limiting_s": limiting.seconds,
        "days": training.days if training else None,
        "accelerator_hours": training.accelerator_hours if training else None,
    }


@cache
def planner_hash() -> str:
    """SHA-256 of every file of this package, in hexadecimal: of another planner the answers may be others."""
    whole = hashlib.sha256()
    for name, file in sorted(_files(resources.files("meshwright"), "")):
        whole.update(f"{name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _files(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    files = []
    for each in folder.iterdir():
        if each.is_dir() and each.name != "__pycache__":
            files += _files(each, f"{path}{each.name}/")
        elif each.is_file():
            files.append((f"{path}{each.name}", each))
    return files
