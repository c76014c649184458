"""Shard the model of a written train.py with accelerate's own function on two CPU processes.

argv: train.py, a file by which the processes meet. Prints JSON.
Its state is a stand-in, as accelerate itself shards on devices alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def main() -> None:
    import torch
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    os.environ |= {"DATA": "", "CHECKPOINTS": "", "STEPS": "1", "LEARNING_RATE": "1"}
    rank = int(os.environ["RANK"])
    distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
    torch.manual_seed(rank)
    script: dict[str, Any] = {}
    exec(Path(sys.argv[1]).read_text("utf-8").partition("def optimizer")[0], script)
    made = script["model"]()
    whole = [parameter.detach().clone() for parameter in made.parameters()]
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=True
    )
    accelerator = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin),
        torch_device_mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("dp_shard",)),
        parallelism_config=SimpleNamespace(fsdp_dim_names=["dp_shard"]),
        mixed_precision="bf16",
        is_main_process=rank == 0,
        device=torch.device("cpu"),
    )
    sharded = fsdp2_prepare_model(accelerator, made)
    same = []
    for parameter, first in zip(sharded.parameters(), whole, strict=True):
        distributed.broadcast(first, 0)
        same.append(torch.equal(parameter.full_tensor(), first))
    tokens = torch.arange(64).view(1, 64)
    loss = sharded(input_ids=tokens, labels=tokens).loss.item()
    buffers = [float(each.sum()) for each in sharded.buffers()]
    if rank == 1:
        print(json.dumps({"same": same, "loss": loss, "buffers": buffers}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
