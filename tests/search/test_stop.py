"""Stop: a search that is asked to end answers with the best of what it has looked at, and says so."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from jsonschema import Draft202012Validator

import launch_examples
from commands import LLAMA, Answer, asked
from meshwright.answers.explain.vary import varied_by_names
from meshwright.answers.plan_file import json_schema
from meshwright.answers.progress import progress
from meshwright.answers.progress.looking import what_would_fit
from meshwright.answers.progress.progress import Stoppable, stoppable_progress
from meshwright.answers.unfit import nothing_fits as shortfall
from meshwright.errors import INTERRUPTED, Stopped
from meshwright.layout.plan import Plan
from meshwright.pytorch.processes import process
from meshwright.search import find as searches
from meshwright.search.find import find
from meshwright.search.many_searches.limits import limits, longer_and_longer
from meshwright.search.many_searches.remedies import Kind, remedies
from meshwright.search.stop import StopSearch
from meshwright.validation.fit.fitting import leave_one_source_out
from meshwright.validation.outcomes import NOT_REACHED, outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from strategies import llama_8b, llama_70b, question

INTERRUPTS = int(os.environ.get("KILLS", "4"))
"""At random moments; 200 with `make fuzz`."""
INPUTS = question(llama_8b(), "1x8:h100")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "CHUNK", 64)


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """Also where the tests run in the background of a shell, which would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _after(chunks: int) -> Any:
    """A progress that stops a search after so many chunks."""
    told: list[int] = []

    def progress(done: int, total: int) -> None:  # noqa: ARG001
        told.append(done)
        if len(told) > chunks:
            raise StopSearch

    return progress


def test_a_stopped_search_has_the_best_of_the_plans_that_it_looked_at() -> None:
    whole = find(INPUTS)
    results = [find(INPUTS, progress=_after(chunks)) for chunks in (2, 4, 10**6)]
    assert [each.complete for each in results] == [False, False, True]
    assert whole.complete
    assert results[0].considered < results[1].considered < results[2].considered == whole.size
    assert results[0].legal <= results[1].legal <= whole.legal
    assert results[2].best[0].plan == whole.best[0].plan
    fastest = [each.fastest.step_time_s for each in results if each.fastest]
    assert fastest == sorted(fastest, reverse=True)


def test_a_search_that_is_stopped_before_a_plan_fits_says_how_far_it_came() -> None:
    with pytest.raises(Stopped, match=r"of [\d,]+ plans the first 0 were looked at"):
        find(INPUTS, progress=_after(0))
    with pytest.raises(Stopped, match="the first 64 were looked at, and none fits"):
        find(question(llama_70b(), "1x8:v100"), progress=_after(1))


def test_stopped_limits_are_those_found_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "CHUNK", 4096)
    *_, whole = longer_and_longer(INPUTS)
    known = limits(INPUTS, progress=_after(5))
    assert not known.complete
    assert known.nodes is None
    assert known.sequence
    assert 0 < known.sequence.inputs.job.sequence_length <= whole.inputs.job.sequence_length


def _stopped(*arguments: str) -> Answer:
    """Asked with an interrupt in the first chunk."""
    checked = searches.check

    def interrupted(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return checked(*given)

    with mock.patch.object(searches, "check", side_effect=interrupted):
        return asked(*arguments)


def test_an_interrupted_plan_is_the_best_so_far_and_not_complete() -> None:
    answer = _stopped("plan", *LLAMA)
    assert answer.code == INTERRUPTED
    assert "not complete" in answer.message
    assert "The search was stopped early: 64 of" in " ".join(answer.out.split())
    document = _stopped("plan", *LLAMA, "--json").document
    assert document["complete"] is False
    Draft202012Validator(json_schema()).validate(document)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


LONG: dict[str, tuple[str, ...]] = {
    "plan": ("plan", *LLAMA),
    "limits": ("limits", *LLAMA),
    "memo": ("memo", *LLAMA),
    "explain": ("explain", *LLAMA, "--tp", "4"),
    "explain a launch file": ("explain", "--from", "run.sh", "--cluster", "2x8:h100"),
    "compare clusters": ("compare", *LLAMA, "--cluster", "1x8:h200"),
    "compare with a search": ("compare", "--from", "run.sh", "--cluster", "2x8:h100"),
    "validate": ("validate", "--where", "dataset == 'llmfoundry'"),
    "what would fit": ("plan", "--model", "llama-3.1-70b", *LLAMA[2:]),
}
"""Questions that may take more than a second, of every command with a best so far; sweeps have tests of their own."""


@pytest.fixture
def launch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.sh").write_text(launch_examples.FILES["slurm.sh"], "utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("launch_file")
@pytest.mark.parametrize("name", LONG)
def test_a_limit_of_time_does_the_same(name: str) -> None:
    for options in ((), ("--json",)):
        answer = asked(*LONG[name], "--time-limit", "1ms", *options)
        assert answer.code == INTERRUPTED, answer.err
        assert "not complete" in answer.message
    assert answer.document["complete"] is False
    assert asked(*LONG[name], "--time-limit", "0s").code == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.clients("torch")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("options", [(), ("--real", "2")])
def test_verify_is_stopped_without_an_answer(options: tuple[str, ...]) -> None:
    """Also where the interrupt comes as Python reads a module, whose open file it then warns of."""
    answer = asked("verify", *LLAMA, "--tp", "4", *options, "--time-limit", "1ms", "--json")
    assert answer.code == INTERRUPTED
    assert answer.document["complete"] is False


def test_work_that_tells_no_progress_is_stopped_where_it_stands() -> None:
    """By Ctrl-C, which counts before the work begins too, and by the limit of time."""
    with stoppable_progress() as stoppable:
        assert stoppable.at_once(lambda: 1) == 1
        assert stoppable.at_once(lambda: signal.raise_signal(signal.SIGINT) or 1) is None
        assert stoppable.stopped
    with stoppable_progress() as stoppable:
        signal.raise_signal(signal.SIGINT)
        assert stoppable.at_once(lambda: 1) is None
    with stoppable_progress(0.01) as stoppable:
        assert stoppable.at_once(lambda: time.sleep(60) or 1) is None
        assert stoppable.stopped


def test_a_memo_that_is_stopped_writes_no_file_and_prints_the_best_plans(tmp_path: Path) -> None:
    answer = asked("memo", *LLAMA, "--out", str(tmp_path / "memo.md"), "--time-limit", "1ms")
    assert "no memo is written" in answer.message
    assert "plans considered" in answer.out
    assert not [*tmp_path.iterdir()]


def test_what_would_fit_says_how_far_it_is_and_can_be_stopped() -> None:
    """Each of its searches tells its own plans."""
    result = find(question(llama_70b(), "1x8:v100"), top=1)
    told: list[tuple[int, int]] = []
    found = remedies(result, most=2, progress=lambda *each: told.append(each))
    assert len([done for done, _ in told if done == 0]) > 1
    assert found
    with pytest.raises(Stopped):
        remedies(result, most=2, progress=_after(len(told) // 2))


def test_what_would_fit_says_which_kind_of_it_is_looked_for_and_no_time_of_single_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = find(question(llama_70b(), "1x8:v100"), top=1)
    said: list[str] = []
    described: list[str | None] = []
    monkeypatch.setattr(searches, "CHUNK", 4096)
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "LONG_S", 0.0)
    found = what_would_fit(result, progress=Stoppable(lambda _done, _total: None, said.append, None, described.append))
    assert found == remedies(result)
    assert not said
    assert described == [
        *(
            f"Looking for what would fit: {kind.value}, {place} of {len(Kind)}"
            for place, kind in enumerate(Kind, start=1)
        ),
        None,
    ]


def test_without_a_terminal_what_is_asked_is_a_line_once_much_time_has_passed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.stoppable_progress() as soon:
        soon.asks("at once")
    monkeypatch.setattr(progress, "LONG_S", 0.0)
    with progress.stoppable_progress() as late:
        late.asks("later")
        late.asks(None)
    assert capsys.readouterr().err == "later\n"


@pytest.mark.parametrize("words", [("plan", "--runtime", "all"), ("compare", "--cluster", "1x8:a100")])
def test_no_search_for_what_would_fit_goes_on_once_it_is_stopped(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each runtime, and on each cluster."""
    monkeypatch.setattr(searches, "CHUNK", 4096)
    looked_for, check, stopped, after = shortfall.what_would_fit, searches.check, list[bool](), list[bool]()

    def interrupted(*given: Any) -> Any:
        stopped.append(True)
        signal.raise_signal(signal.SIGINT)
        return looked_for(*given)

    def checked(*given: Any) -> Any:
        after.extend(stopped)
        return check(*given)

    command, *options = words
    with mock.patch.object(shortfall, "what_would_fit", interrupted), mock.patch.object(searches, "check", checked):
        answer = asked(command, "--model", "llama-3.1-70b", *LLAMA[2:], *options, "--workers", "1")
    assert answer.code == INTERRUPTED, answer.err
    assert len(stopped) == 1
    assert not after


def test_tables_of_models_with_many_layers_are_small_and_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, told = find(INPUTS), list[int]()
    monkeypatch.setattr(searches, "DEEP", INPUTS.model.num_layers // 4)
    pieces = find(INPUTS, progress=lambda done, _: told.append(done))
    assert [after - before for before, after in itertools.pairwise(told)][:-1] == [searches.CHUNK // 16] * (
        len(told) - 2
    )
    assert [each.plan for each in pieces.best] == [each.plan for each in whole.best]
    assert (pieces.legal, pieces.fitting, pieces.refused) == (whole.legal, whole.fitting, whole.refused)


def test_clusters_that_were_not_reached_are_named() -> None:
    words = (*LONG["compare clusters"], "--workers", "1")
    document = asked(*words, "--time-limit", "1ms", "--json").document
    first, second = document["clusters"]
    assert first["best"]
    assert "the first 0 were looked at" in second["refused"]


@pytest.mark.parametrize("options", [(), ("--left-out",)])
def test_runs_that_were_not_reached_are_named(options: tuple[str, ...]) -> None:
    answer = asked(
        "validate", "--where", "dataset in ('llmfoundry', 'litgpt', 'olmo-core')", *options, "--time-limit", "1ms"
    )
    assert answer.code == INTERRUPTED
    assert "it was stopped before" in " ".join(answer.out.split())


def test_sources_that_were_fitted_are_kept_where_others_are_not_reached() -> None:
    def stop(done: int, total: int) -> None:
        if (done, total) == (1, 2):
            raise StopSearch

    table = read_rows()
    names = [*dict.fromkeys(row["dataset"] for row in table)]
    outcomes = outcomes_of(configurations([row for row in table if row["dataset"] in names[:2]]))
    judged = leave_one_source_out(outcomes, outcomes, stop)
    reached = {each.configuration.dataset for each in judged if each.refusal != NOT_REACHED}
    assert reached == {names[0]}


def test_the_search_for_the_nearest_plan_can_be_stopped() -> None:
    variation = varied_by_names(Plan(tp=4, sp=True, dp=2, zero=1, num_microbatches=32), INPUTS, pp=7)
    told: list[tuple[int, int]] = []
    assert variation.nearest_plan(lambda *each: told.append(each))
    assert all(0 <= done < total for done, total in told)
    with pytest.raises(Stopped):
        variation.priced(_after(0))


def test_processes_of_ranks_end_with_what_waits_for_them(tmp_path: Path) -> None:
    """Each writes that it has begun, and sleeps."""
    script = f"import pathlib, os, time; (pathlib.Path({str(tmp_path)!r}) / str(os.getpid())).touch(); time.sleep(60)"
    began = time.monotonic()

    def stop(_done: int, _total: int) -> None:
        while not [*tmp_path.iterdir()]:
            time.sleep(0.01)
        raise StopSearch

    with (
        mock.patch.object(process, "command", return_value=[sys.executable, "-c", script]),
        mock.patch.object(process, "require_torch"),
        pytest.raises(StopSearch),
    ):
        process.observe_ranks([()] * 8, stop)
    assert time.monotonic() - began < 30
    for each in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(each.name), 0)


def test_ctrl_c_leaves_no_traceback_at_any_moment() -> None:
    """From when the command itself runs: what Python says in the hundredths of a second before is its own."""
    chance, words = random.Random(26), ["explain", *LLAMA, "--tp", "4"]
    code = "from meshwright.__main__ import run; print('x', end='', flush=True); run()"
    for _ in range(INTERRUPTS):
        command = [sys.executable, "-c", code, *words]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout
        assert child.stdout.read(1) == "x"
        time.sleep(chance.uniform(0.05, 1.5))
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
        assert "Traceback" not in err
        assert child.returncode in (0, INTERRUPTED, -signal.SIGINT), err
        assert child.returncode != INTERRUPTED or "not complete" in out + err


def test_a_limit_that_suffices_changes_nothing() -> None:
    answer = asked("plan", *LLAMA, "--time-limit", "1000s", "--json")
    assert answer.code == 0
    assert "complete" not in answer.document


def test_runtimes_that_were_not_reached_are_named() -> None:
    answer = _stopped("plan", *LLAMA, "--runtime", "all", "--workers", "1")
    assert answer.code == INTERRUPTED
    assert "Without a plan" in answer.out
    assert "of 0 plans" not in answer.out


def test_a_second_interrupt_ends_at_once() -> None:
    stoppable = Stoppable(lambda _done, _total: None, print, None, print)
    stoppable.interrupt()
    with pytest.raises(KeyboardInterrupt):
        stoppable.interrupt()


def test_a_long_search_says_its_time_and_memory_first(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = iter([0.0, 1.0, 3.0, 5.0, 9.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    stoppable = Stoppable(lambda _done, _total: None, said.append, None, print)
    for done in (0, 100_000, 200_000, 300_000):
        stoppable(done, 5_000_000)
    assert len(said) == 1
    assert said[0].startswith("This search will take about 98 s and ")
    assert "of memory; others may follow. Ctrl-C shows the best plan so far." in said[0]


def test_ctrl_c_reaches_a_process(tmp_path: Path) -> None:
    """The signal comes while plans are priced, once the file that tells of it is there."""
    began = tmp_path / "began"
    code = (
        "import sys, pathlib, meshwright.search.find as f; c = f.check; f.CHUNK = 128\n"
        f"f.check = lambda *a: (pathlib.Path({str(began)!r}).touch(), c(*a))[1]\n"
        "from meshwright.__main__ import run; run()"
    )
    words = [
        "plan",
        "--model",
        "llama-3.1-405b",
        "--cluster",
        "1024x8:h100",
        "--seq-len",
        "8192",
        "--global-batch",
        "8192",
    ]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not began.exists() and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert child.returncode == INTERRUPTED, err
    assert "not complete" in out + err
    assert "Traceback" not in err
