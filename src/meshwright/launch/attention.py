"""Attention: which implementations transformers has for a model, and whether a launch runs the one that is priced."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import ClassVar, Literal

from meshwright.errors import Fault
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model

FILE = resources.files("meshwright.launch") / "transformers.toml"
KERNEL = "runtime.attention_kernel"
NATIVE = "native"
WORDS = {
    "sdpa": "PyTorch's scaled_dot_product_attention",
    "flash_attention_2": "FlashAttention-2",
    "flex_attention": "FlexAttention",
    "eager": "eager attention",
}
"""What the implementations are called."""


class Transformers(Spec):
    """The classes of one release of transformers."""

    called: ClassVar[str] = "the table of transformers"

    release: str
    source: str
    attention: dict[str, tuple[str, ...]]
    """Implementations that a class can be trained with, by its `model_type`."""


@cache
def transformers() -> Transformers:
    """The classes of the release that the scripts of launch folders are written for."""
    return Transformers(**tomllib.loads(FILE.read_text("utf-8")))


def attention_faults(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[Fault]:
    """Why a script of transformers would not run the attention that a plan is priced with, and what it would run.

    Returns nothing for a framework whose script does not make its models with transformers.
    """
    if not table.context_attention:
        return []
    model, release = inputs.model, transformers().release
    if model.family not in (NATIVE, *transformers().attention):
        what = f"{release} has no language model of the type {model.family}; add --to megatron-lm --nearest"
        return [Fault("model", what)]
    kernel, spelled = inputs.runtime.kernels.attention_kernel, table.rows[KERNEL].values
    if kernel not in spelled:
        return [Fault("runtime", f"it has no setting for the attention kernel {kernel}{_hint(plan, model, table)}")]
    priced = f"this plan is priced with {WORDS[str(spelled[kernel])]}"
    if spelled[kernel] not in _implementations(model):
        what = f"{priced}, with which {release} cannot train {model.name}{_hint(plan, model, table)}"
        return [Fault("attention", what)]
    if plan.cp > 1 and kernel not in _within_context(model, table):
        has = f" of models with {kind}" if (kind := _special(model)) != "plain" else ""
        what = f"{priced}, which context parallelism of {table.framework} cannot split{has}; plan with --cp 1"
        return [Fault("attention", what)]
    return []


def splits_attention(plan: Plan, inputs: Inputs, table: LaunchTable) -> bool:
    """Whether the framework's script can run the plan's attention with its context-parallel degree."""
    if plan.cp == 1 or not table.context_attention:
        return True
    return inputs.runtime.kernels.attention_kernel in _within_context(inputs.model, table)


def windows_as_masks(inputs: Inputs, table: LaunchTable) -> bool:
    """Whether a script gives attention windows to PyTorch as masks, so that windowed layers compute every pair."""
    spelled = table.rows[KERNEL].values if KERNEL in table.rows else {}
    windows = [kind.attention.window for kind in inputs.model.layer_kinds if kind.attention.window is not None]
    shorter = any(window < inputs.job.sequence_length for window in windows)
    return shorter and spelled.get(inputs.runtime.kernels.attention_kernel) == "sdpa"


def _hint(plan: Plan, model: Model, table: LaunchTable) -> str:
    """The kernels that the script can run, as options."""
    within = _within_context(model, table) if plan.cp > 1 else tuple(table.rows[KERNEL].values)
    has = [name for name, spelled in table.rows[KERNEL].values.items() if spelled in _implementations(model)]
    known = [name for name in has if name in within] or has
    fused = [name for name in known if name != "eager"] or known
    return f"; plan with {' or '.join(f'--with attention_kernel={name}' for name in fused)}"


def _implementations(model: Model) -> tuple[str, ...]:
    """Those that the model's class has; of a model in Meshwright's own form, those of the class that it must be."""
    if model.family != NATIVE:
        return transformers().attention[model.family]
    return transformers().attention["gpt_oss" if _special(model) == "sinks" else "llama"]


def _within_context(model: Model, table: LaunchTable) -> tuple[str, ...]:
    return table.context_attention[_special(model)]


def _special(model: Model) -> Literal["plain", "windows", "sinks"]:
    """What attention of a model has beside the causal mask."""
    kinds = [kind.attention for kind in model.layer_kinds]
    if any(kind.sinks for kind in kinds):
        return "sinks"
    return "windows" if any(kind.window is not None for kind in kinds) else "plain"
