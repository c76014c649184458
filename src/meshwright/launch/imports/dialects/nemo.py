"""NeMo: recipes of NeMo 2 in Python, with the classes that they configure, as keys of NeMo 1."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from meshwright.launch.imports.arguments import modern_arguments
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled
from meshwright.launch.imports.functions import without_objects
from meshwright.launch.imports.training import require_whole
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.launch.spelling import Settings

_SECTIONS = ("strategy", "data", "conf", "config", "ddp")
"""Objects whose arguments NeMo 1 has under `model`."""
_RENAMED = {"seq_length": "encoder_seq_length"}
_DEGREES = {
    "tensor_parallelism": "tensor_model_parallel_size",
    "pipeline_parallelism": "pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": "virtual_pipeline_model_parallel_size",
    "context_parallelism": "context_parallel_size",
    "expert_parallelism": "expert_model_parallel_size",
    "expert_tensor_parallelism": "expert_tensor_parallel_size",
    "sequence_parallelism": "sequence_parallel",
}
"""Parameters of the functions that make a trainer, which often stand in another file."""
_ARGUMENTS = {
    "encoder_seq_length": "--seq-length",
    "num_moe_experts": "--num-experts",
    "num_layers_in_first_pipeline_stage": "--decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "--decoder-last-pipeline-num-layers",
    "activations_checkpoint_granularity": "--recompute-granularity",
    "activations_checkpoint_method": "--recompute-method",
    "activations_checkpoint_num_layers": "--recompute-num-layers",
}
_READ_TOGETHER = ("fp8", "fp8_hybrid", "fp8_e4m3", "fp8_params", "ub_tp_comm_overlap", "activation", "bias")
"""Keys that no argument is called like: several of them, or their values, decide."""
_OVERLAPS = {"optim.overlap_grad_sync": "--overlap-grad-reduce", "optim.overlap_param_sync": "--overlap-param-gather"}
NO_DROPOUT: Settings = {"--attention-dropout": 0.0, "--hidden-dropout": 0.0}
"""Of the models of recipes. Source: NVIDIA/NeMo nemo/collections/llm/gpt/model/base.py and llama.py."""
_CLASS = re.compile(r"([A-Za-z]+?)(\d*)Config_?(\w*)")


def _is_recipe(read: LaunchSettings) -> bool:
    """Whether a Python file is a recipe of NeMo 2."""
    return read.form == "python" and any(name.startswith("nemo.collections.llm") for name in read.program.split())


def _with_classes(read: LaunchSettings) -> LaunchSettings:
    """The settings as NeMo 1 has them: what a recipe gives to its strategy, data and model, the name of the model by
    its class, and the precision by its plugin.

    Source: NVIDIA/NeMo nemo/collections/llm/recipes: `run.Config(nl.MegatronStrategy, ...)`, `run.Config(
    Llama31Config70B)`, `plugins=bf16_mixed()`, `distributed_fused_adam_with_cosine_annealing`.
    """
    if not _is_recipe(read):
        return read
    settings: list[FileSetting] = []
    for each in read.settings:
        section, _, name = each.key.rpartition(".")
        if name == OBJECT:
            settings += _of_object(each, section)
        elif name in _DEGREES:
            settings.append(replace(each, key=f"model.{_DEGREES[name]}"))
        elif name == "precision" and section.rpartition(".")[2] in ("plugins", "trainer"):
            settings.append(replace(each, key="model.trainer.precision"))
        elif section.rpartition(".")[2] in _SECTIONS:
            settings.append(replace(each, key=f"model.{_RENAMED.get(name, name)}"))
            if name == "grad_reduce_in_fp32":
                settings.append(replace(each, key="model.optim.grad_sync_dtype", value=None if each.value else "bf16"))
        else:
            settings.append(each)
    return replace(read, settings=tuple(settings))


def _of_object(made: FileSetting, section: str) -> list[FileSetting]:
    called, _, first = str(made.value).partition(" ")
    match = _CLASS.fullmatch(first) if section.rpartition(".")[2] in ("conf", "config") else None
    if match:
        family, version, size = match[1].lower(), ".".join(match[2]), match[3].lower().replace("_", "-")
        name = "-".join(part for part in (family, version, size) if part)
        return [replace(made, key="model.name", value=name)]
    if section.endswith("plugins"):
        eight_bits = [replace(made, key="model.fp8", value=True)] if "fp8" in called else []
        return [*eight_bits, replace(made, key="model.trainer.precision", value=called.partition("_")[0])]
    if "distributed_fused_adam" in called:
        return [replace(made, key="model.optim.name", value="distributed_fused_adam")]
    return []


def nemo_arguments(known: Settings) -> Settings:
    """Keys of `model` as Megatron's arguments."""
    settings: Settings = {key: value for key, value in known.items() if key.startswith("--")}
    for key, value in known.items():
        path = key.removeprefix("training.")
        name = path.removeprefix("model.")
        if name == path or value is None or value is False or name in _READ_TOGETHER:
            continue
        settings[_ARGUMENTS.get(name, f"--{name.replace('_', '-')}")] = value
    hidden = settings.get("--hidden-size")
    if "multiply:4" in str(settings.get("--ffn-hidden-size")) and isinstance(hidden, int):
        settings["--ffn-hidden-size"] = 4 * hidden
    model: dict[str, Any] = {key.removeprefix("training.").removeprefix("model."): each for key, each in known.items()}
    if chunks := model.get("virtual_pipeline_model_parallel_size"):
        settings["--num-virtual-stages-per-pipeline-rank"] = chunks
    settings.pop("--virtual-pipeline-model-parallel-size", None)
    if model.get("num_query_groups"):
        settings["--group-query-attention"] = True
    if str(model.get("normalization", "")).lower() == "rmsnorm":
        settings["--normalization"] = "RMSNorm"
    else:
        settings.pop("--normalization", None)
    if "swiglu" in str(model.get("activation", "")):
        settings["--swiglu"] = True
    if model.get("bias") is False:
        settings["--disable-bias-linear"] = True
    if model.get("share_embeddings_and_output_weights") is False:
        settings["--untie-embeddings-and-output-weights"] = True
    if model.get("optim.name") == "distributed_fused_adam" or model.get("optim.name") == "mcore_distributed_optim":
        settings["--use-distributed-optimizer"] = True
        for name, flag in _OVERLAPS.items():
            if model.get(name, True) is not False:
                settings[flag] = True
    if str(model.get("trainer.precision", "")).startswith("bf16"):
        settings["--bf16"] = True
    if str(model.get("trainer.precision", "")).startswith(("16", "fp16")):
        settings["--fp16"] = True
    if model.get("optim.grad_sync_dtype") == "bf16":
        settings["--grad-reduce-in-bf16"] = True
    if model.get("fp8"):
        settings |= {"--fp8-format": "hybrid"} | ({"--fp8-param-gather": True} if model.get("fp8_params") else {})
    if model.get("ub_tp_comm_overlap"):
        settings["--tp-comm-overlap"] = True
    if model.get("transformer_block_type") == "pre_ln":
        settings.pop("--transformer-block-type", None)
    if "tokenizer.type" in model:
        settings["--tokenizer-model"] = model["tokenizer.type"]
    return settings


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    own = any(key.endswith("model.tensor_model_parallel_size") for key in keys)
    return (own and settings.form in ("yaml", "shell")) or _is_recipe(settings)


def _translated(spelled: Spelled) -> Settings:
    require_whole(spelled.read)
    without = NO_DROPOUT if _is_recipe(spelled.read) else {}
    return modern_arguments(without | nemo_arguments(spelled.known), spelled.notes)


DIALECT = Dialect(
    name="nemo",
    framework="NeMo",
    holds=_holds,
    objects=lambda read: without_objects(_with_classes(read)),
    translate=_translated,
)
