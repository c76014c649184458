"""DeepSpeed's JSON: what it says beside a script or a configuration of another framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.forms import Fields
from meshwright.launch.imports.behaviours import left_out
from meshwright.launch.readers.limits import line_of, named_file, text_of
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.readers.trees import read_tree
from meshwright.launch.spelling import Settings, Understood, understand
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

CONFIGURATIONS = (
    *("--deepspeed_config", "--deepspeed-config", "--deepspeed", "deepspeed"),
    "deepspeed_config.deepspeed_config_file",
)
_BUCKET, _GRADIENTS = "zero_optimization.reduce_bucket_size", "data_types.grad_accum_dtype"
_DEVICE = "zero_optimization.offload_optimizer.device"
_NAMES_OF_STAGE_3 = ("stage3_", "prefetch_", "param_", "max_live", "max_reuse", "sub_group_size", "offload_param.")
_OF_STAGE_3 = tuple(f"zero_optimization.{name}" for name in _NAMES_OF_STAGE_3)
_HELD_AGAINST_ARGUMENTS = (
    *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"),
    *("bf16.enabled", "fp16.enabled"),
)
"""What must be as the arguments of a Trainer have it; see `demands`."""


def deepspeed_json(read: LaunchSettings) -> Settings:
    """The settings of the DeepSpeed file that is named, as `engine_settings` says.

    Raises `InvalidInput` as `deepspeed_file` does.
    """
    return engine_settings(deepspeed_file(read))


def engine_settings(file: LaunchSettings | None) -> Settings:
    """The settings of a DeepSpeed file, without those that a Trainer fills in; none where it is not there."""
    settings = file.settings if file else ()
    return {each.key: each.value for each in settings if each.value is not None and each.value != "auto"}


def deepspeed_file(read: LaunchSettings) -> LaunchSettings | None:
    """The DeepSpeed file that is named: written by the script itself, beside it, or where its name says from the root
    of the repository that it lies in; None where it is not there.

    Raises `InvalidInput` with the line where that file is malformed.
    """
    named = [each.value for each in read.settings if each.key in CONFIGURATIONS]
    name = next((value for value in named if isinstance(value, str)), "")
    if not name:
        return None
    text = read.documents.get(name)
    try:
        beside = named_file(Path(read.path), name) if text is None else None
        text = text_of(beside) if beside else text
        return read_tree(name, text, "json") if text else None
    except Unreadable as error:
        where = f"line {line_of(text or '', error.origin)}: {error.what}"
        raise InvalidInput(f"{read.path!r} names DeepSpeed's {name!r}, which is malformed, {where}") from None
    except OSError:  # no name that a file may have
        return None


def sized_by_the_model(read: LaunchSettings, hidden_size: int | None) -> Settings:
    """The bucket of gradients of a named DeepSpeed file where it is `auto`: the square of the model's width.

    Source: transformers 5.23.0 integrations/deepspeed.py, trainer_config_finalize; accelerate 1.15.0 accelerator.py,
    _prepare_deepspeed.
    """
    file = deepspeed_file(read)
    auto = any(each.key == _BUCKET and each.value == "auto" for each in file.settings) if file else False
    return {_BUCKET: hidden_size * hidden_size} if auto and hidden_size else {}


def known_to_deepspeed(understood: Understood, read: LaunchSettings) -> Understood:
    """What was understood of a file, with settings of the DeepSpeed file that it names counted as DeepSpeed's own table
    counts them: those that are priced, as `left_out` tells where they say otherwise, are not unknown.
    What only ZeRO 3 reads means nothing in another stage.
    """
    named, table = deepspeed_json(read), launch_table("deepspeed")
    left = {key: value for key, value in understood.unknown.items() if key in named}
    theirs = understand(left, table)
    held = table.keys - {*_HELD_AGAINST_ARGUMENTS, _GRADIENTS}
    unknown = {
        key: value
        for key, value in understood.unknown.items()
        if key not in left or key in theirs.unknown or key in held
    }
    said: Fields = {}
    if _GRADIENTS in left and "job.gradients" in theirs.fields:
        said = {"job.gradients": theirs.fields["job.gradients"]}
    wrong = tuple(each for each in theirs.wrong if any(key in left and key in each for key in (_GRADIENTS, _DEVICE)))
    return _without_idle(
        replace(
            understood,
            fields=understood.fields | said,
            unpriced=understood.unpriced | theirs.unpriced,
            ignored=understood.ignored | theirs.ignored,
            unknown=unknown,
            wrong=understood.wrong + wrong,
        )
    )


def engine_left_out(plan: Plan, inputs: Inputs, read: LaunchSettings, settings: Settings) -> list[str]:
    """What the price rests on and a DeepSpeed file that is named leaves out or says otherwise; nothing where there is
    none, or its stage of ZeRO is priced as others run it.
    """
    if inputs.runtime.family != "deepspeed" or deepspeed_file(read) is None:
        return []
    return left_out(plan, inputs, launch_table("deepspeed"), settings)


def _without_idle(understood: Understood) -> Understood:
    """What was understood, without what only ZeRO 3 reads among what is not priced, where the stage is another one."""
    if understood.fields.get("plan.zero") in (None, 3):
        return understood
    idle = {key: value for key, value in understood.unpriced.items() if key.startswith(_OF_STAGE_3)}
    priced = {key: what for key, what in understood.unpriced.items() if key not in idle}
    return replace(understood, unpriced=priced, ignored=understood.ignored | idle)
