"""Settings: what a launch file says, as a flat list in its order; nothing is understood yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Form = Literal["shell", "json", "yaml", "toml", "python"]
Scalar = str | int | float | bool | None
Value = Scalar | list[Scalar]


OBJECT = "()"
"""Key, at the end of a path, of what a Python file calls to make the object there: `model.()` is `Config` or, with a
literal or a name as first argument, `registry 8B`."""


@dataclass(frozen=True, slots=True)
class FileSetting:
    """One setting: a flag with its value, or a path of keys with dots between them."""

    key: str
    value: Value
    """Text from a shell; true: a flag without a value."""
    line: int
    """Of the key in the file; 0: outside of it."""
    span: tuple[int, int] | None = None
    """Where the text of the value stands in the file, as offsets; None: in pieces, or not as it is."""
    open: tuple[str, ...] = ()
    """Names of what its value rests on and the file does not say."""
    function: str = ""
    """Of a Python file, the function that says it, or that calls the one that does; empty outside of functions."""
    made_in: str = ""
    """Of an object, the function that makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """Everything that was read from a launch file."""

    path: str
    form: Form
    text: str
    settings: tuple[FileSetting, ...]
    program: str = ""
    """The script or module that a shell would run; of Python, the names that it imports from."""
    command: str = ""
    """The word behind a program in no file of its own that says what it does: `sft` of `swift sft`."""
    launcher: tuple[FileSetting, ...] = ()
    """Options of what starts the program: torchrun, deepspeed, Slurm."""
    starter: str = ""
    """The command that starts the program on every rank: torchrun, deepspeed or accelerate."""
    configuration: FileSetting | None = None
    """The file of settings that a shell hands to the program, by the name of that."""
    environment: dict[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()
    """Variables that a script exports, and that what starts the program does not hand on."""
    undecided: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Lines with conditions that only running would decide, and the names that they rest on; what depends on them was
    not followed."""
    absent: dict[int, str] = field(default_factory=dict)
    """Scripts that it reads or hands on and that are not beside it, by the lines that name them."""
    skipped: frozenset[str] = frozenset()
    """Variables that are set in what was not followed."""
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a Python file, the functions of the same file that each function calls."""
    elsewhere: tuple[FileSetting, ...] = ()
    """Of a Python file, functions that stand in other files and set what is not known: by name, with the literals that
    they are given."""
    conditions: tuple[FileSetting, ...] = ()
    """Of a Python file, conditions and loops that it does not decide, by line and function; nothing below them was
    followed."""
    documents: dict[str, str] = field(default_factory=dict)
    """Other files that the script writes, by their names."""

    def by_key(self) -> dict[str, FileSetting]:
        """The settings by key; of several the last holds."""
        return {each.key: each for each in self.settings}
