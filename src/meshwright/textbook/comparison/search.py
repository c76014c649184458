"""The 3D searcher beside the planner: the same job, as far as the metadata allow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meshwright.answers.unfit.nothing_fits import nothing_fits
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan, NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.named import plan_of
from meshwright.search.find import find
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.reading.model import read_model
from meshwright.textbook.derive import cluster_metadata_of, model_metadata_of
from meshwright.textbook.searcher import Degrees

ALIKE = 0.01
"""Figures that differ by less describe the same job."""
MISSING = {
    "model": "--model CONFIG: the metadata name no hidden size, heads, FFN or vocabulary, so no kernel can be priced",
    "cluster": "--cluster NODESxGPUS:ACCELERATOR: the metadata name no accelerator, so no efficiency is known",
    "seq_len": "--seq-len TOKENS: the metadata name no sequence length",
    "global_batch": "--global-batch SEQUENCES: the model metadata have no global_batch_size",
}


def planner_inputs(
    model_metadata: Mapping[str, Any],
    model: str | None,
    cluster: str | None,
    seq_len: int | None,
    global_batch: int | None,
) -> Inputs | list[str]:
    """What the planner prices, or the list of what is missing for that; None: not given.

    The global batch is the metadata's unless another is given. Raises `InvalidInput` for what cannot be read.
    """
    global_batch = model_metadata.get("global_batch_size") if global_batch is None else global_batch
    if model is None or cluster is None or seq_len is None or global_batch is None:
        needed = {"model": model, "cluster": cluster, "seq_len": seq_len, "global_batch": global_batch}
        return [MISSING[name] for name, value in needed.items() if value is None]
    return read_inputs(read_model(model), cluster, Job(sequence_length=seq_len, global_batch=global_batch))


def compare_search(
    metadata: tuple[Mapping[str, Any], Mapping[str, Any]], best: Degrees, inputs: Inputs | list[str]
) -> dict[str, Any]:
    """The planner's best plan for the job, its price of the searcher's degrees, and where the metadata disagree.

    metadata: of cluster and model; best: the searcher's degrees; inputs: what the planner prices, or what is missing.
    Returns either `missing`, or `disagreements`, `planner` and `same_degrees`; what the planner refuses stands under
    `refused`.
    """
    if isinstance(inputs, list):
        return {"missing": inputs}
    return {
        "disagreements": _disagreements(metadata, inputs),
        "planner": _best(inputs),
        "same_degrees": _same(inputs, best),
    }


def _best(inputs: Inputs) -> dict[str, Any]:
    try:
        result = find(inputs, top=1)
    except (IllegalPlan, NotModelled) as error:
        return {"refused": str(error)}
    return _summary(result.best[0]) if result.best else {"refused": str(nothing_fits(result, most=1))}


def _same(inputs: Inputs, best: Degrees) -> dict[str, Any]:
    dp, tp, pp = best
    try:
        plan = plan_of(inputs, dp=dp, tp=tp, pp=pp)
        require_legal(plan, inputs)
        return _summary(estimate_each([plan], inputs)[0])
    except (IllegalPlan, NotModelled) as error:
        return {"refused": str(error)}


def _summary(estimate: Estimate) -> dict[str, Any]:
    return {
        "plan": str(estimate.plan),
        "step_time_ms": 1000 * estimate.step_time_s,
        "mfu": estimate.mfu,
        "device_memory_gb": float(estimate.memory.device) / 1e9,
        "verdict": str(estimate.verdict),
    }


def _disagreements(metadata: tuple[Mapping[str, Any], Mapping[str, Any]], inputs: Inputs) -> list[str]:
    """Figures of the metadata that are not those of the model, cluster and job beside them."""
    job = inputs.job
    of_model = model_metadata_of(inputs.model, job.sequence_length, job.global_batch)
    derived = (cluster_metadata_of(inputs.cluster, job.precision), of_model)
    differing = []
    for given_metadata, own in zip(metadata, derived, strict=True):
        for key, figure in own.items():
            if key in given_metadata and key != "tp_comm":
                stated, expected = _total(given_metadata[key]), _total(figure)
                if abs(stated - expected) > ALIKE * expected:
                    whole = "the sum of " if isinstance(figure, list) else ""
                    differing.append(
                        f"{whole}{key} is {stated:.6g} in the metadata, {expected:.6g} by model and cluster"
                    )
    return differing


def _total(figure: Any) -> float:
    return float(sum(figure)) if isinstance(figure, list | tuple) else float(figure)
