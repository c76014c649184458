"""Torchtitan: its own decoder, checkpointing and sharding as a build, with stand-ins for fused kernels alone.

What it is given is what its trainer gives it: positions of the tokens, and meshes of its own, under the SPMD backend
partial_dtensor, which needs no accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
import torchtitan.distributed.parallel_dims as meshes_of_torchtitan
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.distributed.utils import set_spmd_backend
from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.common.config_utils import make_ffn_config, make_gqa_config
from torchtitan.models.llama3.model import Llama3Model, Llama3TransformerBlock
from torchtitan.models.llama3.parallelize import parallelize_llama
from torchtitan.models.llama3.sharding import set_llama3_sharding_config
from torchtitan.models.qwen3.model import Qwen3Model, Qwen3TransformerBlock
from torchtitan.models.qwen3.parallelize import parallelize_qwen3
from torchtitan.models.qwen3.sharding import set_qwen3_sharding_config

from meshwright.layout.plan import Plan
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.trainer.kernels import ATTEND, flash_attention, rms_norm
from meshwright.pytorch.trainer.losses import Loss
from meshwright.pytorch.trainer.mesh import Meshes, local
from meshwright.pytorch.trainer.split import ring_attention
from meshwright.pytorch.trainer.torchtitan_experts import mixture
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Experts, LayerKind, Mlp, Model

BACKEND = "partial_dtensor"
DEVICE = "cpu"
SPLITS = ("tp", "ep")
"""Axes that split a weight which is not sharded."""


class FusedNorm(RMSNorm):
    """RMS norm by one kernel, as CUDA has it."""

    @dataclass(kw_only=True, slots=True)
    class Config(RMSNorm.Config):
        """That of torchtitan."""

    def forward(self, input: Tensor) -> Tensor:
        """The normed input."""
        return rms_norm(input, self.weight)


class FusedAttention(ScaledDotProductAttention):
    """Attention by one kernel, as CUDA has it; documents in a sequence change nothing that is kept."""

    @dataclass(kw_only=True, slots=True)
    class Config(ScaledDotProductAttention.Config):
        """That of torchtitan."""

    def forward(self, q_BLNH: Tensor, k_BLNH: Tensor, v_BLNH: Tensor, **_: Any) -> Tensor:  # noqa: N803
        """(batch, tokens, heads, width) each; a rank's part of the sequence comes as a DTensor over cp."""
        query, key, value = (local(part).transpose(1, 2) for part in (q_BLNH, k_BLNH, v_BLNH))
        if not isinstance(q_BLNH, DTensor):
            return flash_attention(query, key, value).transpose(1, 2)
        return ring_attention(query, key, value, q_BLNH.device_mesh.get_group()).transpose(1, 2)


class SelectiveFused(SelectiveAC):
    """Selective checkpointing that takes the stand-in of attention for attention."""

    @dataclass(kw_only=True, slots=True)
    class Config(SelectiveAC.Config):
        """That of torchtitan."""

    def get_save_ops(self) -> set[Any]:
        """Operators whose outputs are kept."""
        return {*super().get_save_ops(), ATTEND}


def chunks(request: Request) -> list[nn.Module]:
    """The rank's chunks, each a decoder with the request's layers in the shapes of its model."""
    set_spmd_backend(BACKEND)
    return [_chunk(request, kinds, position) for kinds, position in zip(request.chunks, request.positions, strict=True)]


def _chunk(request: Request, kinds: Sequence[int], position: int) -> nn.Module:
    """One decoder, without the ends that other stages have, as torchtitan's split of a pipeline leaves it."""
    config = _config(request, kinds)
    if _is_qwen(request.inputs.model):
        set_qwen3_sharding_config(config, enable_sp=request.plan.sp, enable_ep=request.plan.ep > 1)
    else:
        set_llama3_sharding_config(config, enable_sp=request.plan.sp)
    decoder: nn.Module = config.build()
    if position > 0:
        decoder.tok_embeddings = None
    if position < request.last_position:
        decoder.norm = decoder.lm_head = None
    length = request.inputs.job.sequence_length // request.plan.cp
    decoder.register_forward_pre_hook(partial(_with_positions, length), prepend=True, with_kwargs=True)
    return decoder


def _with_positions(
    length: int, _: nn.Module, inputs: tuple[Tensor], named: dict[str, Any]
) -> tuple[tuple[Tensor], dict[str, Any]]:
    """Where each token stands, which torchtitan's data loaders always say."""
    return inputs, named | {"positions": torch.arange(length).repeat(inputs[0].shape[0], 1)}


def _config(request: Request, numbers: Sequence[int]) -> Any:
    model, length = request.inputs.model, request.inputs.job.sequence_length
    kinds = [model.layer_kinds[kind] for kind in numbers]
    is_qwen, fuses = _is_qwen(model), request.inputs.runtime.kernels.fused_projections
    return (Qwen3Model if is_qwen else Llama3Model).Config(
        dim=model.hidden_size,
        vocab_size=model.vocab_size,
        enable_weight_tying=model.tied_embeddings,
        tok_embeddings=Embedding.Config(num_embeddings=model.vocab_size, embedding_dim=model.hidden_size),
        norm=FusedNorm.Config(normalized_shape=model.hidden_size),
        lm_head=Linear.Config(in_features=model.hidden_size, out_features=model.vocab_size),
        layers=[_layer(model.hidden_size, kind, length, fuses=fuses, is_qwen=is_qwen) for kind in kinds],
    )


def _is_qwen(model: Model) -> bool:
    """Whether its blocks are those of Qwen3, which alone has experts, with norms of queries and keys or without."""
    return any(kind.is_moe or kind.attention.qk_norm == "head" for kind in model.layer_kinds)


def _layer(hidden: int, kind: LayerKind, length: int, *, fuses: bool, is_qwen: bool) -> Any:
    """fuses: queries, keys and values are one product, as the runtime has it."""
    shape, block = kind.attention, kind.feed_forward
    normed = shape.qk_norm == "head"
    rope = (CosSinRoPE if normed else ComplexRoPE).Config(dim=shape.head_dim, max_seq_len=length)
    attention = make_gqa_config(
        dim=hidden,
        n_heads=shape.heads,
        n_kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        wqkv_param_init={},
        wo_param_init={},
        inner_attention=FusedAttention.Config(),
        rope=rope,
        fuse_qkv=fuses,
        qk_norm=FusedNorm.Config(normalized_shape=shape.head_dim) if normed else None,
    )
    return (Qwen3TransformerBlock if is_qwen else Llama3TransformerBlock).Config(
        attention_norm=FusedNorm.Config(normalized_shape=hidden),
        ffn_norm=FusedNorm.Config(normalized_shape=hidden),
        attention=attention,
        **{"moe": mixture(hidden, block)} if isinstance(block, Experts) else {"feed_forward": _dense(hidden, block)},
    )


def _dense(hidden: int, block: Mlp) -> Any:
    return make_ffn_config(dim=hidden, hidden_dim=block.ffn_size, w1_param_init={}, w2w3_param_init={})


def _parallelism(plan: Plan) -> ParallelismConfig:
    return ParallelismConfig(
        data_parallel_replicate_degree=plan.dp_replicate,
        data_parallel_shard_degree=plan.dp // plan.dp_replicate,
        fsdp_reshard_after_forward="never" if plan.zero == 2 else "always" if plan.pp > 1 else "default",
        context_parallel_degree=plan.cp,
        tensor_parallel_degree=plan.tp,
        enable_sequence_parallel=plan.sp,
        pipeline_parallel_degree=plan.pp,
        expert_parallel_degree=plan.ep,
        spmd_backend=BACKEND,
    )


@cache
def _dims(plan: Plan) -> ParallelDims:
    """Torchtitan's meshes over all ranks; it would have them of an accelerator where there is none."""
    meshes_of_torchtitan.device_type = DEVICE
    dims = ParallelDims.from_config(_parallelism(plan), plan.num_gpus)
    dims.build_mesh()
    return dims


def parallelize(decoder: Any, request: Request, _: Meshes) -> int:
    """By torchtitan's own function for the model."""
    plan = request.plan
    apply = parallelize_qwen3 if _is_qwen(request.inputs.model) else parallelize_llama
    checkpointing = {Recompute.FULL: FullAC.Config(), Recompute.SELECTIVE: SelectiveFused.Config()}
    apply(
        decoder,
        parallel_dims=_dims(plan),
        training=TrainingConfig(),
        parallelism=_parallelism(plan),
        compile_config=CompileConfig(enable=False),
        ac_config=checkpointing.get(plan.recompute),
        dump_folder="",
    )
    if decoder.enable_weight_tying:  # as its `init_states` does after this: tensor parallelism parted the two
        decoder.tok_embeddings.weight = decoder.lm_head.weight
    return sum(_before_sharding(weight) for weight in decoder.parameters())


def _before_sharding(weight: Tensor) -> int:
    """Elements that the rank holds while the weight is gathered."""
    if not isinstance(weight, DTensor):
        return weight.numel()
    mesh = weight.device_mesh
    axes = zip(mesh.mesh_dim_names or (), weight.placements, range(mesh.ndim), strict=True)
    split = (mesh.size(index) for name, placement, index in axes if name in SPLITS and placement.is_shard())
    return weight.numel() // math.prod(split)


def loss_of(request: Request, decoders: Sequence[Any]) -> Loss:
    """Its loss, over as many tokens as there are labels: of the logits, or in pieces of the sequence with the head."""
    loss: Any = CrossEntropyLoss(CrossEntropyLoss.Config())
    pieces = request.inputs.runtime.entropy.sequence_pieces
    for decoder in decoders if pieces > 1 else ():
        if decoder.lm_head is not None:
            loss = ChunkedLossWrapper(ChunkedLossWrapper.Config(num_chunks=pieces))
            loss.set_lm_head(decoder.lm_head)
            decoder._skip_lm_head = True
            if isinstance(decoder.lm_head, FSDPModule):
                decoder.lm_head.set_reshard_after_forward(True)  # as every loss leaves it
    return lambda output, labels: loss(output, labels, torch.tensor(float(labels.numel())))[0]
