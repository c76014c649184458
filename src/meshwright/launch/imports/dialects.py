"""Dialects: which framework a launch file is written for, from what it contains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meshwright.errors import InvalidInput, UnknownName
from meshwright.launch.imports.nemo import is_recipe
from meshwright.launch.readers.limits import line_of
from meshwright.launch.readers.settings import LaunchSettings


@dataclass(frozen=True)
class Dialect:
    """A framework's launch files."""

    name: str
    """Of its launch table."""
    framework: str
    holds: Callable[[LaunchSettings, set[str]], bool]
    """Whether settings, and their keys, are of this framework."""


def _has(*names: str) -> Callable[[LaunchSettings, set[str]], bool]:
    return lambda settings, keys: (
        settings.form != "shell" and all(any(_is(key, name) for key in keys) for name in names)
    )


def _is(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _arguments(settings: LaunchSettings, keys: set[str]) -> bool:
    own = {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers", "--micro-batch-size"}
    del settings
    return len(own & keys) > 1


def _deepspeed_arguments(settings: LaunchSettings, keys: set[str]) -> bool:
    return _arguments(settings, keys) and bool({"--deepspeed", "--deepspeed_config", "--deepspeed-config"} & keys)


def _zero_bubble_arguments(settings: LaunchSettings, keys: set[str]) -> bool:
    own = {"--enable-zb-runtime", "--enable-zero-bubble", "--zero-bubble-v-schedule", "--enable-1f1b-v"}
    return _arguments(settings, keys) and bool(own & keys)


def _megatron_arguments(settings: LaunchSettings, keys: set[str]) -> bool:
    others = _deepspeed_arguments(settings, keys) or _zero_bubble_arguments(settings, keys)
    return _arguments(settings, keys) and not others


def _bridge(settings: LaunchSettings, keys: set[str]) -> bool:
    del keys
    return settings.form == "python" and "megatron.bridge" in settings.program


def _torchtitan_module(settings: LaunchSettings, keys: set[str]) -> bool:
    return settings.form == "python" and (
        "torchtitan" in settings.program or _has("parallelism", "training")(settings, keys)
    )


def _torchtitan_toml(settings: LaunchSettings, keys: set[str]) -> bool:
    return settings.form == "toml" and _has("training", "model")(settings, keys)


def _hydra(settings: LaunchSettings, keys: set[str]) -> bool:
    own = any(key.endswith("model.tensor_model_parallel_size") for key in keys)
    return (own and settings.form in ("yaml", "shell")) or is_recipe(settings)


_OF_A_TRAINER = ("model_name_or_path", "per_device_train_batch_size")


def _deepspeed(settings: LaunchSettings, keys: set[str]) -> bool:
    own = ("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization")
    found = sum(any(_is(key, name) for key in keys) for name in own)
    return settings.form in ("json", "yaml") and found > 0 and not {"num_layers", "num-layers"} & keys


def _swift(settings: LaunchSettings, keys: set[str]) -> bool:
    """Megatron's arguments with underscores, and a model that is named."""
    own = {"--tensor_model_parallel_size", "--expert_model_parallel_size", "--micro_batch_size", "--global_batch_size"}
    return settings.form == "shell" and "--model" in keys and bool(own & keys)


def _neox(settings: LaunchSettings, keys: set[str]) -> bool:
    """GPT-NeoX takes keys with either sign between their words."""
    return _has("num_layers", "pipe_parallel_size")(settings, {key.replace("-", "_") for key in keys})


_OF_LLAMA_FACTORY = {"stage", "finetuning_type", "cutoff_len", "template", "dataset_dir"}


def _llama_factory(settings: LaunchSettings, keys: set[str]) -> bool:
    return _has(*_OF_A_TRAINER)(settings, keys) and bool(_OF_LLAMA_FACTORY & keys)


def _trl(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of the Trainer's arguments alone, as TRL's scripts and those of its kin take them."""
    return _has(*_OF_A_TRAINER)(settings, keys) and not _OF_LLAMA_FACTORY & keys


def _trainer(settings: LaunchSettings, keys: set[str]) -> bool:
    """Scripts that give a Trainer's arguments, with either sign between their words."""
    named = {key.lstrip("-").replace("-", "_") for key in keys if key.startswith("--")}
    return settings.form == "shell" and named >= {*_OF_A_TRAINER}


def _foundry(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of OLMo have the same keys but for the length of sequences."""
    own = _has("model.n_layers", "global_train_batch_size")(settings, keys)
    return own and "model.max_sequence_length" not in keys


DIALECTS = (
    Dialect("megatron-deepspeed", "Megatron-DeepSpeed", _deepspeed_arguments),
    Dialect("zero-bubble", "zero-bubble", _zero_bubble_arguments),
    Dialect("megatron-lm", "Megatron-LM", _megatron_arguments),
    Dialect("ms-swift", "ms-swift", _swift),
    Dialect("megatron-bridge", "Megatron-Bridge", _bridge),
    Dialect("nemo", "NeMo", _hydra),
    Dialect("torchtitan", "torchtitan", _torchtitan_module),
    Dialect("torchtitan-toml", "torchtitan to 0.2", _torchtitan_toml),
    Dialect("gpt-neox", "GPT-NeoX", _neox),
    Dialect("deepspeed", "DeepSpeed", _deepspeed),
    Dialect("accelerate", "accelerate", _has("distributed_type")),
    Dialect("nanotron", "nanotron", _has("parallelism.dp", "tokens.micro_batch_size")),
    Dialect("llm-foundry", "llm-foundry", _foundry),
    Dialect("internevo", "InternEvo", _has("parallel.tensor", "data.micro_bsz")),
    Dialect("axolotl", "axolotl", _has("base_model", "micro_batch_size")),
    Dialect("llama-factory", "LLaMA-Factory", _llama_factory),
    Dialect("trl", "TRL", _trl),
    Dialect("trainer", "the Trainer of transformers", _trainer),
)


def dialect_of(settings: LaunchSettings, framework: str | None = None) -> Dialect:
    """The framework of a launch file: the one that is named, else the one that its settings are of.

    Raises `UnknownName` for a name that has no dialect, `InvalidInput` where none or several fit.
    """
    names = {dialect.name: dialect for dialect in DIALECTS}
    if framework is not None:
        if framework not in names:
            raise UnknownName("framework of launch files", framework, names)
        return names[framework]
    keys = {each.key for each in settings.settings}
    if "--model_recipe_name" in keys:
        name = settings.by_key()["--model_recipe_name"].value
        raise InvalidInput(
            f"the launch file {settings.path!r} names the recipe {name} of Megatron-Bridge and holds no plan itself: "
            "give the Python file of the recipe"
        )
    fitting = [dialect for dialect in DIALECTS if dialect.holds(settings, keys)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = " or ".join(dialect.framework for dialect in fitting)
        why = f"may be of {listed}; say which: --framework {' or '.join(each.name for each in fitting)}"
    else:
        why = f"is of no framework that is recognised ({_seen(settings)}); known: {', '.join(names)}"
    raise InvalidInput(f"the launch file {settings.path!r} {why}")


def _seen(settings: LaunchSettings) -> str:
    """The first settings of a file, with their lines."""
    first = [each for each in settings.settings if each.key][:4]
    listed = ", ".join(f"{each.key} in line {each.line}" if each.line else each.key for each in first)
    return f"its settings: {listed} …" if first else f"it has no settings up to its end, line {_last_line(settings)}"


def _last_line(settings: LaunchSettings) -> int:
    return line_of(settings.text, len(settings.text))
