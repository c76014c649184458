"""Read DeepSpeed configurations with DeepSpeed's own objects. argv: a JSON file of {"folder", "ranks"}; prints JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from objects import print_answers

os.environ["DS_ACCELERATOR"] = "cpu"


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What DeepSpeed makes of one configuration on so many ranks."""
    import deepspeed.comm.comm as comm
    from deepspeed.runtime.config import DeepSpeedConfig

    settings = json.loads((Path(case["folder"]) / "deepspeed.json").read_text())
    tensor = settings.get("tensor_parallel", {}).get("autotp_size", 1)
    sequence = settings.get("sequence_parallel_size", 1)
    comm.cdb = SimpleNamespace(
        is_initialized=lambda: True, get_rank=lambda *_: 0, get_world_size=lambda *_: case["ranks"]
    )
    replicas = SimpleNamespace(get_data_parallel_world_size=lambda: case["ranks"] // tensor)
    ulysses = SimpleNamespace(get_sequence_parallel_world_size=lambda: sequence)
    config = DeepSpeedConfig(settings, mpu=replicas if tensor > 1 else ulysses)
    return {
        "tp": config.tensor_parallel_config.autotp_size or 1,
        "dp": int(config.world_size),
        "zero": config.zero_optimization_stage,
        "micro_batch": config.train_micro_batch_size_per_gpu,
        "num_microbatches": config.gradient_accumulation_steps,
        "global_batch": config.train_batch_size,
        "precision": "bf16" if config.bfloat16_config.enabled else "fp16" if config.float16_config.enabled else "fp32",
        "gradients": str(config.grad_accum_dtype),
        "overlap": bool(config.zero_config.overlap_comm),
    }


if __name__ == "__main__":
    print_answers(read)
