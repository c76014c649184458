"""Conditions: which entries of data files the answer to a question rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from meshwright.specs.assumed import Assumed, Condition
from meshwright.specs.behaviours import position_of
from meshwright.specs.inputs import Inputs

THOUSANDS = 2048
"""From this many accelerators on, published runs of few micro-batches a step come out too fast."""


def _loops_over_experts(inputs: Inputs) -> bool:
    return inputs.runtime.kernels.expert_products == "looped"


CONDITIONS: dict[Condition, Callable[[Inputs], bool]] = {
    "experts": lambda inputs: inputs.model.is_moe,
    "experts_as_one_product": lambda inputs: inputs.model.is_moe and not _loops_over_experts(inputs),
    "experts_one_by_one": lambda inputs: inputs.model.is_moe and _loops_over_experts(inputs),
    "expert_parallelism": lambda inputs: inputs.model.is_moe and inputs.runtime.plans.expert_parallel,
    "prediction": lambda inputs: inputs.model.mtp_layers > 0,
    "adapters": lambda inputs: inputs.freezes_weights,
    "packed": lambda inputs: inputs.packs_weights,
    "whole_sequences": lambda inputs: inputs.job.attended_length == inputs.job.sequence_length,
    "documents_as_masks": lambda inputs: (
        inputs.job.attended_length < inputs.job.sequence_length and inputs.attention_kernel == "newest"
    ),
    "quantised": lambda inputs: inputs.recipe.quantises,
    "fp8": lambda inputs: inputs.recipe.number_format == "fp8",
    "fp4": lambda inputs: inputs.recipe.number_format == "fp4",
    "bf16": lambda inputs: inputs.recipe.half == "bf16",
    "fp16": lambda inputs: inputs.recipe.half == "fp16",
    "several_accelerators": lambda inputs: inputs.cluster.num_gpus > 1,
    "several_nodes": lambda inputs: inputs.cluster.num_nodes > 1,
    "thousands_of_accelerators": lambda inputs: inputs.cluster.num_gpus >= THOUSANDS,
    "graphs": lambda inputs: inputs.runtime.host.graphs != "none",
    "no_graphs": lambda inputs: inputs.runtime.host.graphs == "none",
    "experts_on_bound_ranks": lambda inputs: inputs.model.is_moe and inputs.runtime.host.binds_ranks,
    "fused_update": lambda inputs: inputs.runtime.storage.fused_update,
    "compiled": lambda inputs: position_of(inputs.runtime, "compiled") == "true",
    "chunked_loss": lambda inputs: inputs.runtime.kernels.cross_entropy.startswith("chunked"),
    "flex_attention": lambda inputs: inputs.runtime.kernels.attention_kernel == "flex",
}


def applicable(assumed: Assumed, inputs: Inputs) -> Iterator[str]:
    """The sentences whose condition the question meets, and those that have none.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> list(applicable(("always", {"experts": "of experts"}, {"bf16": "of bf16"}), LLAMA))
    ['always', 'of bf16']
    """
    for entry in assumed:
        if isinstance(entry, str):
            yield entry
        else:
            yield from (sentence for condition, sentence in entry.items() if CONDITIONS[condition](inputs))
