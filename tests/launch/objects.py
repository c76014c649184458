"""What the scripts that read exported files with a framework's own objects share. argv: a JSON file of cases."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Read = Callable[[Any], dict[str, Any]]
"""What a framework says of one case."""
TORCHRUN = "#!/bin/bash\nenv -0 | grep -z '^CUDA_DEVICE'\nprintf '%s\\0' ARGUMENTS \"$@\"\n"


def print_answers(read: Read, enter: Callable[[], None] = lambda: None) -> None:
    """Print, as JSON, what the framework says of each case, or how it refuses it; all else goes to standard error.

    enter: what comes before the first case.
    """
    with contextlib.redirect_stdout(sys.stderr):
        enter()
        answers = [_answer(read, each) for each in json.loads(Path(sys.argv[1]).read_text("utf-8"))]
    print(json.dumps(answers))


def _answer(read: Read, case: dict[str, Any]) -> dict[str, Any]:
    try:
        return read(case)
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"[:400]}


def in_a_process(read: Read) -> Read:
    """The same, of each case in a child that forgets it."""

    def read_apart(case: dict[str, Any]) -> dict[str, Any]:
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            os.write(theirs, json.dumps(_answer(read, case)).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        answer: dict[str, Any] = json.loads(told)
        return answer

    return read_apart


@contextlib.contextmanager
def pretended(ranks: int) -> Iterator[None]:
    """This process as the first of so many ranks, whose collectives do nothing."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def started(folder: Path, script: str, filled: dict[str, str], *more: str) -> tuple[list[str], dict[str, str]]:
    """What train.sh gives a script that torchrun starts, and which of CUDA's variables it sets.

    torchrun is one that prints its arguments. script: how the name of what it starts ends; filled: the variables of
    the environment that train.sh asks for; more: arguments of train.sh.
    """
    tools = folder / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text(TORCHRUN)
    (tools / "torchrun").chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tools), **filled}
    command = ["bash", str(folder / "train.sh"), *more]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split("\0")
    start = told.index("ARGUMENTS")
    program = next(index for index, word in enumerate(told) if word.endswith(script))
    return told[program + 1 : -1], dict(each.split("=", 1) for each in told[:start])


class Anything(ABCMeta):
    """The class of classes that take anything, whose names are such classes too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return made(name)


def made(name: str) -> Anything:
    """A class of that name that takes anything."""
    own = {
        "__init__": lambda *_, **__: None,
        "__call__": lambda _, given, **__: given,
        "__class_getitem__": lambda one: one,
    }
    return Anything(name, (), own)


class StandIn(ModuleType):
    """A package whose names are all classes that take anything."""

    __path__: list[str] = []
    __version__ = "9.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, made(name))
        return getattr(self, name)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not there. names: of them, or of modules in packages that are."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        known = name.startswith(tuple(f"{each}." for each in self.names)) or name in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


def stand_in(*names: str) -> None:
    """Let packages that want a GPU or are not there be imported."""
    sys.meta_path.insert(0, Absent(*names))


def bare(*names: str) -> None:
    """Let the modules of packages be imported without what their __init__ imports. names: outer ones first."""
    for name in names:
        path = name.replace(".", "/")
        package = ModuleType(name)
        package.__path__ = [str(root / path) for root in map(Path, sys.path) if (root / path).is_dir()]
        sys.modules[name] = package
