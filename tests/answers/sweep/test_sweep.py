"""Sweeps: the same tables whoever does the work, however often it is ended, and whatever the disk does."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from commands import asked
from meshwright.answers import files
from meshwright.answers.sweep import answer, run
from meshwright.answers.sweep.columns import COLUMNS
from meshwright.answers.sweep.folder import opened
from meshwright.answers.sweep.parquet import read_rows
from meshwright.answers.sweep.run import SweepResult, sweep
from meshwright.errors import INTERRUPTED, InvalidInput
from meshwright.search import find as find_module
from meshwright.search.find import whole_answer
from meshwright.search.result import SearchResult
from meshwright.search.stop import Progress, StopSearch
from meshwright.specs.inputs import Inputs

pytestmark = [pytest.mark.slow, pytest.mark.clients("pyarrow")]

FEW = {"tp": [2, 4], "cp": 1, "pp": 1, "micro_batch": 1}
SWEEP: dict[str, Any] = {
    "models": ["llama-3.1-8b", "llama-3.1-70b"],
    "clusters": ["1x8:h100", "1x8:a100"],
    "jobs": {"seq_len": 4096, "global_batch": 64, "tokens": "1T"},
    "knobs": {"precision": ["bf16", "fp8"]},
    "limits": {"few": FEW},
    "prices": {"h100": 2.5},
}
"""Two questions with a plan on H100 and one on A100, two that cannot be, three of which no plan fits."""
SHORT = SWEEP | {"models": ["llama-3.1-8b"], "clusters": ["1x8:h100"], "limits": {"few": FEW | {"tp": 4, "zero": 1}}}
"""Two questions of a few plans."""
SEVERAL = """\
models = ["gpt2"]
clusters = ["1x1:h100", "1x2:h100"]

[jobs]
seq_len = [256, 512]
global_batch = 2
"""
KILLS = 10
Outcome = dict[str, bytes]
"""Of every file of a sweep what is in it."""


def outcome(folder: Path) -> Outcome:
    """All that a finished sweep leaves; the lock is no part of it."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What the short sweep leaves in one go."""
    folder = tmp_path_factory.mktemp("short")
    sweep(SHORT, folder, workers=1, all_plans=True)
    return outcome(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepResult, Outcome]:
    """The sweep in one go, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    return sweep(SWEEP, folder, workers=1, all_plans=True), outcome(folder)


def in_child(work: Callable[[], object]) -> int | None:
    """Do something in a process of its own, and return how that ended: with 0, or minus a signal."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
    child.join()
    return child.exitcode


class Steps:
    """Counts the steps of a sweep on the disk, and ends the process before one of them."""

    def __init__(self, folder: Path, last: int) -> None:
        self.taken, self._folder, self._last = 0, str(folder), last

    def watch(self) -> None:
        """Begin: what is opened, removed and renamed in the folder counts, and every fsync."""
        sync = os.fsync
        os.fsync = lambda file: (self._step(), sync(file))[1]  # type: ignore[assignment]
        sys.addaudithook(lambda event, values: self._audited(event, values))

    def _audited(self, event: str, values: tuple[object, ...]) -> None:
        if event in {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"} and self._folder in str(values[0]):
            self._step()

    def _step(self) -> None:
        if self.taken == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken += 1


def watched(folder: Path, last: int = -1) -> int | None:
    """Sweep in a child that is killed before a step; the steps of a whole sweep are written beside its folder."""

    def work() -> None:
        steps = Steps(folder, last)
        steps.watch()
        sweep(SHORT, folder, workers=1, all_plans=True)
        folder.with_suffix(".steps").write_text(str(steps.taken))

    return in_child(work)


def test_a_sweep_that_is_killed_anywhere_ends_with_the_same_files(
    tmp_path: Path, short: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_QUESTIONS", 1)
    remembered = cache(lambda inputs: whole_answer(inputs, None))
    monkeypatch.setattr(answer, "whole_answer", lambda inputs, _: remembered(inputs))
    sweep(SHORT, tmp_path / "remembered", workers=1)
    assert watched(tmp_path / "steps") == 0
    steps = int((tmp_path / "steps.steps").read_text())
    assert steps > 3 * KILLS
    for last in sorted(random.Random(24).sample(range(steps), KILLS)):
        folder = tmp_path / str(last)
        assert watched(folder, last) == -signal.SIGKILL
        for path in folder.rglob("*.parquet"):
            assert path.read_bytes() == short[str(path.relative_to(folder))]
        sweep(SHORT, folder, workers=1, all_plans=True)
        assert outcome(folder) == short


def test_a_sweep_that_is_killed_again_and_again_never_does_work_twice(
    tmp_path: Path, short: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run answers one more question than the one before it."""
    monkeypatch.setattr(run, "MOST_QUESTIONS", 1)
    kept: list[int] = []

    def answered() -> int:
        return len([*(tmp_path / "parts").glob("*.json")])

    def kill(done: int, total: int) -> None:  # noqa: ARG001
        if answered() > len(kept):
            os.kill(os.getpid(), signal.SIGKILL)

    while in_child(lambda: sweep(SHORT, tmp_path, workers=1, all_plans=True, progress=kill)):
        kept.append(answered())
        assert len(kept) <= 2
    assert kept == [1, 2]
    assert outcome(tmp_path) == short


def test_a_sweep_that_is_stopped_says_what_is_answered_and_goes_on(
    tmp_path: Path, short: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_QUESTIONS", 1)

    def stop(done: int, total: int) -> None:
        if 0 < done < total:
            raise StopSearch

    stopped = sweep(SHORT, tmp_path, workers=1, all_plans=True, progress=stop)
    assert (len(stopped.table), stopped.unanswered, stopped.files) == (1, 1, [])
    assert stopped.to_dict()["complete"] is False
    assert not (tmp_path / "best.parquet").exists()
    again = sweep(SHORT, tmp_path, workers=1, all_plans=True)
    assert again.unanswered == 0
    assert outcome(tmp_path) == short


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_is_stopped_in_the_middle_of_a_question(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which only the first table is looked at, and no answer is kept."""
    monkeypatch.setattr(find_module, "CHUNK", 8)
    check, folder = find_module.check, tmp_path / "tables"
    folder.mkdir()

    def checked(*given: Any) -> Any:
        (folder / str(len([*folder.iterdir()]))).touch()
        time.sleep(0.3)
        return check(*given)

    def stop(_done: int, _total: int) -> None:
        if [*folder.iterdir()]:
            raise StopSearch

    monkeypatch.setattr(find_module, "check", checked)
    one = {name: SHORT[name] for name in ("models", "clusters", "jobs")}
    stopped = sweep(one, tmp_path / "o", workers=workers, progress=stop)
    assert (len(stopped.table), stopped.unanswered) == (0, 1)
    assert len([*folder.iterdir()]) <= 3


def test_a_limit_of_time_stops_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_QUESTIONS", 1)
    written = tmp_path / "sweep.toml"
    written.write_text(SEVERAL, "utf-8")
    words = ("sweep", str(written), "--out", str(tmp_path / "o"), "--workers", "1")
    answer = asked(*words, "--time-limit", "1ms")
    assert answer.code == INTERRUPTED
    assert "not complete" in answer.message
    assert "more are not answered yet" in " ".join(answer.out.split())
    assert asked(*words).code == 0


@pytest.mark.parametrize("workers", [2, None])
def test_other_workers_write_the_same_files(
    tmp_path: Path, whole: tuple[SweepResult, Outcome], workers: int | None
) -> None:
    if workers:
        sweep(SWEEP, tmp_path, workers=workers, all_plans=True)
    else:
        with ThreadPoolExecutor(3) as threads:
            sweep(SWEEP, tmp_path, executor=threads, all_plans=True)
    assert outcome(tmp_path) == whole[1]


@pytest.mark.parametrize("share", [0, 0.03, 0.1, 0.5, 0.99])
def test_a_full_disk_leaves_whole_files_only(tmp_path: Path, short: Outcome, share: float) -> None:
    """No file may become larger than a share of the largest, which is how a process can meet a full disk."""
    room = int(share * max(map(len, short.values())))

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        with pytest.raises(InvalidInput, match="cannot be written: File too large"):
            sweep(SHORT, tmp_path, workers=1, all_plans=True)

    assert in_child(work) == 0
    left = outcome(tmp_path)
    assert all(json.loads(content) for name, content in left.items() if name.endswith(".json"))
    assert {name for name in left if not name.endswith(".json")} <= short.keys()
    assert all(content == short[name] for name, content in left.items() if name in short)
    sweep(SHORT, tmp_path, workers=1, all_plans=True)
    assert outcome(tmp_path) == short


@pytest.mark.parametrize("last", range(5))
def test_a_disk_that_is_full_at_any_write_leaves_whole_files_only(
    tmp_path: Path, short: Outcome, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    calls: Iterator[int] = iter(range(10**6))

    def full(file: int) -> None:  # noqa: ARG001
        if next(calls) == last:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InvalidInput, match="cannot be written: No space left on device"):
        sweep(SHORT, tmp_path, workers=1, all_plans=True)
    assert not [name for name in outcome(tmp_path) if name.endswith(files.TEMPORARY)]
    sweep(SHORT, tmp_path, workers=1, all_plans=True)
    assert outcome(tmp_path) == short


def test_rows_say_what_plan_says(whole: tuple[SweepResult, Outcome]) -> None:
    result, _ = whole
    rows = read_rows(result.best)
    assert [tuple(row) for row in rows] == [tuple(COLUMNS)] * 8
    assert [{name: row.get(name) for name in COLUMNS} for row in result.rows()] == rows
    options = (
        "--seq-len",
        "4096",
        "--global-batch",
        "64",
        "--tp",
        "2,4",
        "--cp",
        "1",
        "--pp",
        "1",
        "--micro-batch",
        "1",
    )
    plan = asked("plan", "--model", "llama-3.1-8b", "--cluster", "1x8:h100", *options, "--tokens", "1T", "--json")
    best, row = plan.document["plans"][0], rows[0]
    assert {name: row[name] for name in ("tp", "dp", "zero", "num_microbatches", "recompute")} == {
        name: best["plan"][name] for name in ("tp", "dp", "zero", "num_microbatches", "recompute")
    }
    assert (row["step_time_s"], row["mfu"]) == (best["step_time_s"], best["mfu"])
    assert (row["device_bytes"], row["verdict"]) == (best["memory"]["device_bytes"], best["memory"]["verdict"])
    assert row["days"] == pytest.approx(1e12 / (64 * 4096) * row["step_time_s"] / 86400)
    assert row["cost"] == pytest.approx(row["days"] * 24 * 8 * 2.5)


def test_what_does_not_fit_and_what_cannot_be_are_rows_with_their_reason(whole: tuple[SweepResult, Outcome]) -> None:
    rows = whole[0].rows()
    assert [row["status"] for row in rows] == ["planned", "planned", "planned", "refused"] + ["nothing fits"] * 3 + [
        "refused"
    ]
    assert all("a100-sxm-80gb has no fp8 matrix units" in row["reason"] for row in rows if row["status"] == "refused")
    assert all("100-sxm-80gb has 79." in row["reason"] for row in rows if row["status"] == "nothing fits")
    assert all(row["leanest_bytes"] > row["visible_bytes"] for row in rows if row["status"] == "nothing fits")
    assert rows[2]["cost"] is None  # nobody gave a price of A100


def test_all_plans_hold_every_legal_plan_and_the_best_one(whole: tuple[SweepResult, Outcome]) -> None:
    result, _ = whole
    assert result.plans
    for row in result.rows():
        if row["status"] == "refused":
            continue
        plans = read_rows(result.plans / f"{row['question']}.parquet")
        assert len(plans) == row["legal"]
        assert {plan["question"] for plan in plans} == {row["question"]}
        assert min(plan["device_bytes"] for plan in plans) == row["leanest_bytes"]
        assert sum(plan["verdict"] != "out-of-memory" for plan in plans) == row["fitting"]
        if row["status"] == "planned":
            same = [
                plan for plan in plans if all(plan[name] == row[name] for name in ("tp", "dp", "zero", "recompute"))
            ]
            assert row["step_time_s"] in [plan["step_time_s"] for plan in same]


def test_a_longer_sweep_asks_only_what_is_new(
    tmp_path: Path, whole: tuple[SweepResult, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def noted(inputs: Inputs, progress: Progress | None) -> SearchResult:
        looked_at.append(inputs.cluster.name)
        return whole_answer(inputs, progress)

    monkeypatch.setattr(answer, "whole_answer", noted)
    shorter = SWEEP | {"models": ["llama-3.1-8b"], "clusters": ["1x8:h100"]}
    sizes: list[run.SweepSize] = []
    sweep(shorter, tmp_path, workers=1, all_plans=True, started=sizes.append)
    assert len(looked_at) == 2
    sweep(SWEEP, tmp_path, workers=1, all_plans=True, started=sizes.append)
    assert len(looked_at) == 2 + 4
    assert [(size.questions, size.refused, size.answered) for size in sizes] == [(2, 0, 0), (8, 2, 2)]
    assert outcome(tmp_path) == whole[1]
    sweep(shorter, tmp_path, workers=1, all_plans=True)
    assert len([*(tmp_path / "plans").iterdir()]) == 2


def test_another_planner_answers_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = SWEEP | {"models": ["llama-3.1-8b"], "clusters": ["1x8:h100"]}
    before = sweep(shorter, tmp_path, workers=1)
    for module in (run, answer):
        monkeypatch.setattr(module, "planner_hash", lambda: "another")
    after = sweep(shorter, tmp_path, workers=1)
    assert {row["question"] for row in before.rows()}.isdisjoint(row["question"] for row in after.rows())
    monkeypatch.setattr(run, "planner_hash", lambda: "a third")
    with pytest.raises(InvalidInput, match="a worker runs another Meshwright"):
        sweep(shorter, tmp_path, workers=1)


def test_a_file_with_mistakes_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown model"):
        sweep(SWEEP | {"models": "llama-4.1"}, tmp_path / "out")
    one = {"models": "llama-3.1-8b", "clusters": ["1x8:a100"], "knobs": {"precision": "fp8"}, "prices": {}}
    with pytest.raises(
        InvalidInput, match=r"none of the 1 questions of the sweep can be asked:\n(.*\n)*.*no fp8 matrix"
    ):
        sweep(SWEEP | one, tmp_path / "out")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.ENOENT])
def test_a_directory_that_cannot_be_made_is_an_answer(code: int, tmp_path: Path) -> None:
    failed = OSError(code, os.strerror(code))
    with mock.patch.object(Path, "mkdir", side_effect=failed), pytest.raises(InvalidInput, match=os.strerror(code)):
        opened(tmp_path / "out", all_plans=False).__enter__()


def test_two_sweeps_never_write_to_one_directory(tmp_path: Path) -> None:
    def other(size: run.SweepSize) -> None:  # noqa: ARG001
        with pytest.raises(InvalidInput, match="another sweep writes to"):
            sweep(SWEEP, tmp_path, workers=1)

    sweep(SWEEP | {"models": ["llama-3.1-8b"]}, tmp_path, workers=1, started=other)


def test_the_command_says_the_size_first_and_shows_table_and_files(tmp_path: Path) -> None:
    file, out = tmp_path / "sweep.toml", tmp_path / "out"
    file.write_text(
        'models = "llama-3.1-8b"\nclusters = ["1x8:h100", "2x8:h100"]\n'
        '[jobs]\nseq_len = [4096, 8192]\nglobal_batch = 64\ntokens = "1T"\n'
        "[limits.few]\ntp = [2, 4]\ncp = 1\npp = 1\nmicro_batch = 1\n",
        "utf-8",
    )
    command = ("sweep", str(file), "--out", str(out), "--workers", "1")
    first = asked(*command)
    assert first.code in (None, 0), first.err
    assert first.err.startswith("4 questions; 264 plans to price for 4\n")
    assert "1x8:h100, sequences of 4096" in " ".join(first.out.split())
    assert "4 questions: 4 planned" in first.out
    page = (out / "sweep.html").read_text("utf-8")
    assert all(f"<h2>{title}" in page or title in page for title in ("Step time", "Memory", "What limits the step"))
    assert page.count("<svg") >= 5
    assert "http://" not in page.replace("http://www.w3.org", "")
    again = asked(*command, "--json")
    assert again.err.startswith("4 questions, 4 answered before; 0 plans to price for 0\n")
    assert [row["plan"] for row in again.document["rows"]] == [row["plan"] for row in read_rows(out / "best.parquet")]


def test_without_pyarrow_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"pip install 'meshwright\[sweep\]'"):
        sweep(SWEEP, tmp_path / "out")
    assert not [*tmp_path.iterdir()]
