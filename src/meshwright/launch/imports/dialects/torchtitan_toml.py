"""torchtitan up to 0.2: its TOML, and the Python that followed until 0.3, as the settings of today's configurations."""

from __future__ import annotations

from dataclasses import replace

from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, has
from meshwright.launch.imports.dialects.torchtitan import (
    QUANTISED_ALONE,
    is_older,
    price_most,
    with_compilation,
    with_objects,
)
from meshwright.launch.imports.files.functions import without_objects
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_OLDER_SECTIONS = ("training", "experimental")
"""Where degrees and schedules stood until 2025."""
_PARTS = "parallelism.pipeline_parallel_microbatches"
_SWITCHES = (
    "parallelism.pipeline_parallel_schedule_csv",
    "optimizer.early_step_in_backward",
    "parallelism.enable_async_tensor_parallel",
)
"""Ones that mean nothing where they are off, or empty."""
_ADAM = ("Adam", "AdamW")
_EXPERTS_TOO = ("float8.moe_fqns_prototype", "mx.moe_fqns_prototype")
"""With which a converter of 2025-09 took experts beside linear layers (08b8b244f components/quantization)."""
_ATTENTION = ("flex", "varlen")
"""How names of flavours end whose attention is another: `8B_varlen` (v0.2.2 models/llama3/__init__.py L60-79)."""


def _as_toml(read: LaunchSettings) -> LaunchSettings:
    """The settings of a file in Python under the keys of the TOML, with its model and what quantises it by name.

    Source: pytorch/torchtitan of 2026-03 to 2026-06 (fa8e6ccc9, 0610235bb, a2a0d99e3, 78fc8ae32)
    torchtitan/config/configs.py: its classes have the fields that job_config.py of 0.2.2 has, and no others.
    """
    if read.form != "python":
        return without_objects(read)
    named = with_objects(read)
    renamed = {"model_spec.converters": "model.converters"}
    kept = (each for each in named.settings if each.key != "activation_checkpoint" and ".converters." not in each.key)
    return replace(named, settings=tuple(replace(each, key=renamed.get(each.key, each.key)) for each in kept))


def _modern_toml(settings: Settings, notes: list[str], usual_option: str = "2") -> Settings:
    """The settings as torchtitan 0.3 has them; notes: what was taken to mean something is added.

    usual_option: of selective recomputation, where the file names none.

    Source: pytorch/torchtitan v0.1.0 and v0.2.2 torchtitan/config/job_config.py; of December 2024,
    d67f7f9fa torchtitan/config_manager.py.
    """
    modern = _regrouped(settings)
    name, flavor = modern.pop("model.name", None), modern.pop("model.flavor", None)
    size, _, attention = str(flavor).rpartition("_")
    if attention in _ATTENTION:
        flavor, modern["model_spec.attn_backend"] = size, attention
        notes.append(f"{attention} attention works within the documents of a sequence: --document-length prices that")
    if name and flavor:
        modern["model_spec"] = f"{name} {flavor}"
    converters = modern.pop("model.converters", None)
    if isinstance(converters, str):
        modern["model.converters"] = converters
    quantised = [str(each) for each in converters] if isinstance(converters, list) else []
    recipe = str(modern.get("float8.recipe_name", modern.get("quantize.linear.float8.recipe_name", "tensorwise")))
    if any("float8" in each for each in quantised) or modern.pop("float8.enable_float8_linear", False) is True:
        modern["model.converters"] = f"float8 {recipe}"
    elif any("mx" in each for each in quantised):
        modern["model.converters"] = "mxfp8"
    of_experts = {".grouped_mm." in each or ".moe." in each for each in quantised}
    if len(of_experts) == 1 and not any(modern.get(key) for key in _EXPERTS_TOO):
        modern[QUANTISED_ALONE] = "experts" if True in of_experts else "linear"
    price_most(modern, "model.converters", notes)
    mode = modern.get("activation_checkpoint.mode", "selective")
    if mode == "selective" and str(modern.pop("activation_checkpoint.selective_ac_option", usual_option)) != "op":
        notes.append("selective recomputation of every n-th layer is priced as that of operators")
    if "training.batch_size" in modern:
        modern.setdefault("training.local_batch_size", modern.pop("training.batch_size"))
    if "training.compile" in modern:
        modern["compile.enable"] = modern.pop("training.compile")
    modern = with_compilation(modern, notes)
    batch, parts = (modern.get(name) for name in ("training.local_batch_size", _PARTS))
    if isinstance(batch, int) and isinstance(parts, int) and parts > 0:
        modern["parallelism.pipeline_parallel_microbatch_size"] = max(batch // parts, 1)
        del modern[_PARTS]
    if modern.get("optimizer.name") in _ADAM:
        del modern["optimizer.name"]
    return {key: value for key, value in modern.items() if key not in _SWITCHES or value not in (False, "")}


def _regrouped(settings: Settings) -> Settings:
    """The settings with degrees, schedule and quantisation in the sections that 0.1 gave them."""
    modern = dict(settings)
    for key in settings:
        section, _, name = key.partition(".")
        if section in _OLDER_SECTIONS and (name.endswith("_degree") or name.startswith("pipeline_parallel_")):
            today = {"data_parallel_degree": "data_parallel_shard_degree"}.get(name, name)
            modern.setdefault(f"parallelism.{today}", modern.pop(key))
    if "training.enable_float8_linear" in modern:
        modern.setdefault("float8.enable_float8_linear", modern.pop("training.enable_float8_linear"))
    return modern


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    return is_older(settings) or (settings.form == "toml" and has("training", "model")(settings, keys))


def _translated(spelled: Spelled) -> Settings:
    # In Python the option went away with pull request 2357 of 2026-05, which left that of operators.
    return _modern_toml(spelled.known, spelled.notes, "op" if spelled.read.form == "python" else "2")


DIALECT = Dialect(
    name="torchtitan-toml",
    framework="torchtitan before 0.3",
    holds=_holds,
    objects=_as_toml,
    translate=_translated,
)
