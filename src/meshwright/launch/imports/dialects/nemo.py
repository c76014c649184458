"""NeMo: recipes of NeMo 2 in Python, with the classes that they configure, as keys of NeMo 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from meshwright.launch.imports.dialects.dialect import Dialect, Spelled
from meshwright.launch.imports.files.functions import without_objects
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.imports.spellings.training import require_whole
from meshwright.launch.imports.spellings.unsaid import recipes_elsewhere, unsaid_degrees
from meshwright.launch.imports.spellings.vocabulary import model_of_class
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.launch.spelling import Settings

_SECTIONS = ("strategy", "data", "conf", "config", "ddp", "plugins")
"""Objects whose arguments NeMo 1 has under `model`."""
_SIZES = {f"model.{name}" for name in ("num_layers", "hidden_size", "num_attention_heads")}
"""Beside the name of a model they make it another one."""
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
_READ_TOGETHER = (
    *("fp8", "fp8_hybrid", "fp8_e4m3", "fp8_params", "ub_tp_comm_overlap", "activation", "bias", "grad_reduce_in_fp32"),
    *("moe_enable_deepep", "params_dtype", "pipeline_dtype", "autocast_dtype"),
)
"""Keys that no argument is called like: several of them, or their values, decide."""
_TYPES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.uint8": "fp8"}
_STRATEGY = "MegatronStrategy"
"""The class whose arguments are the degrees; those that are left out are 1."""
_OVERLAPS = {"optim.overlap_grad_sync": "--overlap-grad-reduce", "optim.overlap_param_sync": "--overlap-param-gather"}
NO_DROPOUT: Settings = {"--attention-dropout": 0.0, "--hidden-dropout": 0.0}
"""Of the models of recipes. Source: NVIDIA/NeMo nemo/collections/llm/gpt/model/base.py and llama.py."""
_RECIPES_OF_FP8 = {
    "mxfp8": "mxfp8",
    "current_scaling": "tensorwise",
    "subchannel_scaling": "blockwise",
    "fp8": "delayed",
}
"""By a part of the name of the function that makes a precision; the first that is in it holds."""


def _is_recipe(read: LaunchSettings) -> bool:
    """Whether a Python file is a recipe of NeMo 2."""
    return read.form == "python" and any(name.startswith("nemo.collections.llm") for name in read.program.split())


def _with_classes(read: LaunchSettings) -> LaunchSettings:
    """The settings as NeMo 1 has them: what a recipe gives to its strategy, data and model, the name of the model by
    its class, and the precision by its plugin, which goes before what `ddp` says of gradients.

    Source: NVIDIA/NeMo nemo/collections/llm/recipes: `run.Config(nl.MegatronStrategy, ...)`, `run.Config(
    Llama31Config70B)`, `plugins=bf16_mixed()`, `distributed_fused_adam_with_cosine_annealing`; @8cfedd720346
    nemo/lightning/pytorch/strategies/megatron_strategy.py L470.
    """
    if not _is_recipe(read):
        return read
    ordered = sorted(read.settings, key=lambda each: "plugins" in each.key.split("."))
    settings = [setting for each in ordered for setting in _of_nemo_1(each)]
    if not any(each.key.endswith(OBJECT) and _STRATEGY in str(each.value) for each in read.settings):
        makers = recipes_elsewhere(read) or [*read.elsewhere]
        settings += unsaid_degrees({each.key for each in settings}, makers[0] if makers else None)
    resized = any(each.key in _SIZES and each.value is not None for each in settings)
    return replace(read, settings=tuple(each for each in settings if not (resized and each.key == "model.name")))


def _of_nemo_1(each: FileSetting) -> list[FileSetting]:
    section, _, name = each.key.rpartition(".")
    if name == OBJECT:
        return _of_object(each, section)
    if name in _DEGREES:
        return [replace(each, key=f"model.{_DEGREES[name]}")]
    if name == "precision" and section.rpartition(".")[2] in ("plugins", "trainer"):
        return [replace(each, key="model.trainer.precision")]
    if name == "tp_comm_overlap" and "callbacks" in section.split("."):
        return [replace(each, key="model.ub_tp_comm_overlap")]
    if section.rpartition(".")[2] not in _SECTIONS:
        return [each]
    same = replace(each, key=f"model.{_RENAMED.get(name, name)}")
    if name.endswith("_dtype") and each.value in _TYPES:
        return [replace(same, value=_TYPES[str(each.value)], open=())]
    if name == "grad_reduce_in_fp32" and not each.open:
        return [same, replace(each, key="model.optim.grad_sync_dtype", value="fp32" if each.value else "bf16")]
    return [same]


def _of_object(made: FileSetting, section: str) -> list[FileSetting]:
    called, _, first = str(made.value).partition(" ")
    if "plugins" in section.split("."):
        return _of_plugin(made, called)
    if first == "OptimizerConfig" or "distributed_fused_adam" in called:
        return [replace(made, key="model.optim.name", value="distributed_fused_adam")] if "fused" in called else []
    if first == "DeepEPCallback":
        fused: Settings = {"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "deepep"}
        return [replace(made, key=f"model.{name}", value=value) for name, value in fused.items()]
    if section.rpartition(".")[2] in ("conf", "config") and "Config" in first:
        return [replace(made, key="model.name", value=model_of_class(first))]
    return []


def _of_plugin(made: FileSetting, called: str) -> list[FileSetting]:
    """What a function that makes a precision is called after.

    Source: NVIDIA/NeMo@8cfedd720346 nemo/collections/llm/recipes/precision/mixed_precision.py.
    """
    half = called.partition("_")[0]
    if half not in ("bf16", "fp16"):
        return []
    recipe = next((recipe for part, recipe in _RECIPES_OF_FP8.items() if part in called), None)
    said: Settings = {"trainer.precision": half, "optim.grad_sync_dtype": "fp32" if half == "bf16" else half}
    said |= {"fp8": "hybrid", "fp8_recipe": recipe, "fp8_param_gather": recipe != "blockwise"} if recipe else {}
    return [replace(made, key=f"model.{name}", value=value) for name, value in said.items()]


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
    if model.get("moe_enable_deepep"):
        settings["--moe-flex-dispatcher-backend"] = "deepep"
    if model.get("ub_tp_comm_overlap"):
        settings["--tp-comm-overlap"] = True
    if model.get("transformer_block_type") == "pre_ln":
        settings.pop("--transformer-block-type", None)
    if "tokenizer.type" in model:
        settings["--tokenizer-model"] = model["tokenizer.type"]
    return settings


def with_dispatcher(settings: Settings, framework: str, notes: list[str]) -> Settings:
    """The settings with the exchange of experts that the framework's models have where a recipe names none.

    Source: NVIDIA/NeMo@8cfedd720346 nemo/collections/llm/gpt/model (mixtral.py L63, qwen3.py L64, deepseek.py L91), and
    the providers of NVIDIA-NeMo/Megatron-Bridge@067f987df03b.
    """
    if "--expert-model-parallel-size" not in settings or "--moe-token-dispatcher-type" in settings:
        return settings
    notes.append(f"moe_token_dispatcher_type, which is not in the file, is alltoall in most models of {framework}")
    return settings | {"--moe-token-dispatcher-type": "alltoall"}


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    own = any(key.endswith("model.tensor_model_parallel_size") for key in keys)
    return (own and settings.form in ("yaml", "shell")) or _is_recipe(settings)


def _translated(spelled: Spelled) -> Settings:
    require_whole(spelled.read)
    settings = nemo_arguments(spelled.known)
    if _is_recipe(spelled.read):
        settings = with_dispatcher(NO_DROPOUT | settings, "NeMo", spelled.notes)
        if not {"model.optim.name", "model.use_distributed_optimizer"} & spelled.known.keys():
            spelled.notes.append("the optimizer stands in files that are not read; taken as distributed_fused_adam")
            settings |= dict.fromkeys(("--use-distributed-optimizer", *_OVERLAPS.values()), True)
    return modern_arguments(settings, spelled.notes)


DIALECT = Dialect(
    name="nemo",
    framework="NeMo",
    holds=_holds,
    objects=lambda read: without_objects(_with_classes(read)),
    translate=_translated,
)
