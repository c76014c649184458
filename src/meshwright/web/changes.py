"""Changes: questions that differ in one thing, as links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from meshwright.answers.unfit.nothing_fits import change_words
from meshwright.search.many_searches.remedies import Remedy
from meshwright.specs.defaults import DEFAULT_RUNTIME
from meshwright.specs.inputs import Inputs
from meshwright.specs.job_options import ALL_LINEAR
from meshwright.web.question import Question
from meshwright.web.reading import read

SHORT = re.compile(r"\d+\s*[x×]\s*(\d+)\s*:\s*(.*)", re.IGNORECASE)
COUNTED = re.compile(r"^\d+\s*[x×]\s*", re.IGNORECASE)
FIRST = Markup('<li><a href="/plan?{}#answer">{}</a></li>')


def remedy_links(question: Question, remedies: Sequence[Remedy]) -> Markup:
    """The remedies that the form can ask for, as a list of links; nothing where it can ask for none."""
    links = [
        FIRST.format(changed.link(question), f"Try {change_words(each)}")
        for each in remedies
        if (changed := _asking(question, each)) is not None
    ]
    listed = Markup("\n").join(links)
    return (
        Markup('<nav aria-label="What would fit"><ul class="links">{}</ul></nav>').format(listed) if links else Markup()
    )


def knobs(question: Question, inputs: Inputs) -> Iterator[tuple[str, Question]]:
    """Single changes of a question that people ask for, each with its name."""
    nodes, job = inputs.cluster.num_nodes, inputs.job
    yield "twice the nodes", question.replace(cluster=_cluster(question, 2 * nodes))
    if nodes > 1:
        yield "half the nodes", question.replace(cluster=_cluster(question, nodes // 2))
    yield "twice the sequence length", question.replace(seq_len=str(2 * job.sequence_length))
    yield "twice the batch", question.replace(global_batch=str(2 * job.global_batch))
    if job.global_batch > 1:
        yield "half the batch", question.replace(global_batch=str(job.global_batch // 2))
    yield (
        "fp8" if job.precision == "bf16" else "bf16",
        question.replace(precision="fp8" if job.precision == "bf16" else "bf16"),
    )
    for name in (DEFAULT_RUNTIME, "torchtitan", "deepspeed"):
        if name != inputs.runtime.id:
            yield name, question.replace(runtime=name)


def _asking(question: Question, remedy: Remedy) -> Question | None:
    """The question of the form that a remedy makes; None where the form cannot ask it."""
    wanted = remedy.inputs
    job, cluster, constraints = wanted.job, wanted.cluster, wanted.constraints
    behaviours = [each.removeprefix("--with ") for each in remedy.options if each.startswith("--with ")]
    elsewhere = [each.removeprefix("--runtime ") for each in remedy.options if each.startswith("--runtime ")]
    left_out = [name for name in question.values if name in type(constraints).model_fields.keys() - constraints.given]
    changed = question.replace(
        cluster=_cluster(question, cluster.num_nodes, cluster.gpus_per_node),
        seq_len=str(job.sequence_length),
        lora_rank=str(job.lora_rank or ""),
        lora_modules="" if ALL_LINEAR in job.lora_modules else job.modules_text,
        precision=job.precision,
        gradients=job.gradients or "",
        **{"with": " ".join([question.values.get("with", ""), *behaviours]).strip()},
        **dict.fromkeys(left_out, ""),
        **({"runtime": elsewhere[0]} if elsewhere else {}),
    )
    asked = read(changed).inputs
    return changed if asked is not None and _same(asked) == _same(wanted) else None


def _same(inputs: Inputs) -> tuple[Any, ...]:
    """What makes two questions one: clusters are named by how they were asked for."""
    cluster = inputs.cluster
    sizes = cluster.num_nodes, cluster.gpus_per_node, cluster.accelerator.id
    return inputs.model, inputs.job, inputs.runtime, inputs.constraints, sizes


def _cluster(question: Question, nodes: int, per_node: int | None = None) -> str:
    """The cluster as it is typed, with other counts."""
    typed = question.values["cluster"]
    if short := SHORT.fullmatch(typed):
        return f"{nodes}x{per_node or short[1]}:{short[2]}"
    return f"{nodes}x{COUNTED.sub('', typed)}"
