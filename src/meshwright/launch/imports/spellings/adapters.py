"""Adapters: what launch files of fine-tuning say of low-rank adapters (LoRA), put into the settings of their table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from meshwright.errors import InvalidInput, any_of
from meshwright.launch.forms import Fields
from meshwright.launch.spelling import Settings
from meshwright.layout.plan import Plan
from meshwright.specs.adapters import runtimes_with_adapters
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import parse_modules
from meshwright.specs.model import Model
from meshwright.text_files import packaged_table

RANK, MODULES = "job.lora_rank", "job.lora_modules"


@dataclass(frozen=True, kw_only=True)
class LoraOptions:
    """The options of a framework for adapters."""

    rank: tuple[str, ...]
    """Spellings of it; the first is said to users."""
    modules: tuple[str, ...]
    dropout: str
    own: tuple[str, ...]
    """How the names of options begin that mean nothing where all weights are trained."""
    usual: Settings = field(default_factory=dict)
    """Values of options that are left out."""
    left_to_peft: bool = False
    """Modules that are left out are those that peft has for the model."""


def priced() -> str:
    """As which runtimes adapters are priced, in words.

    >>> priced()
    'adapters are priced as accelerate, deepspeed, megatron-bridge or pytorch-ddp runs them'
    """
    return f"adapters are priced as {any_of(runtimes_with_adapters())} runs them"


def lora_settings(settings: Settings, options: LoraOptions, *, trained: bool) -> Settings:
    """The settings with the modules that have adapters as peft calls them; without options that mean nothing where none
    is trained.

    Raises `InvalidInput` where rank or modules are left out and the framework has no value of its own, and for modules
    whose adapters are not priced.
    """
    if not trained and not settings.get(RANK):
        return {key: value for key, value in settings.items() if not key.startswith(options.own)}
    said = options.usual | settings
    rank = next((said[key] for key in (*options.rank, RANK) if said.get(key)), None)
    if rank is None:
        raise InvalidInput(_left_out(options.rank[0], RANK, "16"))
    key = next((key for key in (*options.modules, MODULES) if said.get(key)), None)
    if key is None and not options.left_to_peft:
        raise InvalidInput(_left_out(options.modules[0], MODULES, "q_proj,v_proj"))
    said |= {} if key is None else {key: _modules(key, said[key])}
    if _is_nothing(said.get(options.dropout)):
        said.pop(options.dropout, None)
    return said


def with_usual_modules(fields: Fields, model: Model | None) -> tuple[Fields, list[str]]:
    """The fields with the modules that peft has for a model, where adapters are trained and nothing names theirs; and
    what is wrong where it has none.
    """
    if not fields.get(RANK) or fields.get(MODULES) is not None or model is None:
        return fields, []
    usual = _usual_modules().get(model.family)
    if usual is None:
        left = _left_out("lora_target_modules", MODULES, "q_proj,v_proj")
        return fields, [f"{left}; peft has none of its own for {model.name} ({model.family})"]
    return fields | {MODULES: tuple(usual)}, []


def units_of_trainer(plan: Plan, inputs: Inputs, settings: Settings) -> list[str]:
    """That the Trainer gathers the whole model at once where FSDP shards frozen weights, which no price has; nothing of
    the training script of `launch`, whose settings are called as the fields.

    Source: transformers 5.23 trainer.py L1753, peft 0.21.2 utils/other.py (fsdp_auto_wrap_policy), accelerate 1.15.0
    utils/fsdp_utils.py L936-970.
    """
    by_fsdp = plan.zero > 0 and inputs.runtime.sharding.shards_rows
    if not inputs.job.lora_rank or not by_fsdp or RANK in settings:
        return []
    return [
        "priced with each layer as one unit of FSDP 2; beside adapters the Trainer of transformers 5.23 makes the "
        "whole model one, which every rank then gathers whole: more memory and less overlap than told here"
    ]


def _left_out(key: str, name: str, example: str) -> str:
    return f"{key} is left out, and adapters are trained: --set {name}={example}, or what the program takes"


def _modules(key: str, value: object) -> list[str | int | float | bool | None]:
    """Names of modules, of a list or a text; raises `InvalidInput` with the setting for one without a price."""
    words = value if isinstance(value, list) else re.split(r"[,\s]+", str(value).strip("[]() "))
    names = [str(word).strip("'\"") for word in words if str(word)]
    try:
        return [*parse_modules(",".join(names))]
    except InvalidInput as error:
        raise InvalidInput(f"{key}: {error}") from None


def _is_nothing(value: object) -> bool:
    """Whether a dropout is 0, or is not there."""
    try:
        return value is None or float(str(value)) == 0
    except ValueError:
        return False


@cache
def _usual_modules() -> dict[str, list[str]]:
    table: dict[str, list[str]] = packaged_table("meshwright.launch.imports.spellings", "adapters.toml")["modules"]
    return table
