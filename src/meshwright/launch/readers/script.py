"""Script: a shell script as flat settings: the options of the program that it would start."""

from __future__ import annotations

import re
from pathlib import Path

from meshwright.errors import InvalidInput
from meshwright.launch.readers.configured import configuration_in
from meshwright.launch.readers.limits import line_of, text_of
from meshwright.launch.readers.nothing_started import OTHER_FILE, why_nothing_starts
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.readers.shell.expansion import UNKNOWN, names_of_unknown
from meshwright.launch.readers.shell.walk import Walk
from meshwright.launch.readers.traced import Traced

_ASSIGNS = r"\+{0,2}[A-Za-z_][\w.]*="
_OPTION = re.compile(rf"--|{_ASSIGNS}|{UNKNOWN.pattern}$")
_NUMBER = re.compile(r"-?\.?\d")
_STARTS_PYTHON = ("-m", "--module")
_STARTERS = ("torchrun", "deepspeed", "accelerate")
CONFIGURED = "--config_file"
"""The option of `accelerate launch` that names its configuration."""
LAUNCHERS = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
}
"""Modules that start another program, and the commands of the same."""


def read_script(path: str, text: str, given: dict[str, str], source: Traced | None = None) -> LaunchSettings:
    """The settings of a shell script, of which nothing is run; given: values of variables and of arguments by number;
    source: the part of the file that is the script.

    Raises `Unreadable` where it is no script, `InvalidInput` where it starts nothing with options.
    """
    scheduler = [*_directives(text, text)]
    known = _slurm_variables(scheduler)
    walk = Walk(known | given, lambda name: _beside(Path(path), name))
    walk.script(source or Traced(text, range(len(text))))
    followed = walk.followed
    for document in followed.scripts:
        scheduler += _directives(document.text, text)
    started = max(followed.commands, key=_options_of_program, default=[])
    if not _options_of_program(started):
        raise InvalidInput(
            f"{path!r} starts no program with options (torchrun, deepspeed, srun or python with --flag value)"
            + why_nothing_starts(followed, text)
        )
    at = _program(started)
    launcher, configuration = _flags(started[:at], text), configuration_in(started, at)
    for words in followed.commands:
        if words and words[0].text.rpartition("/")[2] in ("srun", "sbatch") and words is not started:
            scheduler += _flags(words[1:], text)
    lines = sorted(
        (line_of(text, place), tuple(names)) for place, names in followed.undecided.items() if place < OTHER_FILE
    )
    return LaunchSettings(
        path=path,
        form="shell",
        text=text,
        settings=tuple(_flags(started[at + 1 :], text)),
        program=started[at].text if at < len(started) else "",
        command=_command(started, at),
        launcher=(*scheduler, *launcher),
        starter=_starter(started[:at]),
        configuration=None if configuration is None else _setting(started[at], [configuration], text),
        environment={name: value.text for name, value in followed.environments[id(started)].items()},
        withheld=tuple(name for name in followed.exported if name not in followed.environments[id(started)]),
        undecided=dict(lines),
        absent={line_of(text, place): name for place, name in followed.absent.items() if place < OTHER_FILE},
        skipped=frozenset(followed.skipped),
        documents={name: value.text for name, value in followed.documents.items()},
    )


def exported_by(path: str, text: str) -> dict[str, str]:
    """The variables that a script exports, whatever it starts; raises `Unreadable` where it is no script."""
    walk = Walk(_slurm_variables([*_directives(text, text)]), lambda name: _beside(Path(path), name))
    walk.script(Traced(text, range(len(text))))
    return {name: value.text for name, value in walk.followed.exported.items()}


def _directives(document: str, text: str) -> list[FileSetting]:
    """Options of `#SBATCH` lines, which stand before the first command; Slurm reads no further."""
    options: list[FileSetting] = []
    for number, line in enumerate(document.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        words = line.partition("#SBATCH")[2].partition(" #")[0].replace("=", " ").split()
        for index, word in enumerate(words):
            following = words[index + 1] if index + 1 < len(words) else "-"
            if word.startswith("-"):
                value = True if following.startswith("-") else following
                options.append(FileSetting(word, value, number if document is text else 0))
    return options


def _slurm_variables(scheduler: list[FileSetting]) -> dict[str, str]:
    """What Slurm would set, as far as the file's own directives say it; a file that has some is read as the job, in
    which it does not hand itself to Slurm.
    """
    said = {each.key: str(each.value) for each in scheduler if str(each.value).isdecimal()}
    nodes = said.get("--nodes", said.get("-N"))
    named = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": said.get("--ntasks")}
    named["SLURM_EXPORT_ENV"] = next((str(each.value) for each in scheduler if each.key == "--export"), None)
    named["SLURM_JOB_ID"] = named["SLURM_JOBID"] = "1" if scheduler else None
    named["SLURM_NTASKS_PER_NODE"] = said.get("--ntasks-per-node")
    named["SLURM_GPUS_PER_NODE"] = named["SLURM_GPUS_ON_NODE"] = said.get("--gpus-per-node")
    return {name: value for name, value in named.items() if value}


def _beside(path: Path, name: str) -> Traced | None:
    """A script that this one names, where it lies in the same folder; no other file is opened."""
    base = name.rpartition("/")[2]
    other = path.parent / base
    try:
        if not base or other.is_symlink() or not other.is_file() or other.resolve() == path.resolve():
            return None
        text = text_of(other)
    except (InvalidInput, OSError):
        return None
    return Traced(text, range(OTHER_FILE, OTHER_FILE + len(text)))


def _program(words: list[Traced]) -> int:
    """Which word is the program: a Python file, or what follows `-m` and is no launcher; 0: the first word."""
    for index, word in enumerate(words):
        if word.text.endswith(".py"):
            return index
    for index, word in enumerate(words[:-1]):
        if word.text in _STARTS_PYTHON and words[index + 1].text not in LAUNCHERS:
            return index + 1
    return 0


def _command(words: list[Traced], at: int) -> str:
    """The word behind a program that is no Python file."""
    following = words[at + 1].text if at + 1 < len(words) else ""
    return following if following.replace("-", "_").isidentifier() and not words[at].text.endswith(".py") else ""


def _starter(words: list[Traced]) -> str:
    """Which command starts the ranks of a program that these words stand before; empty where none of them does."""
    names = [LAUNCHERS.get(word.text, word.text.rpartition("/")[2]) for word in words]
    return next((name for name in names if name in _STARTERS), "")


def _options_of_program(words: list[Traced]) -> int:
    if not words or words[0].text.rpartition("/")[2] == "sbatch":
        return 0
    at = _program(words)
    options = [word for word in words[at + 1 :] if _OPTION.match(word.text)]
    configured = configuration_in(words, at) is not None
    return len(options) + configured + sum(word.text.partition("=")[0] == CONFIGURED for word in words[:at])


def _flags(words: list[Traced], text: str) -> list[FileSetting]:
    """Flags with the values that follow them; `path=value` words are settings too, as Hydra takes them."""
    flags: list[FileSetting] = []
    values: list[Traced] = []
    key: Traced | None = None

    def end() -> None:
        if key is not None:
            flags.append(_setting(key, values, text))

    for word in words:
        if word.text.startswith("-") and not _NUMBER.match(word.text) and len(word.text) > 1:
            end()
            name, equals, _ = word.text.partition("=")
            key, values = word.part(0, len(name)), [word.part(len(name) + 1)] if equals else []
            if equals:
                end()
                key = None
        elif re.match(_ASSIGNS, word.text) and (key is None or values):
            end()
            name = word.text.partition("=")[0]
            flags.append(_setting(word.part(0, len(name)), [word.part(len(name) + 1)], text))
            key, values = None, []
        elif UNKNOWN.fullmatch(word.text) and (key is None or values):
            names = tuple(names_of_unknown(word.text))
            flags.append(FileSetting("", True, _line(word, text), None, names))
        elif key is not None:
            values.append(word)
    end()
    return flags


def _line(word: Traced, text: str) -> int:
    return line_of(text, word.origin(0)) if word.origin(0) < OTHER_FILE else 0


def _setting(key: Traced, values: list[Traced], text: str) -> FileSetting:
    name = key.text.lstrip("+") if not key.text.startswith("-") else key.text
    missing = tuple(each for value in values for each in names_of_unknown(value.text))
    texts = [value.text for value in values]
    span = _span(values, text)
    value = True if not texts else texts[0] if len(texts) == 1 else texts
    return FileSetting(name, value, _line(key, text), span, missing)  # type: ignore[arg-type]


def _span(values: list[Traced], text: str) -> tuple[int, int] | None:
    """Where values stand in the file as they are, with blanks between them."""
    if not values or not all(value.text for value in values):
        return None
    start, stop = values[0].origin(0), values[-1].origin(0) + len(values[-1].text)
    return (start, stop) if text[start:stop].split() == [value.text for value in values] else None
