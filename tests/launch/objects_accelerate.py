"""Read accelerate files with its own objects. argv: a JSON file of {"folder", "ranks", "nodes"}; prints JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

from objects import pretended, print_answers


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What accelerate makes of one configuration on so many ranks."""
    from accelerate.commands.config import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    file = str(Path(case["folder"]) / "accelerate.yaml")
    load_config_from_file(file)
    words = ["--config_file", file, "--num_machines", str(case["nodes"]), "--machine_rank", "0", "train.py"]
    arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    with mock.patch("accelerate.utils.launch.is_fp8_available", return_value=True):
        environment = prepare_multi_gpu_env(arguments)
    with mock.patch.dict(os.environ, environment):
        parallel = ParallelismConfig()
        with pretended(case["ranks"]):
            mesh = parallel.build_device_mesh("cpu")
        plugin = FullyShardedDataParallelPlugin()
        if os.environ.get("ACCELERATE_FP8_BACKEND") == "AO":  # Accelerator, which wants a device, raises a ValueError
            assert not plugin.cpu_ram_efficient_loading
            assert os.environ["ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER"] in ("True", "False")
    return {
        "tp": parallel.tp_size,
        "cp": parallel.cp_size,
        "dp": parallel.dp_replicate_size * parallel.dp_shard_size,
        "dp_replicate": parallel.dp_replicate_size,
        "ranks": parallel.total_size,
        "processes": arguments.num_processes,
        "fastest": (mesh.mesh_dim_names or ("none",))[-1] if mesh is not None else "none",
        "zero": 3 if plugin.reshard_after_forward else 2,
        "version": plugin.fsdp_version,
        "recomputes": bool(plugin.activation_checkpointing),
        "precision": arguments.mixed_precision,
    }


if __name__ == "__main__":
    print_answers(read)
