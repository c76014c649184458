"""Frameworks: whose own model and wrapping verify runs, where it is installed; else the trainer's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from meshwright.cost.shard import vocabulary_shard
from meshwright.layout.plan import Plan
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind, Model

TORCHTITAN, TRANSFORMERS, PEFT = "torchtitan", "transformers", "peft"
SUPPORTED, SUPPORTED_TRANSFORMERS, SUPPORTED_PEFT = "0.3", "5.23", "0.21"
"""Releases that the builds were made with."""


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class Versions(NamedTuple):
    """Of the frameworks whose own models can be run, where they are installed."""

    torchtitan: str | None = None
    transformers: str | None = None
    peft: str | None = None


INSTALLED = Versions(_installed(TORCHTITAN), _installed(TRANSFORMERS), _installed(PEFT))
NONE = Versions()


def own_framework(plan: Plan, inputs: Inputs, versions: Versions) -> tuple[str, str]:
    """Whose own model and wrapping is run, by name and version, or nothing; and then why not, or nothing."""
    runtime = inputs.runtime
    if runtime.id == TORCHTITAN:
        reason = next(_reasons(plan, inputs, versions.torchtitan), "")
        return ("", reason) if reason else (f"{TORCHTITAN} {versions.torchtitan}", "")
    if runtime.elementwise_bytes.rms_norm_kept:
        reason = next(_transformers_reasons(plan, inputs, versions), "")
        return ("", reason) if reason else (f"{TRANSFORMERS} {versions.transformers}", "")
    return "", ""


def _version_reasons(name: str, version: str | None, supported: str) -> Iterator[str]:
    """Why no model of a framework is run, whatever the plan; version: that is installed."""
    if version is None:
        yield f"{name} is not installed"
    elif not version.startswith(f"{supported}."):
        yield f"{name} {version} is installed; its own is run from {supported}"


def _transformers_reasons(plan: Plan, inputs: Inputs, versions: Versions) -> Iterator[str]:
    """Why transformers' own model is not run, or peft's adapters in it."""
    model = inputs.model
    yield from _version_reasons(TRANSFORMERS, versions.transformers, SUPPORTED_TRANSFORMERS)
    if inputs.freezes_weights:
        yield from _version_reasons(PEFT, versions.peft, SUPPORTED_PEFT)
    if plan.tp * plan.cp > 1:
        yield "transformers' own is run with data parallelism alone"
    if plan.recompute not in (Recompute.NONE, Recompute.FULL) or plan.recompute_layers:
        yield "transformers computes whole layers again, and all of them"
    if model.is_moe and (inputs.runtime.storage.autocast or inputs.recipe.half != "bf16"):
        yield "transformers' own experts are run in bf16, and not under autocast"
    plain_head = not (model.head_bias or model.head_softcap)
    if not plain_head or len(model.layer_kinds) > 1 or not (is_gpt2(model) or _has_llama_layers(model)):
        yield "transformers' own is run for Llama, Qwen2, Qwen3, Mixtral and GPT-2"


def is_gpt2(model: Model) -> bool:
    """Whether a model is GPT-2: learned positions, layer norms, biases everywhere, one product to queries, keys and
    values, and the GELU that is written out.
    """
    (kind, *others), attention = model.layer_kinds, model.layer_kinds[0].attention
    biases = attention.qkv_bias and attention.output_bias and kind.feed_forward.bias
    apart = others or kind.parallel_residual or attention.qk_norm != "none" or attention.kv_heads != attention.heads
    plain = not kind.is_moe and not kind.feed_forward.gated and kind.feed_forward.activation == "gelu_new"
    shape = model.norm == "layer" and model.learned_positions > 0 and attention.fused_qkv
    return shape and biases and plain and not apart


def _has_llama_layers(model: Model) -> bool:
    """Whether the layers are those of Llama, Qwen2, Qwen3 or Mixtral: gated by silu, with RMS norms and rotary
    positions; biases, if any, on queries, keys and values of dense layers.
    """
    kind = model.layer_kinds[0]
    attention, block = kind.attention, kind.feed_forward
    if model.norm != "rms" or model.learned_positions:
        return False
    if not (block.gated and block.activation == "silu" and not block.bias) or attention.output_bias:
        return False
    return not (attention.qkv_bias and (kind.is_moe or attention.qk_norm != "none"))


def _reasons(plan: Plan, inputs: Inputs, version: str | None) -> Iterator[str]:
    """Why torchtitan's own model is not run."""
    model = inputs.model
    yield from _version_reasons(TORCHTITAN, version, SUPPORTED)
    if plan.recompute == Recompute.SELECTIVE and not inputs.runtime.activations.keeps_attention_output:
        yield "torchtitan recomputes every second product, and keeps what attention puts out"
    if plan.pp > 1 and plan.tp > 1 and not inputs.runtime.pipeline.receives_dtensors:
        yield "torchtitan makes a DTensor of what a stage of tensor-parallel ranks has received"
    if inputs.recipe.half != "bf16":
        yield f"torchtitan trains in bf16, not {inputs.recipe.half}"
    if model.head_bias or not all(_is_like(kind) for kind in model.layer_kinds):
        yield "torchtitan's own is run for Llama and Qwen3, dense or with experts"
    elif int(vocabulary_shard(plan, inputs)) * plan.tp != model.vocab_size:
        yield f"torchtitan's own is run where tp {plan.tp} divides the vocabulary of {model.vocab_size}"


def _is_like(kind: LayerKind) -> bool:
    """Whether a layer is one of Llama or Qwen3: gated by silu, without biases."""
    attention, block = kind.attention, kind.feed_forward
    biases = attention.qkv_bias or attention.output_bias or block.bias
    return block.gated and block.activation == "silu" and not biases
