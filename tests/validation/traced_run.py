"""Train a small model on this machine's processors, and write a trace of each rank. argv: a folder, in which each
of `KINDS` gets one.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile, schedule

LAYERS, WIDTH, HEADS, VOCABULARY = 3, 128, 4, 512
KINDS = ("ddp", "fsdp2")


class Layer(nn.Module):
    """Attention and a gated block, as in a Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Hidden states to hidden states."""
        batch, length, _ = rows.shape
        parts = self.qkv(self.norm(rows)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        rows = rows + self.out(seen)
        inner = self.other_norm(rows)
        changed: Tensor = rows + self.down(nn.functional.silu(self.gate(inner)) * self.up(inner))
        return changed


def train(kind: str, folder: str) -> None:
    """Three steps, the last two traced."""
    model: nn.Module = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), *(Layer() for _ in range(LAYERS)), nn.Linear(WIDTH, VOCABULARY, bias=False)
    )
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for part in [each for each in model.children() if isinstance(each, Layer)]:
            fully_shard(part, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    path = f"{folder}/{dist.get_rank()}.json"
    steps = schedule(wait=0, warmup=1, active=2)

    def done(run: profile) -> None:
        run.export_chrome_trace(path)

    with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=done) as run:
        for _ in range(3):
            tokens = torch.randint(0, VOCABULARY, (2, 65))
            cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
            run.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for each in KINDS:
        train(each, f"{sys.argv[1]}/{each}")
    dist.destroy_process_group()
