"""Dialects: which framework a launch file is written for, from what it contains."""

from __future__ import annotations

from meshwright.errors import InvalidInput, UnknownName, any_of
from meshwright.launch.imports.dialects import (
    accelerate,
    axolotl,
    deepspeed,
    gpt_neox,
    internevo,
    llama_factory,
    llm_foundry,
    megatron_bridge,
    megatron_deepspeed,
    megatron_lm,
    ms_swift,
    nanotron,
    nemo,
    swift,
    torchtitan,
    torchtitan_toml,
    trainer,
    trl,
    zero_bubble,
)
from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.imports.spellings.deepspeed_json import CONFIGURATIONS
from meshwright.launch.readers.limits import line_of
from meshwright.launch.readers.settings import LaunchSettings

_STAGES = ("-p", "--pipeline-parallel-size", "--pipeline_parallel_size", "--num_stages", "--num-stages")
"""How programs with a PipelineModule call its stages, as DeepSpeedExamples' pipeline_parallelism/train.py does."""
_MODULES = (
    *(megatron_deepspeed, zero_bubble, megatron_lm, ms_swift, megatron_bridge, nemo, torchtitan, torchtitan_toml),
    *(gpt_neox, deepspeed, accelerate, nanotron, llm_foundry, internevo, axolotl, llama_factory, trl, trainer, swift),
)
DIALECTS: tuple[Dialect, ...] = tuple(module.DIALECT for module in _MODULES)


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
    _require_plan(settings)
    fitting = [dialect for dialect in DIALECTS if dialect.holds(settings, keys)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = any_of(dialect.framework for dialect in fitting)
        why = f"may be of {listed}; say which: --framework {any_of(each.name for each in fitting)}"
    else:
        why = f"is of no framework that is recognised ({_seen(settings)}); known: {', '.join(names)}"
    absent = "".join(f"; it names {name} (line {line}), which is not there" for line, name in settings.absent.items())
    raise InvalidInput(f"the launch file {settings.path!r} {why}{absent}")


def _require_plan(settings: LaunchSettings) -> None:
    """Raises `InvalidInput` for a script that starts a program of its own under DeepSpeed, whose options nobody else
    knows.

    Source: DeepSpeed@edaa72212672 deepspeed/__init__.py (`--deepspeed_config` is DeepSpeed's own option of a script),
    runtime/pipe/module.py (num_stages of PipelineModule).
    """
    if settings.form != "shell" or any(dialect.holds(settings, {*settings.by_key()}) for dialect in DIALECTS):
        return
    named = next((each for each in settings.settings if each.key in CONFIGURATIONS and each.value is not True), None)
    if named is None:
        return
    stages = next((each for each in settings.settings if each.key in _STAGES), None)
    pipeline = f"; and --pp {stages.value}, if {stages.key} is the num_stages of its PipelineModule" if stages else ""
    raise InvalidInput(
        f"the launch file {settings.path!r}, line {named.line}, starts {settings.program} with DeepSpeed's "
        f"{named.value}; model, batch and pipeline are the program's own: give that file, --from {named.value} with "
        f"--model, --seq-len and what it leaves open{pipeline}"
    )


def _seen(settings: LaunchSettings) -> str:
    """The first settings of a file, with their lines."""
    first = [each for each in settings.settings if each.key][:4]
    listed = ", ".join(f"{each.key} in line {each.line}" if each.line else each.key for each in first)
    return f"its settings: {listed} …" if first else f"it has no settings up to its end, line {_last_line(settings)}"


def _last_line(settings: LaunchSettings) -> int:
    return line_of(settings.text, len(settings.text))
