"""Fanning out: every result once, whoever does the work, and errors that come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor

import pytest

from meshwright.errors import Fault, IllegalPlan, InvalidInput, InvalidSpec, MeshwrightError, NothingFits, UnknownName
from meshwright.search.executors import InProcess, executor_of
from meshwright.search.fan_out import answers, results
from meshwright.search.stop import Progress, StopSearch

STARTS_WORKERS = """
import os, time
from meshwright.search.executors import executor_of

def worker(_):
    time.sleep(0.2)
    return os.getpid()

with executor_of(2) as executor:
    print(*executor.map(worker, range(2)), flush=True)
    time.sleep(60)
"""


def halved(number: int) -> int:
    if number % 2:
        raise InvalidInput(f"{number} is odd")
    return number // 2


def counted(limit: int, taken: list[int]) -> Iterator[int]:
    for number in range(limit):
        taken.append(number)
        yield 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_every_result_comes_once_with_the_place_of_its_argument(workers: int) -> None:
    with executor_of(workers) as executor:
        assert sorted(results(halved, range(0, 200, 2), executor, ahead=7)) == [(each, each) for each in range(100)]


@pytest.mark.parametrize("make", [InProcess, lambda: ThreadPoolExecutor(2)])
def test_no_more_arguments_are_taken_than_are_asked_for_ahead(make: type[Executor]) -> None:
    taken: list[int] = []
    with make() as executor:
        ready = results(halved, counted(100, taken), executor, ahead=5)
        for done in range(1, 20):
            next(ready)
            assert len(taken) <= done + 2 * 5


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_function_is_raised_here(workers: int) -> None:
    with pytest.raises(InvalidInput, match="3 is odd"), executor_of(workers) as executor:
        list(results(halved, [2, 3], executor))


def test_in_this_process_every_result_is_taken_before_the_next_argument() -> None:
    taken: list[int] = []
    for done, _ in enumerate(results(abs, counted(5, taken), InProcess()), 1):
        assert len(taken) == done


def waiting(number: int, progress: Progress | None) -> int:
    """A search that ends when it is told to."""
    assert progress
    try:
        while True:
            progress(0, 1)
            time.sleep(0.01)
    except StopSearch:
        return -number


def test_workers_are_told_to_stop_and_all_answer_with_what_they_have() -> None:
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) > 2:
            raise StopSearch

    with executor_of(2) as executor:
        assert answers(waiting, [1, 2, 3], executor, progress) == [-1, -2, -3]
    assert told[0] == (0, 3)
    with pytest.raises(StopSearch), ThreadPoolExecutor(1) as threads:
        answers(lambda number, _: time.sleep(number), [1, 1], threads, progress)


@pytest.mark.parametrize("workers", [1, 2])
def test_answers_stand_in_the_order_of_their_arguments(workers: int) -> None:
    with executor_of(workers) as executor:
        assert answers(_later, [3, 1, 2], executor) == [6, 2, 4]


def _later(number: int, _: Progress | None) -> int:
    time.sleep(0.01 * number)
    return 2 * number


@pytest.mark.parametrize(
    "error",
    [
        InvalidSpec("a model", [Fault("layers", "must be 1 or more")]),
        IllegalPlan("a plan", [Fault("tp", "is 3")]),
        UnknownName("accelerator", "h1000", ["h100"]),
        NothingFits("no plan fits", {"needs": 3}),
    ],
)
def test_errors_come_back_from_processes_as_they_were(error: MeshwrightError) -> None:
    with executor_of(2) as executor:
        back = executor.submit(_given_back, error).result()
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def _given_back(error: MeshwrightError) -> MeshwrightError:
    return error


def test_a_worker_that_is_killed_is_told() -> None:
    with pytest.raises(BrokenExecutor), executor_of(2) as executor:
        list(results(os._exit, [1], executor))


@pytest.mark.parametrize("workers", [0, -3])
def test_a_number_of_workers_that_cannot_be_is_refused(workers: int) -> None:
    with pytest.raises(InvalidInput, match=f"workers is {workers}"), executor_of(workers):
        pass


def test_workers_end_with_the_process_that_started_them() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_WORKERS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        workers = {int(each) for each in parent.stdout.readline().split()}
        parent.send_signal(signal.SIGKILL)
    assert workers
    deadline = time.monotonic() + 30
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [each for each in workers if _runs(each)]


def _runs(process: int) -> bool:
    """Whether a process runs, and does not only wait to be buried by whoever adopted it."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
