"""Read start scripts of Megatron-LM with its own objects, without a GPU. argv: a JSON file of {"folder", "ranks",
"capability"}.

The script is run with a torchrun that prints its arguments. Transformer Engine is not there: `--transformer-impl local`
and no fusions of it. One process a script, because Megatron-core keeps what was parsed. Prints JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import typing_extensions

TORCHRUN = "#!/bin/bash\nenv -0 | grep -z '^CUDA_DEVICE'\nprintf '%s\\0' ARGUMENTS \"$@\"\n"
LATER = ("--transformer-impl", "local", "--no-rope-fusion", "--min-lr", "1e-5", "--eval-iters", "0")
NEEDS_TRANSFORMER_ENGINE = {"--moe-permute-fusion"}
DEVICE = SimpleNamespace(major=9, minor=0, multi_processor_count=132, total_memory=80 << 30)
"""The accelerator that is pretended."""


def words_of(folder: Path) -> tuple[list[str], dict[str, str]]:
    """What the script gives pretrain_gpt.py, and which of Megatron's variables it sets."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text(TORCHRUN)
    (tools / "torchrun").chmod(0o755)
    filled = {"MEGATRON": "/megatron", "DATA_PATH": "x", "TOKENIZER_TYPE": "NullTokenizer", "TOKENIZER_MODEL": "x"}
    filled |= {"TRAIN_ITERS": "1000", "LR": "1e-4", "ROTARY_BASE": "10000", "NORM_EPSILON": "1e-5", "SAVE": "/tmp/x"}
    filled |= {"ROPE_TYPE": "yarn", "ROTARY_SCALING_FACTOR": "40", "ROUTER": "--moe-router-pre-softmax"}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", **filled}
    command = ["bash", str(folder / "train.sh"), *LATER]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split("\0")
    start = told.index("ARGUMENTS")
    script = next(index for index, word in enumerate(told) if word.endswith("pretrain_gpt.py"))
    variables = dict(each.split("=", 1) for each in told[:start] if "=" in each)
    return [word for word in told[script + 1 : -1] if word not in NEEDS_TRANSFORMER_ENGINE], variables


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-core makes of one script."""
    from megatron.core.num_microbatches_calculator import get_num_microbatches, init_num_microbatches_calculator
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    DEVICE.major = int(case["capability"])
    words, variables = words_of(Path(case["folder"]))
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(variables, WORLD_SIZE=str(case["ranks"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *words]
    arguments = parse_args()
    validate_args(arguments, {})
    config = core_transformer_config_from_args(arguments)
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
        "recompute": config.recompute_granularity or "none",
        "zero": {"optim_grads": 2, "optim_grads_params": 3}[arguments.data_parallel_sharding_strategy]
        if arguments.use_megatron_fsdp
        else int(arguments.use_distributed_optimizer),
    }


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


def in_a_process(case: dict[str, Any]) -> dict[str, Any]:
    """`read`, in a child that forgets."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = read(case)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        os.write(theirs, json.dumps(answer).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    answer_of_child: dict[str, Any] = json.loads(told)
    return answer_of_child


def pretend() -> None:
    """An accelerator, and a Transformer Engine new enough for what only its version is asked about."""
    typing.override = typing_extensions.override  # type: ignore[attr-defined]
    torch.cuda.get_device_properties = lambda *_, **__: DEVICE  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda *_, **__: (DEVICE.major, 0)  # type: ignore[assignment]
    torch.cuda.current_device = lambda *_: 0  # type: ignore[assignment]
    os.environ.update(WORLD_SIZE="1", RANK="0")
    import megatron.core.utils
    from packaging.version import Version

    megatron.core.utils._te_version = Version("2.9.0")


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        pretend()
        import megatron.training.arguments  # noqa: F401  (once, before the processes part)

        answers = [in_a_process(each) for each in json.loads(Path(sys.argv[1]).read_text())]
    print(json.dumps(answers))
