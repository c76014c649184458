"""Examples: what docstrings ask their questions of."""

from __future__ import annotations

from meshwright.specs.job import Job
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.read_inputs import read_inputs

TWO_NODES = read_cluster("2x8:h100")
H100 = TWO_NODES.accelerator
LLAMA = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64))
"""Llama 3.1 8B on one node of H100, under Megatron-core."""
LLAMA_LORA = read_inputs(
    "llama-3.1-8b", "1x8:h100", Job(sequence_length=2048, global_batch=8, lora_rank=16), "accelerate"
)
"""Adapters beside all linear layers of it, under accelerate."""
MIXTRAL = read_inputs("mixtral-8x7b", "1x8:h100", Job(sequence_length=4096, global_batch=64))
