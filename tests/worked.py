"""Worked examples that several tests of the calculators start from."""

from __future__ import annotations

from typing import Any

ANALYZED = {
    "num_layers": 32,
    "hidden_size": 4096,
    "vocab_size": 32000,
    "seq_len": 2048,
    "micro_batch_size": 1,
    "num_micro_batches": 8,
}
DEGREES = {"dp": 2, "tp": 4, "pp": 2, "sp": 1}
HARDWARE = {"num_gpus": 16, "memory_per_gpu_gb": 80}
CLUSTER_METADATA = {
    "n_node": 1,
    "n_gpu_per_node": 8,
    "gpu_gflops": 312000,
    "gpu_memory": 81920,
    "bw_gpu_to_gpu": 300,
    "bw_cpu_to_gpu": 32,
    "bw_cpu_to_cpu": 32,
    "bw_inter_node": 25,
}
MODEL_METADATA = {
    "global_batch_size": 8,
    "num_layers": 24,
    "layer_tflops": [1.5] * 24,
    "layer_activation_MB": [16] * 24,
    "dp_sum_gradient_MB": 2700,
    "tp_comm_sum_MB": 768,
    "tp_comm": 32,
}
SEVEN = {
    "hidden_size": 4096,
    "ffn_hidden_size": 11008,
    "num_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
}
JOB = {"sequence_length": 4096, "micro_batch_size": 1}
ONE = {"tp": 1, "pp": 1, "cp": 1, "dp": 1, "gpu_memory_gb": 80}


def flags(values: dict[str, Any]) -> list[str]:
    """Options of the command from the arguments of the function."""
    return [text for key, value in values.items() for text in (f"--{key.replace('_', '-')}", str(value))]
