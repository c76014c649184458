"""axolotl: its YAML, with FSDP as accelerate runs it."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, has
from meshwright.launch.imports.dialects.engines import STAGE, WEIGHTS, under_deepspeed
from meshwright.launch.imports.spellings.adapters import LoraOptions, lora_settings, priced
from meshwright.launch.imports.spellings.deepspeed_json import deepspeed_json
from meshwright.launch.imports.spellings.optimizers import with_optimizer
from meshwright.launch.imports.spellings.packed import PackedOptions, packed_settings
from meshwright.launch.spelling import Settings

_LORA = LoraOptions(
    rank=("lora_r",), modules=("lora_target_modules",), dropout="lora_dropout", own=("lora_", "loraplus_", "peft_")
)
_PACKED = PackedOptions(
    asked={"load_in_4bit": ("true",)},
    form="bnb_config_kwargs.bnb_4bit_quant_type",
    nested=("bnb_config_kwargs.bnb_4bit_use_double_quant", True),
)
_ELEMENTWISE = ("liger_rms_norm", "liger_rope")
"""What switches kernels of Liger that are priced together."""
_SWITCHES = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Of attention, of which the first holds."""
_KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")


def _adapted(known: Settings, notes: list[str]) -> Settings:
    """The settings with the adapters that are trained; raises `InvalidInput` for others than LoRA.

    Source: axolotl-ai-cloud/axolotl@067b021c8b87 src/axolotl/utils/schemas/config.py L1973-1995 (kernels of adapters
    are on where no option says otherwise); loaders/model.py, the options of BitsAndBytesConfig of qlora.
    """
    settings = dict(known)
    adapter = settings.pop("adapter", None)
    if adapter not in (None, False, "", "lora", "qlora"):
        raise InvalidInput(f"adapter {adapter}: {priced()}, lora and qlora; others are not modelled")
    if adapter == "qlora":
        settings = packed_settings({"load_in_4bit": True} | settings, _PACKED, notes)
    if settings.get("lora_target_linear") is True:
        settings["lora_target_modules"] = "all-linear"
    settings = lora_settings(settings, _LORA, trained=bool(adapter))
    if adapter and any(settings.get(name) is None for name in _KERNELS):
        notes.append(
            f"axolotl switches kernels of its own for adapters on unless {', '.join(_KERNELS)} are false; not priced"
        )
    return settings


def _with_plugins(known: Settings, notes: list[str]) -> Settings:
    """The settings without those of Liger where no plugin reads them; notes: what is priced without is added.

    Source: axolotl-ai-cloud/axolotl@067b021c8b87 src/axolotl/integrations/liger/args.py and plugin.py.
    """
    of_liger = [key for key in known if key.startswith("liger_")]
    if not of_liger or "LigerPlugin" in str(known.get("plugins")):
        alone = [key for key in _ELEMENTWISE if known.get(key) is True]
        if len(alone) == 1:
            others = ", ".join(key for key in _ELEMENTWISE if key not in alone)
            notes.append(f"{alone[0]} without {others}: norms and rotary positions are priced without Liger")
        return known
    notes.append(f"{', '.join(of_liger)}: nothing reads them without axolotl.integrations.liger.LigerPlugin in plugins")
    return {key: value for key, value in known.items() if key not in of_liger}


def _axolotl(known: Settings, notes: list[str]) -> Settings:
    """The settings with FSDP 1 as FSDP 2; raises `InvalidInput` where the stage of ZeRO stands in a file that is not
    there.
    """
    if known.get("deepspeed") and STAGE not in known:
        raise InvalidInput(
            f"deepspeed names {known['deepspeed']}, which is neither beside the file nor at the root of its "
            f"repository: put it there, or say its stage with --set {STAGE}=..."
        )
    batch, micro_batch = known.get("batch_size"), known.get("micro_batch_size")
    if isinstance(batch, int) and isinstance(micro_batch, int) and micro_batch > 0:
        known = {"gradient_accumulation_steps": batch // micro_batch} | known
    known = _with_plugins(_adapted(known, notes), notes)
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


def _translated(spelled: Spelled) -> Settings:
    """The settings with what shards states, and weights in bf16 as they are loaded.

    Source: axolotl-ai-cloud/axolotl@067b021c8b87 src/axolotl/utils: schemas/config.py L559 (bf16 unless it is said),
    config/__init__.py L190-195 and ../loaders/model.py L611 (weights in bf16 with bf16), L422-478 (norms, embedding and
    head in fp32, and back where attention needs it).
    """
    said = _with_attention(spelled.known)
    said = said if {"fp16", "fp8"} & said.keys() else {"bf16": "auto"} | said
    known = with_optimizer(said, "optimizer", spelled.notes)
    settings = under_deepspeed(_axolotl(deepspeed_json(spelled.read) | known, spelled.notes)) | WEIGHTS
    whole = STAGE not in settings and not any(key.startswith("fsdp") for key in settings)
    wide = str(settings.get("attn_implementation", "sdpa")) in ("sdpa", "eager")
    if whole and wide and not settings.get("lora_r"):
        spelled.notes.append(
            "axolotl keeps norms, embedding and head in fp32 unless attn_implementation is flash_attention_2 or "
            "flex_attention; they are priced in bf16, 8 bytes a parameter less, and so is what stands between layers"
        )
    return settings


def _with_attention(known: Settings) -> Settings:
    """The settings with the attention that switches of earlier releases name.

    Source: axolotl-ai-cloud/axolotl@067b021c8b87 src/axolotl/utils/schemas/enums.py L118-125.
    """
    named = next((name for switch, name in _SWITCHES.items() if known.get(switch) is True), None)
    settings = {key: value for key, value in known.items() if key not in _SWITCHES}
    return settings if named is None else {"attn_implementation": named} | settings


DIALECT = Dialect(
    name="axolotl",
    framework="axolotl",
    holds=has("base_model", "micro_batch_size"),
    translate=_translated,
)
