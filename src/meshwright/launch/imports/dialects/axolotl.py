"""axolotl: its YAML, with FSDP as accelerate runs it."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.adapters import adapter_settings
from meshwright.launch.imports.deepspeed_json import deepspeed_json
from meshwright.launch.imports.dialects.accelerate import with_engine
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, has
from meshwright.launch.spelling import Settings

_OF_ADAPTERS = ("adapter", "lora_r", "lora_alpha", "lora_target_linear", "lora_target_modules")


def _axolotl(known: Settings, notes: list[str]) -> Settings:
    """The settings with FSDP 1 as FSDP 2; raises `InvalidInput` where the stage of ZeRO stands in a file that is not
    there.
    """
    if known.get("deepspeed") and "zero_optimization.stage" not in known:
        raise InvalidInput(
            f"deepspeed names {known['deepspeed']}, which is neither beside the file nor at the root of its "
            "repository: put it there, or say its stage with --set zero_optimization.stage=..."
        )
    batch, micro_batch = known.get("batch_size"), known.get("micro_batch_size")
    if isinstance(batch, int) and isinstance(micro_batch, int) and micro_batch > 0:
        known = {"gradient_accumulation_steps": batch // micro_batch} | known
    known = {key.replace("fsdp_config.fsdp_", "fsdp_config."): value for key, value in known.items()}
    if known.get("fsdp_config.offload_params") is False:
        del known["fsdp_config.offload_params"]
    if known.get("fsdp_config.activation_checkpointing") is True:
        known["gradient_checkpointing"] = True
    if "fsdp_config.version" in known:
        known = {"fsdp_version": known["fsdp_config.version"]} | known
    if known.get("fsdp_version") == 2:
        known = {"fsdp_config.reshard_after_forward": True} | known
    sharded = "fsdp" in known or any(key.startswith("fsdp_config.") for key in known)
    if not sharded or "fsdp_version" in known:
        return known
    notes.append("FSDP without fsdp_version is FSDP 1, priced as FSDP 2")
    partly = str(known.get("fsdp_config.sharding_strategy", known.get("fsdp"))).upper()
    reshards = "SHARD_GRAD_OP" not in partly
    return known | {"fsdp_version": 2, "fsdp_config.reshard_after_forward": reshards}


def _adapted(known: Settings) -> Settings:
    """The settings with adapters as this package names them. Raises `InvalidInput` where their rank or modules are left
    out.

    Source: axolotl@067b021c8b87 src/axolotl/loaders/adapter.py (find_all_linear_names, all but the head).
    """
    if known.get("adapter") != "lora":
        return known
    everywhere, modules = known.get("lora_target_linear"), known.get("lora_target_modules")
    rank, named = known.get("lora_r"), "all" if everywhere else modules
    if not rank or not named:
        raise InvalidInput("adapter: lora needs lora_r, and lora_target_linear: true or lora_target_modules")
    own = {key: value for key, value in known.items() if key not in _OF_ADAPTERS}
    return own | adapter_settings(rank, named)


def _translated(spelled: Spelled) -> Settings:
    known = deepspeed_json(spelled.read) | _adapted(spelled.known)
    return with_engine(_axolotl(known, spelled.notes))


DIALECT = Dialect(
    name="axolotl",
    framework="axolotl",
    holds=has("base_model", "micro_batch_size"),
    translate=_translated,
)
