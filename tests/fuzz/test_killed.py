"""Killed while writing: whatever a command writes, there is the old file or the new one, and never a part."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
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
    "memo.pdf": ("memo", *FEW, "--out", "memo.pdf"),
    "trace.json": (*PLAN, "--trace", "trace.json"),
    "rows.csv": ("validate", "--runs", "runs.in.csv", "--rows", "rows.csv"),
    "plot.svg": ("validate", "--runs", "runs.in.csv", "--plot", "plot.svg"),
    "runs.csv": ("runs", "megatron.log", "--out", "runs.csv"),
    "launched": ("launch", *PLAN[1:], "--out", "launched", "--overwrite"),
    "of the best": ("plan", *FEW, "--launch", "of the best", "--overwrite"),
    "best.json": (
        *("textbook", "search", "--cluster-metadata", "machines.json", "--model-metadata", "layers.json"),
        *("--output", "best.json"),
    ),
}
"""Commands that write, by the name of what they write."""
SWEEP = """\
models = ["gpt2"]
clusters = ["1x1:h100", "1x2:h100"]

[jobs]
seq_len = "{}"
global_batch = 2
"""
STEPS = 25
"""On the disk, of what writes most; other outputs are whole before that."""
OLD = b"as it was before"


def in_child(work: Callable[[], object], method: str = "fork") -> multiprocessing.process.BaseProcess:
    """Begin something in another process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        child = multiprocessing.get_context(method).Process(target=work)  # type: ignore[attr-defined]
        child.start()
    return child


def method_for(name: str) -> str:
    """How a process that writes an output begins: a forked one waits for threads of its parent that have set a PDF."""
    return "spawn" if name.endswith(".pdf") else "fork"


def written(name: str) -> None:
    """Write an output of the list, in the working directory."""
    answer = asked(*OUTPUTS[name])
    assert answer.code in (0, None), answer.err


def not_written(name: str) -> None:
    """Try the same where no file may become larger than 64 bytes, which is how a process can meet a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    assert "cannot be written: File too large" in asked(*OUTPUTS[name]).err


def files_of(folder: Path) -> dict[Path, bytes]:
    """The bytes of every file that is no temporary one, by its path."""
    found = sorted(each for each in folder.rglob("*") if each.is_file() and not each.name.startswith("."))
    return {each: each.read_bytes() for each in found if not each.parent.name.startswith(".")}


def before_steps(step: Callable[[], None]) -> None:
    """Call something before every step of this process on the disk: an opening, renaming, removing or syncing."""
    sync = os.fsync

    def audited(event: str, values: tuple[object, ...]) -> None:
        writing = event == "open" and isinstance(values[2], int) and values[2] & (os.O_WRONLY | os.O_RDWR)
        if writing or event in {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod"}:
            step()

    os.fsync = lambda file: (step(), sync(file))[1]  # type: ignore[assignment]
    sys.addaudithook(audited)


def steps_until(last: int) -> None:
    """Kill this process before a step on the disk, counted from 0."""
    taken = itertools.count()
    before_steps(lambda: os.kill(os.getpid(), signal.SIGKILL) if next(taken) == last else None)


class Copies:
    """Copies of this process, made where it takes its first step on the disk, that go on from there and are killed.

    Of what is written each leaves the old bytes or the new ones; otherwise this process ends with 1, after the last of
    them with 0.
    """

    def __init__(self, new: dict[Path, bytes]) -> None:
        self._new, self._last, self._taken, self._is_copy, self._made = new, -1, 0, False, False
        self._clock, self._timed = os.pipe(), True

    def step(self) -> None:
        """Before every step on the disk."""
        if not self._made:
            self._made = True
            self._make()
        if self._is_copy:
            if self._taken == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            self._taken += 1
            if self._timed:
                os.write(self._clock[1], struct.pack("d", time.perf_counter()))

    def _make(self) -> None:
        """First one that ends by itself, for the time from its first step to its last; then by turns one that is killed
        at a random moment or before a step.
        """
        seen, chance = set[bytes](), random.Random(26)
        if not self._copied(None, -1, seen):
            return
        ((first,), *_, (last,)) = struct.iter_unpack("d", os.read(self._clock[0], 1 << 16))
        duration, self._timed = last - first, False
        for turn in range(KILLS):
            moment = chance.uniform(0, 1.2) * duration if turn % 2 else None
            if not self._copied(moment, -1 if turn % 2 else turn // 2 % STEPS, seen):
                return
        os._exit(int(seen != {OLD, *self._new.values()}))

    def _copied(self, moment: float | None, last: int, seen: set[bytes]) -> bool:
        """Whether this is the process that makes copies, after the end of one; moment: seconds until it is killed."""
        for path in self._new:
            path.write_bytes(OLD)
        if not (copy := os.fork()):
            self._is_copy, self._last = True, last
            return False
        if moment is not None:
            time.sleep(moment)
            os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)
        for path, data in self._new.items():
            if not path.exists() or path.read_bytes() not in (OLD, data):
                print(f"{path} is neither old nor new: step {last}, moment {moment}", file=sys.stderr)
                os._exit(1)
            seen.add(path.read_bytes())
        return True


def killed_while_writing(work: Callable[[], object], new: dict[Path, bytes]) -> None:
    """Work as far as the first step on the disk, and let copies of this process write."""
    before_steps(Copies(new).step)
    work()
    os._exit(0)  # of a copy; what set a PDF has threads, for which an exit would wait


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_is_written_is_the_old_or_the_new(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.endswith(".pdf"):
        pytest.importorskip("typst")
    monkeypatch.chdir(tmp_path)
    for file in ("config.json", "machines.json", "layers.json", "megatron.log", "runs.csv"):
        (tmp_path / file.replace("runs.csv", "runs.in.csv")).write_bytes(seeds()[file])
    given = {*files_of(tmp_path)}

    ask, method = partial(written, name), method_for(name)
    _time_of(ask, method)
    new = {path: data for path, data in files_of(tmp_path).items() if path not in given}
    assert new
    duration = _time_of(ask, method)
    assert {path: files_of(tmp_path)[path] for path in new} == new, "the same question writes the same bytes"
    seen = set[bytes]()
    for ending in killed(ask, duration, method, KILLS // 20 + 2):
        for path in new:
            path.write_bytes(OLD)
        ending()
        after = {path: data for path, data in files_of(tmp_path).items() if path not in given}
        assert {*after} == {*new}
        for path, data in after.items():
            assert data in (OLD, new[path])
            seen.add(data)
    assert OLD in seen
    writer = in_child(partial(killed_while_writing, ask, new), method)
    writer.join()
    assert writer.exitcode == 0


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_leaves_the_old_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("config.json", "machines.json", "layers.json", "megatron.log", "runs.csv"):
        (tmp_path / file.replace("runs.csv", "runs.in.csv")).write_bytes(seeds()[file])
    out = tmp_path / name
    if "--overwrite" in OUTPUTS[name]:
        out.mkdir()
        out /= "job.slurm"
    out.write_bytes(OLD)
    before = files_of(tmp_path)
    _time_of(partial(not_written, name), method_for(name))
    assert files_of(tmp_path) == before
    assert not [*tmp_path.glob(".*")]


def work_until(last: int, work: Callable[[], object]) -> None:
    """Work, and be killed before a step on the disk."""
    steps_until(last)
    work()


def killed(
    work: Callable[[], object], duration: float, method: str = "fork", kills: int = KILLS
) -> Iterator[Callable[[], None]]:
    """So often what does some work and is killed: by turns at any moment of its duration, seconds, and before any of
    its steps on the disk.
    """
    chance = random.Random(26)

    def at_any_moment() -> None:
        child = in_child(work, method)
        time.sleep(chance.uniform(0, 1.2) * duration)
        if child.pid is not None and child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
        child.join()

    def before_step(step: int) -> None:
        in_child(partial(work_until, step, work), method).join()

    for turn in range(kills):
        yield at_any_moment if turn % 2 else partial(before_step, turn // 2 % STEPS)


@pytest.mark.parametrize("options", [(), ("--all-plans",)], ids=["best", "all plans"])
def test_a_sweep_leaves_the_old_or_the_new_table_and_page(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old ones are those of another sweep. What was answered when it was killed is whole, too."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    for name, length in (("old", "512"), ("new", "1k")):
        (tmp_path / f"{name}.toml").write_text(SWEEP.format(length), "utf-8")
        _time_of(partial(asked, "sweep", f"{name}.toml", "--out", name, "--workers", "1", *options))
    out, seen = tmp_path / "swept", set[bytes]()
    old, new = ({path.name: data for path, data in files_of(tmp_path / name).items()} for name in ("old", "new"))

    def ask() -> None:
        assert asked("sweep", "new.toml", "--out", "swept", "--workers", "1", *options).code in (0, None)

    duration = _time_of(ask)
    for ending in killed(ask, duration):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "old", out)
        ending()
        for path, data in files_of(out).items():
            if path.suffix == ".json":
                assert json.loads(data)
            else:
                assert data in (old.get(path.name), new.get(path.name))
                assert path.suffix != ".parquet" or parquet.read_table(path).num_rows
            seen.add(data)
    assert {*seen} & {*old.values()}
    _time_of(ask)
    assert {path.name: data for path, data in files_of(out).items()} == new


def _time_of(work: Callable[[], object], method: str = "fork") -> float:
    """Seconds of the work in a child; what it imports may have threads, which no later child would have."""
    started = time.perf_counter()
    child = in_child(work, method)
    child.join()
    assert child.exitcode == 0
    return time.perf_counter() - started


def test_no_other_file_of_the_package_writes() -> None:
    """What is written goes through `answers/files.py` or `answers/launch/folder.py`; locks hold nothing, and what runs
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
        "answers/launch/folder.py",
        "answers/sweep/folder.py",
    }
