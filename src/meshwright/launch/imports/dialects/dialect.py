"""Dialect: how one framework's launch files are recognised, and put into the settings of its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meshwright.launch.imports.files.functions import without_objects
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

Holds = Callable[[LaunchSettings, set[str]], bool]
"""Whether settings, and their keys, are of a framework."""
OF_A_TRAINER = ("model_name_or_path", "per_device_train_batch_size")


@dataclass(frozen=True, kw_only=True)
class Spelled:
    """The settings of a launch file as it spells them."""

    read: LaunchSettings
    known: Settings
    """Values by their key, with those that are said beside the file."""
    notes: list[str]
    """What was taken to mean something is added."""
    ranks: int | None
    """Of the cluster that was asked about."""
    stage: int | None
    """Of ZeRO, where it is said beside the file."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A framework's launch files. The record of a dialect is all that is known of it."""

    name: str
    """Of its launch table."""
    framework: str
    holds: Holds
    objects: Callable[[LaunchSettings], LaunchSettings] = without_objects
    """The settings with what the names of objects in Python mean, or under the keys of the table."""
    translate: Callable[[Spelled], Settings] = lambda spelled: spelled.known
    """The settings as the table spells them; raises `InvalidInput` for what is not modelled."""
    strict: str = ""
    """What looks at keys of its configurations that it does not have; empty where nothing does."""


def has(*names: str) -> Holds:
    """A configuration with all of some keys, or with keys below them."""
    return lambda settings, keys: (
        settings.form != "shell" and all(any(is_below(key, name) for key in keys) for name in names)
    )


def is_below(key: str, name: str) -> bool:
    """Whether a key is one of that name, or below it."""
    return key == name or key.startswith(f"{name}.")


def of_megatron(keys: set[str]) -> bool:
    """Whether keys are arguments of Megatron-LM or a fork."""
    own = {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers", "--micro-batch-size"}
    return len(own & keys) > 1
