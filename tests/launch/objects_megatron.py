"""Read start scripts of Megatron-LM with its own objects, without a GPU. argv: a JSON file of {"folder", "ranks",
"capability"}.

The script is run with a torchrun that prints its arguments. Transformer Engine is not there: `--transformer-impl local`
and no fusions of it. One process a script, because Megatron-core keeps what was parsed. Prints JSON.
"""

from __future__ import annotations

import os
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import typing_extensions
from objects import in_a_process, print_answers, started

LATER = ("--transformer-impl", "local", "--no-rope-fusion")
NEEDS_TRANSFORMER_ENGINE = {"--moe-permute-fusion"}
FILLED = {"MEGATRON": "/megatron", "MOCK_DATA": "1"}
FILLED |= {"TRAIN_ITERS": "1000", "LR": "1e-4", "ROTARY_BASE": "10000.0", "NORM_EPSILON": "1e-5", "SAVE": "/tmp/x"}
FILLED |= {"ROPE_TYPE": "yarn", "ROTARY_SCALING_FACTOR": "40", "ROUTER": "--moe-router-pre-softmax"}
DEVICE = SimpleNamespace(major=9, minor=0, multi_processor_count=132, total_memory=80 << 30)
"""The accelerator that is pretended."""


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-core makes of one script."""
    from megatron.core.num_microbatches_calculator import get_num_microbatches, init_num_microbatches_calculator
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args
    from megatron.training.global_vars import set_args
    from megatron.training.training import get_train_valid_test_num_samples

    DEVICE.major = int(case["capability"])
    words, variables = started(Path(case["folder"]), "pretrain_gpt.py", FILLED, *LATER)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(variables, WORLD_SIZE=str(case["ranks"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *(each for each in words if each not in NEEDS_TRANSFORMER_ENGINE)]
    arguments = parse_args()
    validate_args(arguments, {})
    config = core_transformer_config_from_args(arguments)
    set_args(arguments)
    get_train_valid_test_num_samples()
    dp = arguments.data_parallel_size
    batches = arguments.global_batch_size, arguments.micro_batch_size
    init_num_microbatches_calculator(0, arguments.rampup_batch_size, *batches, dp, False)
    return {
        "tp": arguments.tensor_model_parallel_size,
        "cp": arguments.context_parallel_size,
        "pp": arguments.pipeline_model_parallel_size,
        "dp": dp,
        "ep": config.expert_model_parallel_size,
        "etp": config.expert_tensor_parallel_size,
        "sp": bool(config.sequence_parallel),
        "num_microbatches": get_num_microbatches(),
        "layers": layers_of(arguments, config),
        "precision": "fp16" if config.fp16 else "bf16" if config.bf16 else "fp32",
        **recomputation(config),
        "zero": {"optim_grads": 2, "optim_grads_params": 3}[arguments.data_parallel_sharding_strategy]
        if arguments.use_megatron_fsdp
        else int(arguments.use_distributed_optimizer),
    }


def recomputation(config: Any) -> dict[str, Any]:
    """What is computed again: of which parts, or of how many layers of a chunk, where the configuration counts them."""
    kind, method = config.recompute_granularity or "none", config.recompute_method
    told = {"recompute": kind, "recompute_layers": config.recompute_num_layers if method == "block" else 0}
    return told | ({"recompute_modules": config.recompute_modules} if kind == "selective" else {})


def layers_of(arguments: Any, config: Any) -> list[int]:
    """Layers of every chunk, the chunks of all ranks one after the other."""
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    stages, chunks = arguments.pipeline_model_parallel_size, arguments.virtual_pipeline_model_parallel_size or 1
    if stages == 1:
        return [config.num_layers]
    places, layout = [(chunk, stage) for chunk in range(chunks) for stage in range(stages)], config
    if layout.pipeline_model_parallel_layout is not None:
        table = layout.pipeline_model_parallel_layout.layout
        return [sum("decoder" in str(kind).lower() for kind in table[stage][chunk]) for chunk, stage in places]
    of_one = [chunk if chunks > 1 else None for chunk, _ in places]
    return [
        get_num_layers_to_build(config, vp_stage=of, pp_rank=stage)
        for of, (_, stage) in zip(of_one, places, strict=True)
    ]


def pretend() -> None:
    """An accelerator, and a Transformer Engine new enough for what only its version is asked about."""
    typing.override = typing_extensions.override  # type: ignore[attr-defined]
    torch.cuda.get_device_properties = lambda *_, **__: DEVICE  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda *_, **__: (DEVICE.major, 0)  # type: ignore[assignment]
    torch.cuda.current_device = lambda *_: 0  # type: ignore[assignment]
    os.environ.update(WORLD_SIZE="1", RANK="0")
    import megatron.core.utils
    import megatron.training.training  # (once, before the processes part)
    from packaging.version import Version

    megatron.core.utils._te_version = Version("2.9.0")


if __name__ == "__main__":
    print_answers(in_a_process(read), pretend)
