"""Read DeepSpeed configurations with DeepSpeed's own objects. argv: a JSON file of {"folder", "ranks"}; prints JSON.

Of Megatron-DeepSpeed the JSON beside its script, whose degrees stand on the command line.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from objects import print_answers

os.environ["DS_ACCELERATOR"] = "cpu"


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What DeepSpeed makes of one configuration on so many ranks."""
    import deepspeed.comm.comm as comm
    from deepspeed.runtime.config import DeepSpeedConfig

    file = next(Path(case["folder"]).glob("*.json"))
    settings = json.loads(file.read_text())
    arguments = (file.parent / "train.sh").read_text() if file.name == "ds_config.json" else ""
    tensor, replicated = 1, settings.get("tensor_parallel", {}).get("autotp_size", 1)
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "ds-sequence-parallel-size"):
        tensor *= int((re.findall(rf"--{name} (\d+)", arguments) or [1])[0])
    sequence = settings.get("sequence_parallel_size", 1)
    comm.cdb = SimpleNamespace(
        is_initialized=lambda: True, get_rank=lambda *_: 0, get_world_size=lambda *_: case["ranks"]
    )
    replicas = SimpleNamespace(get_data_parallel_world_size=lambda: case["ranks"] // tensor)
    ulysses = SimpleNamespace(get_sequence_parallel_world_size=lambda: sequence)
    config = DeepSpeedConfig(settings, mpu=replicas if tensor > 1 else ulysses)
    _takes_types(config)
    return {
        **({} if arguments else {"tp": config.tensor_parallel_config.autotp_size or 1}),
        "dp": int(config.world_size) // replicated,
        "zero": config.zero_optimization_stage,
        "micro_batch": config.train_micro_batch_size_per_gpu,
        "num_microbatches": config.gradient_accumulation_steps,
        "global_batch": config.train_batch_size // replicated,
        "precision": "bf16" if config.bfloat16_config.enabled else "fp16" if config.float16_config.enabled else "fp32",
        "gradients": str(config.grad_accum_dtype),
        **({} if arguments else {"overlap": bool(config.zero_config.overlap_comm)}),
    }


def _takes_types(config: Any) -> None:
    """Raise what the engine raises for types of weights and gradients that its stage does not take."""
    from deepspeed.runtime.engine import DeepSpeedEngine
    from torch import nn, optim

    engine = object.__new__(DeepSpeedEngine)
    engine.__dict__.update(_config=config, pipeline_parallelism=False, global_rank=0)
    engine._do_optimizer_sanity_check(optim.AdamW([nn.Parameter()]))


if __name__ == "__main__":
    print_answers(read)
