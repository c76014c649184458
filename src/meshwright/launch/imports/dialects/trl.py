"""TRL: its YAML of a Trainer's arguments, as that of its kin."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.dialects import llama_factory
from meshwright.launch.imports.dialects.dialect import OF_A_TRAINER, Dialect, Spelled, has
from meshwright.launch.imports.dialects.engines import WEIGHTS, with_engine
from meshwright.launch.imports.spellings.adapters import LoraOptions, lora_settings
from meshwright.launch.imports.spellings.liger import require_one_loss
from meshwright.launch.imports.spellings.optimizers import with_optimizer
from meshwright.launch.imports.spellings.packed import PackedOptions, packed_settings
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_LORA = LoraOptions(
    rank=("lora_r",),
    modules=("lora_target_modules",),
    dropout="lora_dropout",
    own=("lora_", "use_rslora", "use_dora"),
    usual={"lora_r": 16, "lora_dropout": 0.05},
    left_to_peft=True,
)
_PACKED = PackedOptions(
    asked={"load_in_4bit": ("true",)},
    form="bnb_4bit_quant_type",
    nested=("use_bnb_nested_quant", False),
    stored="bnb_4bit_quant_storage",
)
_HALF = ("bfloat16", "auto")


def _weights(known: Settings, *, frozen: bool) -> Settings:
    """That weights are in bf16, where they are loaded so; raises `InvalidInput` for frozen ones that are not.

    Source: huggingface/trl@f2cd57710 trl/scripts/sft.py L73-79, and trl/trainer/utils.py L1144 (float32 unless dtype
    says otherwise); the Trainer casts none.
    """
    dtype = known.get("dtype", known.get("torch_dtype", "float32"))
    if frozen and str(dtype) not in _HALF:
        said = next((name for name in ("dtype", "torch_dtype") if name in known), "")
        what = f"{said} {dtype}" if said else "dtype is left out, which is float32 in TRL"
        raise InvalidInput(f"{what}: adapters are priced beside weights in bf16, which dtype: bfloat16 says")
    return WEIGHTS if str(dtype) in _HALF else {}


def _translated(spelled: Spelled) -> Settings:
    """The settings with what shards states and the adapters that are trained, and without switches that are off; where
    the file does not say what starts it, that may shard as well.

    Source: huggingface/trl@f2cd57710 trl/trainer/model_config.py L156-171 and utils.py L236-242 (packed weights).
    """
    known = with_optimizer(spelled.known, "optim", spelled.notes)
    known = with_engine(known, spelled, replicated=bool(spelled.read.program))
    require_one_loss(known, "liger_kernel_config")
    trained = known.get("use_peft") is True
    known = packed_settings(lora_settings(known, _LORA, trained=trained), _PACKED, spelled.notes)
    known |= _weights(known, frozen=trained)
    if not {"bf16", "fp16"} & known.keys():
        spelled.notes.append("neither bf16 nor fp16 stands in it: priced in bf16")
    return {
        key: value
        for key, value in known.items()
        if value is not False or key == "gradient_checkpointing" or "." in key
    }


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of the Trainer's arguments alone, as TRL's scripts and those of its kin take them."""
    return has(*OF_A_TRAINER)(settings, keys) and not llama_factory.DIALECT.holds(settings, keys)


DIALECT = Dialect(
    name="trl",
    framework="TRL",
    holds=_holds,
    translate=_translated,
)
