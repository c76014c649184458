"""Killed while writing: whatever a command writes, there is the old file or the new one, and never a part."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz_files import seeds

from commands import LLAMA, asked
from meshwright.answers import files

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "4"))
"""Of every kind of output; 200 with `make fuzz`."""
FEW = ("--model", "config.json", "--cluster", "1x1:h100", "--seq-len", "4096", "--global-batch", "2")
PLAN = ("explain", *LLAMA, "--tp", "4")
OUTPUTS: dict[str, tuple[str, ...]] = {
    "memo.md": ("memo", *FEW, "--out", "memo.md"),
    "memo.html": ("memo", *FEW, "--out", "memo.html"),
    "trace.json": (*PLAN, "--trace", "trace.json"),
    "rows.csv": ("validate", "--runs", "runs.in.csv", "--rows", "rows.csv"),
    "plot.svg": ("validate", "--runs", "runs.in.csv", "--plot", "plot.svg"),
    "runs.csv": ("runs", "megatron.log", "--out", "runs.csv"),
    "launched": ("launch", *PLAN[1:], "--out", "launched", "--overwrite"),
    "best.json": (
        *("textbook", "search", "--cluster-metadata", "machines.json", "--model-metadata", "layers.json"),
        *("--output", "best.json"),
    ),
}
"""Commands that write, by the name of what they write; sweeps are killed in tests/answers/test_sweep.py."""
OLD = b"as it was before"


def in_child(work: Callable[[], object]) -> multiprocessing.process.BaseProcess:
    """Begin something in a forked process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
    return child


def written(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of every file of a folder."""
    found = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {each.name: each.read_bytes() for each in found}


def steps_until(last: int) -> None:
    """Kill this process before a step on the disk: an opening, renaming, removing or syncing, counted from 0."""
    sync, taken = os.fsync, [0]

    def step() -> None:
        if taken[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)
        taken[0] += 1

    def audited(event: str, values: tuple[object, ...]) -> None:
        writing = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if writing or event in {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod"}:
            step()

    os.fsync = lambda file: (step(), sync(file))[1]  # type: ignore[assignment]
    sys.addaudithook(audited)


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_written_is_the_old_or_the_new(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("config.json", "machines.json", "layers.json", "megatron.log", "runs.csv"):
        (tmp_path / file.replace("runs.csv", "runs.in.csv")).write_bytes(seeds()[file])
    out, chance = tmp_path / name, random.Random(26)
    answer = asked(*OUTPUTS[name])
    assert answer.code in (0, None), answer.err
    new = written(out)
    folder = out.is_dir()
    duration = _time_of(lambda: asked(*OUTPUTS[name]))
    seen = set[str]()
    for turn in range(KILLS):
        old = dict.fromkeys(new, OLD)
        for each in new:
            (out / each if folder else out).write_bytes(OLD)
        if turn % 2:
            child = in_child(lambda turn=turn: (steps_until(turn // 2 % 12), asked(*OUTPUTS[name])))
        else:
            child = in_child(lambda: asked(*OUTPUTS[name]))
            time.sleep(chance.uniform(0, 1.2) * duration)
            if child.pid is not None and child.is_alive():
                os.kill(child.pid, signal.SIGKILL)
        child.join()
        after = written(out)
        assert {*after} == {*new}
        for each, data in after.items():
            assert data == old[each] or whole(each, data, new[each])
            seen.add("old" if data == old[each] else "new")
    assert "old" in seen


def whole(name: str, data: bytes, new: bytes) -> bool:
    """Whether these are the bytes of a whole new file; a page or a memo tells the time that it took."""
    if name.endswith(".json"):
        return bool(json.loads(data))
    return len(data) >= 0.99 * len(new) and data[-20:] == new[-20:]


def _time_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def test_no_other_file_of_the_package_writes() -> None:
    """What is written goes through `answers/files.py` or `answers/launch_folder.py`; locks hold nothing, and what runs
    on PyTorch writes to a folder that is its own and goes with it.
    """
    package = Path(files.__file__).parents[1]
    writes = (".write_text(", ".write_bytes(", '"wb")', '"w")', "'w'", "mkstemp", "to_csv(", '"xb")', '"a")')
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(mark in path.read_text("utf-8").replace("formatter.write_text", "") for mark in writes)
    }
    assert {name for name in found if not name.startswith("pytorch/")} <= {
        "answers/files.py",
        "answers/launch_folder.py",
        "answers/sweep/folder.py",
    }
