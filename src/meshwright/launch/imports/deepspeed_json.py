"""DeepSpeed's JSON: what it says beside a script or a configuration of another framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.readers.limits import line_of, named_file, text_of
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.readers.trees import read_tree
from meshwright.launch.spelling import Settings, Understood, understand
from meshwright.launch.table import launch_table

CONFIGURATIONS = (
    *("--deepspeed_config", "--deepspeed-config", "--deepspeed", "deepspeed"),
    "deepspeed_config.deepspeed_config_file",
)


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


def known_to_deepspeed(understood: Understood, read: LaunchSettings) -> Understood:
    """What was understood of a script, with settings of its DeepSpeed file counted as DeepSpeed's own table counts
    them: those that are priced as they stand are not unknown, nor are those that change neither memory nor time.
    """
    keys, table = deepspeed_json(read).keys(), launch_table("deepspeed")
    left = {key: value for key, value in understood.unknown.items() if key in keys}
    ignored = understand(left, table).ignored
    constants = {key: value for each in table.settings for key, value in each.every_value.items()}
    priced = {key for key, value in left.items() if key in constants and str(value) == str(constants[key])}
    unknown = {key: value for key, value in understood.unknown.items() if key not in ignored and key not in priced}
    return replace(understood, ignored=understood.ignored | ignored, unknown=unknown)
