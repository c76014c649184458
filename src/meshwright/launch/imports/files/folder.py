"""Folder: the launch file of a folder as `launch` writes it, with what its training script says beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.forms import Fields
from meshwright.launch.imports.files.torchtitan_start import with_registry
from meshwright.launch.readers.limits import named_file, text_of
from meshwright.launch.readers.literals import read_literals
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.script import CONFIGURED, exported_by
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.readers.shell.expansion import UNKNOWN
from meshwright.launch.readers.traced import Unreadable
from meshwright.launch.table import LaunchTable, launch_table, launch_tables

START, SCRIPT = "train.sh", "train.py"
OF_THE_MODEL = "model.name"
"""The field that scripts of earlier releases lack."""


def launch_file_in(folder: Path) -> Path:
    """The file of a folder that holds its plan; raises `InvalidInput` where there is none, or several."""
    held = [name for name in _configurations() if _is_own(folder / name)] or [
        name for name in (START,) if _is_own(folder / name)
    ]
    if len(held) == 1:
        return folder / held[0]
    if held:
        raise InvalidInput(f"the folder {str(folder)!r} holds {' and '.join(held)}; name one of them")
    names = ", ".join((*_configurations(), START))
    raise InvalidInput(f"the folder {str(folder)!r} holds no file that `launch` writes ({names}); name the file itself")


def _configurations() -> list[str]:
    """Names of the files that hold a plan; where there is none, the start script holds it."""
    names = dict.fromkeys(launch_table(name).configuration for name in launch_tables())
    return [name for name in names if name]


def environment_in(folder: Path) -> dict[str, str]:
    """The variables that the start script of a folder exports; none where there is no such script."""
    try:
        return exported_by(str(folder / START), text_of(folder / START)) if _is_own(folder / START) else {}
    except (InvalidInput, Unreadable):
        return {}


def with_folder(error: InvalidInput, path: Path) -> InvalidInput:
    """The error, with the folder to name where a start script was given and what holds its plan lies beside it."""
    held = [name for name in _configurations() if _is_own(path.parent / name)]
    if path.suffix != ".sh" or not held:
        return error
    return InvalidInput(f"{error}; {held[0]} beside it holds a plan: --from {str(path.parent)!r}")


def with_script(read: LaunchSettings, table: LaunchTable, given: Fields, notes: list[str]) -> LaunchSettings:
    """The settings with those that stand in the training script beside the file, where that is one of `launch`.

    given: settings that go before both; notes: where they come from is added. Raises `InvalidInput` where the script
    and the file contradict each other.
    """
    constants = _script_of_launch(Path(read.path), table)
    if not constants:
        return read
    known = {each.key: each.value for each in read.settings if not each.open and each.value != "auto"}
    settings: dict[str, FileSetting] = {}
    for name, field in table.script.items():
        key, value = table.rows[field].key, constants.get(name)
        if value is None or key in given or field in given:
            continue
        if key not in known:
            settings[name] = FileSetting(key, value.value, 0)
        elif str(known[key]) != str(value.value):
            raise InvalidInput(
                f"{read.path!r} says {key} {known[key]}, and line {value.line} of {SCRIPT} beside it {name} = "
                f"{value.value}: they must be the same; --set {key if '.' in key else field}=... says which is meant"
            )
    notes.append(f"{', '.join(settings)}: as {SCRIPT} beside the file has it")
    return replace(read, settings=(*read.settings, *settings.values()))


def constants_beside(path: Path, table: LaunchTable) -> dict[str, str]:
    """By the key of a setting, the constant that holds it in the training script beside a file; none where that is not
    one of `launch`.
    """
    beside = _script_of_launch(path, table)
    return {table.rows[field].key: name for name, field in table.script.items()} if beside else {}


def with_configuration(read: LaunchSettings) -> LaunchSettings:
    """The configuration that a script names for its program or for `accelerate launch`, where it lies beside the script
    or where its name says from the root of the repository, with the options of both, which go before it; where both
    are named, the program's as its options. Any other file as it is, with what is not there.
    """
    read = with_registry(read)
    launcher = next((each for each in read.launcher if each.key == CONFIGURED and read.form == "shell"), None)
    of_launcher, of_program = (_named_tree(read, each) for each in (launcher, read.configuration))
    given = read.configuration
    if given is not None and of_program is None:
        read = replace(read, absent=read.absent | {given.line: UNKNOWN.sub(r"$\1", str(given.value))})
    options = [each for each in read.settings if each.key and (given is None or each.value != given.value)]
    tree = of_launcher or of_program
    if tree is None:
        return read
    own = {each.key for each in tree.settings} | {"mixed_precision"}
    if of_launcher and of_program:
        options = [*(replace(each, key=f"--{each.key}") for each in of_program.settings), *options]
    elif of_program and not any(key.startswith("--") for key in own):
        options = [replace(each, key=each.key.lstrip("-")) for each in options]
    said = [replace(each, key=each.key.lstrip("-")) for each in read.launcher if each.key.lstrip("-") in own]
    placed = [replace(each, line=0, span=None) for each in (*said, *options)]
    started = replace(tree, program=read.program, launcher=read.launcher, starter=read.starter, absent=read.absent)
    return replace(started, settings=(*tree.settings, *placed), environment=tree.environment | read.environment)


def _named_tree(read: LaunchSettings, name: FileSetting | None) -> LaunchSettings | None:
    """The file that a script names; None where it names none, or that is not there."""
    file = named_file(Path(read.path), str(name.value)) if name is not None else None
    return read_launch_file(file) if file else None


def _script_of_launch(path: Path, table: LaunchTable) -> dict[str, FileSetting]:
    """The constants of the training script beside a file where it is one of `launch`, else nothing."""
    constants = _constants(path.parent / SCRIPT)
    names = {name for name, field in table.script.items() if field != OF_THE_MODEL}
    return constants if names and names <= constants.keys() else {}


def _constants(script: Path) -> dict[str, FileSetting]:
    """What a script sets outside of its functions; nothing where it is not there or is no Python."""
    if not _is_own(script):
        return {}
    try:
        read = read_literals(str(script), text_of(script))
    except (InvalidInput, Unreadable, OSError):
        return {}
    return {each.key: each for each in read.settings if not each.function and not each.open}


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
