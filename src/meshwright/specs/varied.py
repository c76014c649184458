"""Varied: a question with some of its parts replaced, from what users write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.specs.base import Spec
from meshwright.specs.behaviours import beside_adapters, with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import lacking
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job, job_of
from meshwright.specs.job_options import JOB_OPTIONS
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.inputs import ClusterSource, ModelSource
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import Runtime, read_runtime

EXPERT_SHARES = ("expert_imbalance", "expert_spread", "expert_capacity")
"""Fields of a job that say how experts share tokens, one of them at most."""


def varied_inputs(
    inputs: Inputs,
    *,
    model: ModelSource | None = None,
    text_only: bool = False,
    cluster: ClusterSource | None = None,
    runtime: Runtime | str | None = None,
    behaviours: Sequence[str] = (),
    **job: Any,
) -> Inputs:
    """The question with other parts, all that is not named as it stands.

    Constraints to what another runtime does not have are left out.
    behaviours: as `with_behaviours` takes them, of the runtime that is named or of the question's own, whose replaced
    behaviours stay; job: as `job_of` takes it. Raises `InvalidInput` for what is no such part.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> varied_inputs(LLAMA, precision="fp8", behaviours=["overlap.tensor_parallel=0.9"]).job.precision
    'fp8'
    """
    used = read_runtime(runtime) if isinstance(runtime, str) else runtime or inputs.runtime
    used = with_behaviours(used, behaviours) if behaviours else used
    parts: dict[str, Spec] = {
        "runtime": used,
        "constraints": inputs.constraints.without(*lacking(inputs.constraints, used)),
    }
    if model is not None:
        parts["model"] = model if isinstance(model, Model) else read_model(model, text_only=text_only)
    if cluster is not None:
        parts["cluster"] = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    if job:
        asked = _varied_job(inputs.job, job)
        parts |= {"job": asked, "runtime": beside_adapters(used, asked)}
    return inputs.replace(**parts)


def _varied_job(job: Job, named: dict[str, Any]) -> Job:
    """The job with some fields as `job_of` takes them; a batch, or how experts share tokens, in place of the other."""
    left_out = {"seq_len", "global_batch" if "global_batch_tokens" in named else "global_batch_tokens"}
    if not named.get("lora_rank", job.lora_rank):
        left_out.add("lora_modules")
    kept = {each.name: each.of(job) for each in JOB_OPTIONS if each.name not in left_out}
    shares = any(named.get(name) is not None for name in EXPERT_SHARES)
    if shares:
        kept = {name: value for name, value in kept.items() if name not in EXPERT_SHARES}
    changed = job_of(**{"sequence_length": job.sequence_length} | kept | named)
    rest = {"optimizer": job.optimizer, "expert_spread": None if shares else job.expert_spread}
    same_batch = changed.tokens_per_step == job.tokens_per_step
    return changed.replace(**rest, **({"assumptions": job.assumptions} if same_batch else {}))
