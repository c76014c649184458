"""Translation: a framework's settings into those of its table, where releases or several files spell them otherwise."""

from __future__ import annotations

import re

from meshwright.errors import InvalidInput, quoted
from meshwright.launch.imports.arguments import USUAL_TOKENIZER, modern_arguments
from meshwright.launch.imports.bridge import bridge_arguments
from meshwright.launch.imports.deepspeed import deepspeed_arguments, deepspeed_json, of_replicas
from meshwright.launch.imports.dialects import Dialect
from meshwright.launch.imports.mindspeed import megatron_arguments
from meshwright.launch.imports.nemo import NO_DROPOUT, is_recipe, nemo_arguments
from meshwright.launch.imports.recipe import modern_recipe
from meshwright.launch.imports.swift import swift_arguments
from meshwright.launch.imports.titan import modern_toml
from meshwright.launch.imports.trainer import plain_arguments, trainer_arguments
from meshwright.launch.imports.vocabulary import vocabulary_of
from meshwright.launch.imports.zero_bubble import with_schedule
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings
from meshwright.specs.model import MAX_SIZE

_STAGE = "zero_optimization.stage"
_OTHER_MODELS = re.compile(r"pretrain_(bert|t5|ict|retro|vision|vlm|mamba|hybrid|mimo|biencoder)\w*\.py$")
"""Programs of Megatron-LM that train models of other kinds with the same arguments."""
_NO_TRAINING = re.compile(
    r"[^/]*(ptq|quantiz|inference|generation|generate|server|convert|evaluate|preprocess)\w*\.py$"
)
"""Programs that take the same arguments and train nothing."""
_TASKS = re.compile(r"(?:^|/)(tasks/(?:\w+/)*main\.py)$")
"""Programs of Megatron-LM that evaluate a model, or tune it for a task."""


def translated(
    dialect: Dialect, read: LaunchSettings, known: Settings, notes: list[str], ranks: int | None
) -> Settings:
    """The settings as the table of the dialect spells them.

    ranks: of the cluster that was asked about; notes: what was taken to mean something is added. Raises `InvalidInput`
    for a program that trains models of another kind, or none.
    """
    _require_training(read)
    if dialect.name == "megatron-deepspeed":
        return modern_arguments(deepspeed_arguments(known, deepspeed_json(read), notes), notes)
    if dialect.name == "megatron-lm":
        return modern_arguments(megatron_arguments(known), notes)
    if dialect.name == "zero-bubble":
        return modern_arguments(with_schedule(known, notes), notes)
    if dialect.name == "ms-swift":
        return modern_arguments(swift_arguments(known), notes)
    if dialect.name in ("nemo", "megatron-bridge"):
        _require_whole(read)
    if dialect.name == "nemo":
        return modern_arguments((NO_DROPOUT if is_recipe(read) else {}) | nemo_arguments(known), notes)
    if dialect.name == "megatron-bridge":
        return modern_arguments(bridge_arguments(read, known, notes), notes)
    if dialect.name == "torchtitan":
        return modern_recipe(known, notes)
    if dialect.name == "llama-factory" and not {"deepspeed", "fsdp", _STAGE} & known.keys():
        notes.append(
            "no `deepspeed` file: the Trainer keeps whole states on every rank, ZeRO 0; where accelerate's FSDP starts "
            "it, --set zero_optimization.stage=3"
        )
        return {_STAGE: 0} | known
    if dialect.name == "torchtitan-toml":
        return modern_toml(known, notes)
    if dialect.name == "internevo":
        return _internevo(known, ranks)
    if dialect.name == "gpt-neox":
        return _neox(known, notes)
    if dialect.name == "axolotl":
        return _with_engine(_axolotl(deepspeed_json(read) | known, notes))
    if dialect.name == "accelerate":
        return _with_engine(_accelerate(deepspeed_json(read) | plain_arguments(read, known)))
    if dialect.name == "trainer":
        return trainer_arguments(read, known, deepspeed_json(read), notes)
    if dialect.name == "deepspeed":
        return of_replicas(known, notes)
    if dialect.name == "trl":
        return _trl(known, notes)
    if dialect.name == "llama-factory":
        return deepspeed_json(read) | known
    return known


def _require_training(read: LaunchSettings) -> None:
    """Raises `InvalidInput` where a script, or flags in YAML, name a program that trains other models, or none."""
    program = read.program if read.form in ("shell", "yaml") else ""
    if match := _NO_TRAINING.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[0]}, which trains nothing")
    if match := _TASKS.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[1]}, which evaluates a model or tunes it for a task")
    if match := _OTHER_MODELS.search(program):
        raise InvalidInput(f"{read.path!r} starts {match[0]}: its models are not modelled, decoders alone are")


def _require_whole(read: LaunchSettings) -> None:
    """Raises `InvalidInput` where a recipe trains adapters."""
    for each in read.settings:
        adapters = "peft" in each.key.split(".")[:-1] or each.key.rpartition(".")[2] in ("peft", "peft_scheme")
        if adapters and each.value not in (None, "None", "none", ""):
            raise InvalidInput(
                f"{read.path!r}, line {each.line}: {each.key} is of the training of adapters, not modelled"
            )


def _accelerate(known: Settings) -> Settings:
    """The settings with what accelerate's own section says of DeepSpeed, in DeepSpeed's words.

    Source: accelerate 1.15.0 utils/dataclasses.py, DeepSpeedPlugin.__post_init__ (stage 2 unless it is said) and
    FullyShardedDataParallelPlugin.__post_init__ (FSDP 2 reshards unless it is said).
    """
    settings = dict(known)
    if settings.pop("--gradient_checkpointing", False) is not False:
        settings["fsdp_config.fsdp_activation_checkpointing"] = True
    if known.get("fsdp_config.fsdp_version") == 2 and "fsdp_config.fsdp_sharding_strategy" not in known:
        settings.setdefault("fsdp_config.fsdp_reshard_after_forward", True)
    if known.get("distributed_type") != "DEEPSPEED" or "zero_optimization.stage" in known:
        return settings
    settings["zero_optimization.stage"] = known.get("deepspeed_config.zero_stage", 2)
    for what in ("optimizer", "param"):
        device = known.get(f"deepspeed_config.offload_{what}_device", "none")
        settings |= {} if device == "none" else {f"zero_optimization.offload_{what}.device": device}
    return settings


def _with_engine(settings: Settings) -> Settings:
    """The settings with the runtime of DeepSpeed, where they have its stage of ZeRO."""
    return settings | {"runtime.id": "deepspeed"} if "zero_optimization.stage" in settings else settings


def _trl(known: Settings, notes: list[str]) -> Settings:
    """The settings without switches that are off."""
    if not {"bf16", "fp16"} & known.keys():
        notes.append("neither bf16 nor fp16 stands in it: priced in bf16")
    return {key: value for key, value in known.items() if value is not False or key == "gradient_checkpointing"}


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


def _internevo(known: Settings, ranks: int | None) -> Settings:
    """Degrees by the mode of tensor parallelism, and the size of the gated block.

    Source: InternLM/InternEvo@c628a8c87411 configs/7B_isp_sft.py (modes) and internlm/model/modules/mlp.py (rounding).
    """
    settings = dict(known)
    size, mode = settings.get("parallel.tensor.size", 1), settings.get("parallel.tensor.mode", "mtp")
    settings |= (
        {"context": size, "tensor": 1} if mode == "isp" else {"tensor": size, "sequence": mode in ("msp", "fsp")}
    )
    shared = settings.get("parallel.weight.size", 1)
    if isinstance(shared, int) and shared > 1:
        settings |= {"zero": 3, "replicas": max((ranks or shared) // shared, 1)}
    hidden, ratio = settings.get("model.hidden_size"), settings.get("model.mlp_ratio")
    if isinstance(hidden, int) and isinstance(ratio, int | float):
        if max(abs(hidden), abs(ratio)) > MAX_SIZE:
            raise InvalidInput(f"hidden_size {quoted(hidden)} and mlp_ratio {quoted(ratio)} make no width of a layer")
        settings["ffn_size"] = 256 * -(-int(hidden * ratio) // 256)
    return settings


def _neox(known: Settings, notes: list[str]) -> Settings:
    """Keys with underscores, whatever the file has between their words, and the width of a gated block: two thirds of
    what the file says, in both matrices.

    Source: EleutherAI/gpt-neox@ea7aefd8f8e1 megatron/model/transformer.py, ParallelMLP.
    """
    settings = {key.replace("-", "_"): value for key, value in known.items()}
    for name in ("pipe_parallel_size", "model_parallel_size"):
        if settings.get(name) == 0:
            settings[name] = 1
    kinds = set(re.findall(r"[a-z_]+", str(settings.get("attention_config", ""))))
    if kinds <= {"flash", "global", "all"}:
        settings.pop("attention_config", None)
    for name in ("zero_optimization.cpu_offload", "use_bnb_optimizer", "fp32_allreduce"):
        if settings.get(name) is False:
            del settings[name]
    if settings.get("activation") in ("swiglu", "geglu"):
        width, multiple = _neox_width(settings), settings.get("mlp_multiple_of", 1)
        if width and isinstance(multiple, int) and multiple > 0:
            settings["intermediate_size"] = multiple * -(-(2 * width // 3 // 2) // multiple)
    named = [str(settings[key]) for key in ("vocab_file", "tokenizer_type") if key in settings]
    found = vocabulary_of(named or [USUAL_TOKENIZER])
    if found and "padded_vocab_size" not in settings:
        settings["padded_vocab_size"] = found[0]
        named_by = "which the file names" if named else "the default of GPT-NeoX"
        notes.append(f"vocabulary: {found[0]} entries, of {found[1]}, {named_by}")
    return settings


def _neox_width(settings: Settings) -> int | None:
    """The width that GPT-NeoX starts from: what the file says, else a multiple of the hidden size."""
    given, hidden = settings.get("intermediate_size"), settings.get("hidden_size")
    if given is not None:
        return given if isinstance(given, int) else None
    factor = settings.get("expansion_factor", 4)
    if isinstance(hidden, int) and isinstance(factor, int | float) and 0 < factor < 1000:
        return int(factor * hidden)
    return None
