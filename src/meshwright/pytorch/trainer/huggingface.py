"""Hugging Face: transformers' own causal language model and loss, wrapped as accelerate does for FSDP2, or for DDP."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from meshwright.pytorch.frameworks import is_gpt2
from meshwright.pytorch.processes.records import Request
from meshwright.pytorch.trainer.adapters import add_adapters
from meshwright.pytorch.trainer.data_parallel import number_format
from meshwright.pytorch.trainer.kernels import flash_attention, layer_norm
from meshwright.pytorch.trainer.mesh import Meshes
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Experts, LayerKind, Mlp, Model

POWER = torch.pow


class Causal(nn.Module):
    """The model with its own loss: labels are the tokens, which it shifts. It may keep its logits as a loop that names
    them would.
    """

    def __init__(self, model: Any, names_logits: bool) -> None:
        super().__init__()
        self.model, self.names_logits, self.logits = model, names_logits, None

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) to the mean loss."""
        output = self.model(input_ids=tokens, labels=tokens, use_cache=False)
        self.logits = output.logits if self.names_logits else None
        loss: Tensor = output.loss
        return loss

    @property
    def layers(self) -> nn.ModuleList:
        """Of the decoder, first one first."""
        base = self.model.base_model
        layers: nn.ModuleList = base.h if isinstance(self.model, GPT2LMHeadModel) else base.layers
        return layers

    @property
    def norm(self) -> nn.Module:
        """Behind the last layer."""
        base = self.model.base_model
        norm: nn.Module = base.ln_f if isinstance(self.model, GPT2LMHeadModel) else base.norm
        return norm


def chunks(request: Request) -> list[nn.Module]:
    """The model with the request's layers, whole."""
    setattr(functional, "scaled_dot_product_attention", _attention)  # noqa: B010
    setattr(functional, "layer_norm", lambda x, _, weight, bias, *__: layer_norm(x, weight, bias))  # noqa: B010
    setattr(torch, "pow", _pow)  # noqa: B010
    model = _built(request.inputs.model, len(request.chunks[0]), request.inputs.job.sequence_length)
    if request.inputs.freezes_weights:
        add_adapters(model, request.inputs.job)
    if request.plan.recompute == Recompute.FULL and request.plan.zero < 2:
        model.gradient_checkpointing_enable()
    return [Causal(model.train(), request.inputs.runtime.activations.keeps_logits)]


def _attention(query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
    """In the place of scaled_dot_product_attention, which a CPU decomposes; autocast casts its operands."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
    return flash_attention(query, key, value)


def _pow(base: Any, exponent: Any) -> Tensor:
    """In the place of torch.pow, which autocast leaves in 2 bytes on a CPU and computes in fp32 on CUDA
    (aten/src/ATen/autocast_mode.h).
    """
    wide = isinstance(base, Tensor) and torch.is_autocast_enabled("cpu")
    return POWER(base.float() if wide else base, exponent)


def _built(model: Model, layers: int, length: int) -> Any:
    config, causal = (GPT2Config, GPT2LMHeadModel) if is_gpt2(model) else _classes(model.layer_kinds[0])
    # Of fake tensors it makes a mask, as if it traced; of tokens without padding it returns none.
    vars(sys.modules[causal.__module__])["create_causal_mask"] = lambda **_: None
    return causal(_gpt2(model, layers) if is_gpt2(model) else _llama(config, model, layers, length))


def _gpt2(model: Model, layers: int) -> GPT2Config:
    """Without dropout, which is not priced."""
    block = model.layer_kinds[0].feed_forward
    return GPT2Config(
        vocab_size=model.vocab_size,
        n_embd=model.hidden_size,
        n_layer=layers,
        n_head=model.layer_kinds[0].attention.heads,
        n_positions=model.learned_positions,
        n_inner=block.ffn_size,
        tie_word_embeddings=model.tied_embeddings,
        **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
        attn_implementation="sdpa",
    )


def _llama(config: Any, model: Model, layers: int, length: int) -> Any:
    shape, block = model.layer_kinds[0].attention, model.layer_kinds[0].feed_forward
    return config(
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=length,
        tie_word_embeddings=model.tied_embeddings,
        pad_token_id=None,
        attn_implementation="sdpa",
        **_block(config, block),
    )


def _classes(kind: LayerKind) -> tuple[Any, Any]:
    """Configuration and model of such layers."""
    normed = kind.attention.qk_norm == "head"
    if kind.is_moe:
        return (Qwen3MoeConfig, Qwen3MoeForCausalLM) if normed else (MixtralConfig, MixtralForCausalLM)
    if normed:
        return Qwen3Config, Qwen3ForCausalLM
    return (Qwen2Config, Qwen2ForCausalLM) if kind.attention.qkv_bias else (LlamaConfig, LlamaForCausalLM)


def _block(config: Any, block: Mlp | Experts) -> dict[str, Any]:
    """Settings of the feed-forward block; experts by grouped products, as on CUDA by default."""
    if isinstance(block, Mlp):
        return {"intermediate_size": block.ffn_size}
    routing = {"num_experts_per_tok": block.active, "experts_implementation": "grouped_mm"}
    if config is MixtralConfig:
        return routing | {"intermediate_size": block.ffn_size, "num_local_experts": block.count}
    return routing | {"moe_intermediate_size": block.ffn_size, "num_experts": block.count, "norm_topk_prob": True}


def parallelize(causal: Causal, request: Request, meshes: Meshes) -> int:
    """As accelerate's fsdp2_apply_ac and fsdp2_prepare_model do; replicas are left whole for DDP."""
    whole = sum(weight.numel() for weight in causal.parameters())
    plan, model = request.plan, causal.model
    if plan.zero < 2:
        return whole
    layers, names = causal.layers, ("dp_replicate", "fsdp") if plan.dp_replicate > 1 else ("fsdp",)
    if plan.recompute == Recompute.FULL:
        for index, layer in enumerate(layers):
            layers[index] = checkpoint_wrapper(layer, preserve_rng_state=False)
    half = number_format(request)
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half, output_dtype=half)
    settings: dict[str, Any] = {"mesh": meshes.sharding(names), "mp_policy": policy}
    for layer in layers:
        fully_shard(layer, reshard_after_forward=plan.zero == 3, **settings)
    embedding, norm, head = model.get_input_embeddings(), causal.norm, model.get_output_embeddings()
    tied = embedding.weight is head.weight
    if not tied:
        fully_shard(embedding, reshard_after_forward=plan.zero == 3, **settings)
    fully_shard([norm, embedding, head] if tied else [norm, head], reshard_after_forward=False, **settings)
    fully_shard(model, **settings)
    return whole


def own_loss(loss: Tensor, _: Tensor) -> Tensor:
    """What the model returned."""
    return loss
