"""torchtitan's start: the recipe that a script names by its module and its function, with the options beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.imports.files.functions import one_function
from meshwright.launch.readers.limits import named_file
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.settings import FileSetting, LaunchSettings

_MODULE, _CONFIG = "--module", "--config"


def with_registry(read: LaunchSettings) -> LaunchSettings:
    """The recipe that a script of torchtitan names, with its options, which go before it; any other file as it is.

    Raises `InvalidInput` where a variable that nothing sets names it, or its file is not there.

    Source: pytorch/torchtitan@b5bcd76c66d0 run_train.sh and torchtitan/config/manager.py (`--module` is one of
    torchtitan.models or torchtitan.experiments, or a path with dots; `--config` a function of its config_registry).
    """
    module, config = (read.by_key().get(name) for name in (_MODULE, _CONFIG))
    if read.form != "shell" or not read.program.startswith("torchtitan") or module is None or config is None:
        return read
    if opened := [each for each in (module, config) if each.open]:
        says = " ".join(f"--set {name}=..." for each in opened for name in each.open)
        raise InvalidInput(f"{read.path!r} names its recipe by variables that it does not set: {says}")
    files = _files(str(module.value))
    found = next((file for file in (named_file(Path(read.path), name) for name in files) if file), None)
    if found is None:
        raise InvalidInput(
            f"{read.path!r} starts torchtitan with the recipe {config.value} of {module.value}, in {files[0]}, which "
            "is neither beside it nor at the root of its repository: put it there, or give that file with --set "
            f"function={config.value}"
        )
    recipe = one_function(read_launch_file(found), str(config.value))
    options = [_as_field(each, str(config.value)) for each in read.settings if each.key not in (_MODULE, _CONFIG)]
    environment = recipe.environment | read.environment
    return replace(
        recipe,
        settings=(*recipe.settings, *options),
        launcher=read.launcher,
        environment=environment,
        absent=read.absent,
        undecided=read.undecided,
        skipped=read.skipped,
    )


def _files(module: str) -> list[str]:
    if "." in module:
        path = module.replace(".", "/")
        return [f"{path}/config_registry.py", f"{path}.py"]
    return [f"torchtitan/{place}/{module}/config_registry.py" for place in ("models", "experiments")]


def _as_field(option: FileSetting, function: str) -> FileSetting:
    """An option of the command line as the field of the recipe that it sets."""
    value = option.value
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        value = int(value)
    name = option.key.removeprefix("--").replace("-", "_")
    return replace(option, key=name, value=value, line=0, span=None, function=function)
