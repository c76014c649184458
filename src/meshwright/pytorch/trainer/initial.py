"""Initial: the weights and the tokens that every process of a run starts from, and which of them are a rank's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.pytorch.trainer.model import Attention, Decoder

SEED = 0
SPREAD = 0.1
"""Of weights around zero, and of those of norms around one, so that no two are alike."""
WRAPPED = "_checkpoint_wrapped_module."


def whole_decoder(request: Request) -> Decoder:
    """All layers in one, with weights that depend on nothing but the model."""
    model, job, runtime = request.inputs.model, request.inputs.job, request.inputs.runtime
    whole = Decoder(model, model.layer_pattern, job.sequence_length, runtime, embedding=True, head=True)
    random = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, weight in whole.named_parameters():
            around = 1.0 if "norm" in name else 0.0
            weight.copy_(around + SPREAD * torch.randn(weight.shape, generator=random))
    return whole


def set_weights(chunks: Sequence[Decoder], request: Request) -> None:
    """Give each chunk its layers' weights of the whole decoder; the chunks are not split yet."""
    weights = whole_decoder(request).state_dict()
    for chunk, start in zip(chunks, request.first_layers, strict=True):
        chunk.load_state_dict({name: weights[_in_whole(name, start)] for name in chunk.state_dict()})


def named_weights(chunks: Sequence[nn.Module], request: Request) -> Iterator[tuple[str, nn.Parameter]]:
    """Every weight of the rank with its name in the whole decoder."""
    for chunk, start in zip(chunks, request.first_layers, strict=True):
        for name, weight in chunk.named_parameters():
            yield _in_whole(name.replace(WRAPPED, ""), start), weight


def _in_whole(name: str, before: int) -> str:
    """What a weight of a chunk, before which there are so many layers, is called in the whole decoder."""
    return re.sub(r"^layers\.(\d+)", lambda layer: f"layers.{int(layer[1]) + before}", name)


def global_batch(request: Request) -> tuple[Tensor, Tensor]:
    """Token ids and the ones that follow them, (sequences, tokens) each."""
    job, random = request.inputs.job, torch.Generator().manual_seed(SEED)
    shape = job.global_batch, job.sequence_length + 1
    tokens = torch.randint(request.inputs.model.vocab_size, shape, generator=random)
    return tokens[:, :-1], tokens[:, 1:]


def own_part(batch: Tensor, plan: Plan, meshes: Meshes) -> Tensor:
    """This rank's sequences of the batch, and of each its own tokens; ranks of cp stand within one of dp."""
    shards = plan.dp * plan.cp // plan.dp_replicate
    rank = meshes.dense.get_local_rank("dp_replicate") * shards + meshes.dense.get_local_rank("fsdp")
    sequences = batch.chunk(plan.dp)[rank // plan.cp]
    return sequences[:, _own_positions(batch.shape[1], plan, meshes)].contiguous()


def _own_positions(length: int, plan: Plan, meshes: Meshes) -> Tensor:
    """Where this rank's tokens stand in their sequence: with context parallelism a piece from the front and its mirror
    image from the back, so that causal attention is as much work for all.
    """
    if plan.cp == 1:
        return torch.arange(length)
    rank = meshes.sequence.get_local_rank("cp")  # type: ignore[union-attr]
    pieces = torch.arange(length).chunk(2 * plan.cp)
    return torch.cat([pieces[rank], pieces[-1 - rank]])


def turn_rotary(chunks: Sequence[Decoder], request: Request, meshes: Meshes) -> None:
    """Rotary positions follow the tokens of this rank."""
    length = request.inputs.job.sequence_length
    positions = _own_positions(length, request.plan, meshes)
    for module in [module for chunk in chunks for module in chunk.modules() if isinstance(module, Attention)]:
        module.rotary = module.table(length, module.width)[positions]
