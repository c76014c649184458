"""Text: the memo as a document."""

from __future__ import annotations

from meshwright.answers.document.blocks import Document
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.communication import communication_section
from meshwright.answers.memo.sections.conclusion import conclusion_section
from meshwright.answers.memo.sections.memory import memory_section
from meshwright.answers.memo.sections.pipeline import pipeline_section
from meshwright.answers.memo.sections.precision import precision_section
from meshwright.answers.memo.sections.recommendation import recommendation
from meshwright.specs.inputs import Inputs
from meshwright.specs.weights import active_parameter_count, parameter_count
from meshwright.units import format_count


def memo_document(memo: Memo) -> Document:
    """The whole memo: recommendation first, the four questions, the conclusion."""
    blocks = (
        *recommendation(memo),
        *memory_section(memo),
        *communication_section(memo),
        *pipeline_section(memo),
        *precision_section(memo),
        *conclusion_section(memo),
    )
    inputs = memo.inputs
    title = f"How to train {inputs.model.name} on {inputs.cluster.num_gpus} {inputs.cluster.accelerator.id}"
    return Document(title, subtitle(inputs), blocks)


def subtitle(inputs: Inputs) -> str:
    """The question in one line."""
    model, cluster, job = inputs.model, inputs.cluster, inputs.job
    active = f", {format_count(active_parameter_count(model))} active" if model.is_moe else ""
    return (
        f"{format_count(parameter_count(model))} parameters{active}; {cluster.num_nodes} x {cluster.gpus_per_node} "
        f"accelerators; {job.global_batch} sequences of {job.sequence_length} tokens a step; {job.precision}; "
        f"{inputs.runtime.id}"
    )
