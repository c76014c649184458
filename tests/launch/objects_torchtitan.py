"""Read modules of torchtitan with its own objects. argv: a JSON file of {"folder", "ranks",
"capability"}; prints JSON."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from objects import print_answers, stand_in

os.environ.update(LEARNING_RATE="1e-4", HF_ASSETS_PATH="/tmp", DATASET="c4_test", STEPS="10", CHECKPOINTS="/tmp/x")
ABSENT = ("tensorboard", "torch.utils.tensorboard", "datasets")
DEVICE = {"capability": 0.0}


def rotary(model: Any) -> list[float]:
    """Radians by which a position turns each pair of elements, of the first layer."""
    rope = model.layers[0].attention.rope
    return [float(each) for each in rope.build().cache[1].angle()]


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What torchtitan makes of one module, on an accelerator that is pretended."""
    import torchtitan.tools.utils

    DEVICE["capability"] = case["capability"]
    torchtitan.tools.utils.has_cuda_capability = lambda major, minor: DEVICE["capability"] >= major + minor / 10
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torchtitan.distributed.parallel_dims import ParallelDims

    file = Path(case["folder"]) / "meshwright_plan.py"
    spec = importlib.util.spec_from_file_location("plan_" + file.parent.name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = module.plan()
    parallel, training = config.parallelism, config.training
    dims = ParallelDims.from_config(parallel, case["ranks"])
    config.model_spec.model.update_from_config(config=config)
    dp = dims.dp_shard * dims.dp_replicate
    micro_batch = parallel.pipeline_parallel_microbatch_size if dims.pp > 1 else training.local_batch_size
    steps = training.global_batch_size // (training.local_batch_size * dp)
    parts = parallel.module_fqns_per_model_part
    if dims.pp > 1:
        get_schedule_class(parallel.pipeline_parallel_schedule)
    return {
        **({"rotary": rotary(config.model_spec.model)} if case.get("rotary") else {}),
        "tp": dims.tp,
        "cp": dims.cp,
        "pp": dims.pp,
        "ep": dims.ep,
        "dp": dp,
        "dp_replicate": dims.dp_replicate,
        "micro_batch": micro_batch,
        "num_microbatches": training.local_batch_size // micro_batch * steps,
        "recompute": {"NoneType": "none", "FullAC.Config": "full"}.get(
            type(config.activation_checkpoint).__qualname__, "selective"
        ),
        "layers": [sum(name.startswith("layers.") for name in part) for part in parts or []],
        "precision": {"bfloat16": "bf16"}[training.mixed_precision_param],
        "dispatcher": dispatcher(config.model_spec.model.layers) if dims.ep > 1 else "none",
    }


def dispatcher(layers: list[Any]) -> str:
    """What sends tokens to the experts of the last layer, and how many it takes of a rank where it keeps a buffer."""
    made = layers[-1].moe.routed_experts.token_dispatcher
    return f"{type(made).__qualname__.partition('.')[0]} {getattr(made, 'num_max_tokens_per_rank', '')}".strip()


if __name__ == "__main__":
    print_answers(read, lambda: stand_in(*ABSENT))
