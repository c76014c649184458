"""Frameworks: whose own model and wrapping verify runs, where it is installed; else the trainer's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from meshwright.cost.shard import vocabulary_shard
from meshwright.layout.plan import ContextExchange, Plan, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind

TORCHTITAN = "torchtitan"
SUPPORTED = "0.3"
"""Releases of torchtitan that the build was made with."""


def _installed() -> str | None:
    try:
        return metadata.version(TORCHTITAN)
    except metadata.PackageNotFoundError:
        return None


INSTALLED = _installed()
"""The version of torchtitan, where it is installed."""


def own_framework(plan: Plan, inputs: Inputs, version: str | None) -> tuple[str, str]:
    """Whose own model and wrapping is run, by name and version, or nothing; and then why not, or nothing.

    version: of torchtitan, where it is installed.
    """
    if inputs.runtime.id != TORCHTITAN:
        return "", ""
    reason = next(_reasons(plan, inputs, version), "")
    return ("", reason) if reason else (f"{TORCHTITAN} {version}", "")


def _reasons(plan: Plan, inputs: Inputs, version: str | None) -> Iterator[str]:
    """Why torchtitan's own model is not run."""
    model = inputs.model
    if version is None:
        yield "torchtitan is not installed"
    elif not version.startswith(f"{SUPPORTED}."):
        yield f"torchtitan {version} is installed; its own is run from {SUPPORTED}"
    if plan.cp > 1 and plan.context_exchange != ContextExchange.ALL_GATHER:
        yield "torchtitan 0.3 has no ring: its attention gathers keys and values; use --context-exchange all_gather"
    if plan.recompute == Recompute.SELECTIVE and inputs.runtime.activations.selective_recompute == "attention_core":
        yield "torchtitan has no recomputation of the attention core alone"
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
