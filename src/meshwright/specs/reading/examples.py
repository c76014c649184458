"""Examples: what docstrings ask their questions of."""

from __future__ import annotations

from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime

TWO_NODES = read_cluster("2x8:h100")
H100 = TWO_NODES.accelerator
LLAMA = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64))
"""Llama 3.1 8B on one node of H100, under Megatron-core."""
LLAMA_LORA = read_inputs(
    "llama-3.1-8b", "1x8:h100", Job(sequence_length=2048, global_batch=8, lora_rank=16), "accelerate"
)
"""Adapters beside all linear layers of it, under accelerate."""
BRIDGE_LORA = read_inputs(
    "llama-3.1-8b", "1x8:h100", Job(sequence_length=2048, global_batch=8, lora_rank=16), "megatron-bridge"
)
"""The same under Megatron-Bridge, whose fused products have one adapter."""
FUSED_LOSS = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=2048, global_batch=64), "accelerate").replace(
    runtime=with_behaviours(read_runtime("accelerate"), ["liger=on"])
)
"""Under accelerate, all weights trained, with the kernels of Liger, whose loss is fused with the head."""
MIXTRAL = read_inputs("mixtral-8x7b", "1x8:h100", Job(sequence_length=4096, global_batch=64))
