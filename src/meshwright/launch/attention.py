"""Attention: which implementations transformers has for a model, and whether a launch runs the one that is priced."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Literal

from meshwright.errors import Fault
from meshwright.launch.forms import Fields
from meshwright.launch.registry import NATIVE
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.base import Spec
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.text_files import packaged_table

KERNEL = "runtime.attention_kernel"
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
    return Transformers(**packaged_table("meshwright.launch", "transformers.toml"))


def attention_faults(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[Fault]:
    """Why a script of transformers would not run the attention that a plan is priced with, and what it would run.

    Returns nothing for a framework whose script does not make its models with transformers.
    """
    if not table.context_attention:
        return []
    model, release = inputs.model, transformers().release
    if model.family not in (NATIVE, *transformers().attention):
        return [Fault("model", f"{release} has no language model of the type {model.family}")]
    kernel, spelled = inputs.attention_kernel, table.rows[KERNEL].values
    if kernel not in spelled:
        return [Fault("runtime", f"it has no setting for the attention kernel {kernel} (it has {', '.join(spelled)})")]
    priced = f"this plan is priced with {WORDS[str(spelled[kernel])]}"
    if kernel not in _kernels(model, table):
        known = ", ".join(WORDS[each] for each in _implementations(model))
        return [Fault("attention", f"{priced}, with which {release} cannot train {model.name} (it has {known})")]
    if not splits_attention(plan, inputs, table):
        kind = "" if _special(inputs) == "plain" else f" of models with {_special(inputs)}"
        return [Fault("attention", f"{priced}, which context parallelism of {table.framework} cannot split{kind}")]
    return []


def attention_changes(plan: Plan, inputs: Inputs, table: LaunchTable) -> Fields:
    """The values of fields with which a script of transformers would run the attention of a plan; none where it does,
    or where nothing helps.
    """
    faults, kernel = attention_faults(plan, inputs, table), inputs.attention_kernel
    if not faults or faults[0].where == "model":
        return {}
    known = _kernels(inputs.model, table)
    if kernel in known:
        return {"plan.cp": 1}
    split = [each for each in known if plan.cp == 1 or each in _within_context(inputs, table)]
    return {KERNEL: (split or known)[0]} | ({} if split else {"plan.cp": 1})


def splits_attention(plan: Plan, inputs: Inputs, table: LaunchTable) -> bool:
    """Whether the framework's script can run the plan's attention with its context-parallel degree."""
    if plan.cp == 1 or not table.context_attention:
        return True
    return inputs.attention_kernel in _within_context(inputs, table)


def windows_as_masks(inputs: Inputs, table: LaunchTable) -> bool:
    """Whether a script gives attention windows to PyTorch as masks, so that windowed layers compute every pair.

    Source: transformers 5.23.0 masking_utils.py L301, _ignore_causal_mask_sdpa: also one as long as the sequence.
    """
    spelled = table.rows[KERNEL].values if KERNEL in table.rows else {}
    windows = [kind.attention.window for kind in inputs.model.layer_kinds if kind.attention.window is not None]
    masked = any(window <= inputs.job.sequence_length for window in windows)
    return masked and spelled.get(inputs.attention_kernel) == "sdpa"


def _kernels(model: Model, table: LaunchTable) -> list[str]:
    """Attention kernels that the script can run for a model, the fastest first."""
    return [name for name, spelled in table.rows[KERNEL].values.items() if spelled in _implementations(model)]


def _implementations(model: Model) -> tuple[str, ...]:
    """Those that the model's class has; of a model in Meshwright's own form, those of the class that it must be."""
    if model.family != NATIVE:
        return transformers().attention[model.family]
    alike = "gpt_oss" if _has_sinks(model) else "gemma2" if model.modifies_scores else "llama"
    return transformers().attention[alike]


def _within_context(inputs: Inputs, table: LaunchTable) -> tuple[str, ...]:
    return table.context_attention[_special(inputs)]


def _special(inputs: Inputs) -> Literal["plain", "windows", "sinks"]:
    """What attention of a model has beside the causal mask, over the job's sequences."""
    if _has_sinks(inputs.model):
        return "sinks"
    sequence, kinds = inputs.job.sequence_length, inputs.model.layer_kinds
    return "windows" if any(kind.attention.window_over(sequence) for kind in kinds) else "plain"


def _has_sinks(model: Model) -> bool:
    return any(kind.attention.sinks for kind in model.layer_kinds)
