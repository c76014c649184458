"""How fast the planner is: full estimates a second, legal plans that a search decides, searches as they grow, commands
from a cold start, and what the machine can do.

Processor time, not wall time, so that a busy machine tells the same; the least of some rounds, and their spread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from meshwright.answers.pictures.lines import Axis, Points, lines_picture
from meshwright.cost.shape_times import ShapeTimes
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plans import Plans, regrouped
from meshwright.search.find import CHUNK, find
from meshwright.search.plan_space.space import space
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import job_of
from meshwright.specs.reading.inputs import read_inputs

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "llama-3.1-70b"
CURVE = ROOT / "docs" / "pictures" / "growth.svg"
ROUNDS = 5
MOST_PLANS = 1 << 19
"""Of one question, the distinct plans that are priced at most."""
MEBIBYTE = 1 << 10
"""In the KiB of which `ru_maxrss` counts on Linux."""


class Question(NamedTuple):
    """What is asked, by the words of the command line."""

    model: str
    cluster: str
    seq_len: int
    global_batch: int

    def inputs(self) -> Inputs:
        """The same as the planner takes it."""
        job = job_of(self.seq_len, global_batch=self.global_batch)
        return read_inputs(self.model, self.cluster, job, "megatron-core")

    def command(self, name: str, *options: str) -> list[str]:
        """A command that asks it."""
        sizes = ["--seq-len", str(self.seq_len), "--global-batch", str(self.global_batch)]
        return [name, "--model", self.model, "--cluster", self.cluster, *sizes, *options]


SMALL = Question(str(EXAMPLE), "8x8:h100", 8192, 256)
QUESTIONS = {
    "Llama 3.1 70B on 64": SMALL,
    "GPT-3 175B on 1,024": Question("gpt-3-175b", "128x8:a100-80gb", 2048, 1536),
    "Llama 3.1 405B on 1,024": Question("llama-3.1-405b", "128x8:h100", 8192, 1024),
    "DeepSeek-V3 on 2,048": Question("deepseek-v3", "256x8:h800", 4096, 15360),
}
GROWTH = {
    **QUESTIONS,
    "Llama 3.1 405B on 16,384": Question("llama-3.1-405b", "2048x8:h100", 8192, 2048),
    "Llama 3.1 405B on 100,800": Question("llama-3.1-405b", "12600x8:h100", 8192, 25200),
    "DeepSeek-V3 on 100,800": Question("deepseek-v3", "12600x8:h800", 4096, 201600),
    "Llama 3.1 405B on 131,072": Question("llama-3.1-405b", "16384x8:h100", 8192, 16384),
    "Kimi K2 (1T) on 16,384": Question("kimi-k2", "2048x8:h100", 4096, 16384),
    "Kimi K2 (1T) on 131,072": Question("kimi-k2", "16384x8:h100", 4096, 131072),
    "Kimi K2 (1T) on 110,880": Question("kimi-k2", "13860x8:h100", 4096, 221760),
    "DeepSeek-V3 on 720,720": Question("deepseek-v3", "90090x8:h800", 4096, 1441440),
}
ON_TWO_NODES = Question("llama-3.1-8b", "2x8:h100", 8192, 64)
COMMANDS = {
    "--version": ["--version"],
    "--help": ["--help"],
    "plan, 70B on 64": SMALL.command("plan"),
    "plan --runtime all, 8B on 16": ON_TWO_NODES.command("plan", "--runtime", "all"),
    "limits, 70B on 64": SMALL.command("limits"),
    "validate": ["validate"],
}


def main() -> None:
    # Processes first: one that is started by a large process counts that one's memory as its own.
    commands()
    growth()
    limit()
    estimates()


def limit() -> None:
    """Nanoseconds of one element of the operations that formulas are made of, in columns of a table's size and less."""
    print("One element of a column of 8-byte numbers:")
    random = np.random.default_rng(0)
    for rows in (1 << 12, 1 << 14, 1 << 17):
        # As many columns as a formula has at hand, so that the larger ones leave the nearest cache.
        columns, small, index = random.random((40, rows)), random.random(4096), random.integers(0, 4096, rows)
        operations: dict[str, Callable[[int], Any]] = {
            "sum": partial(_of_two, np.add, columns),
            "larger": partial(_of_two, np.maximum, columns),
            "gather": partial(_gathered, small, index),
        }
        cells = []
        for name, operation in operations.items():
            seconds = cpu_seconds(partial(_often, operation, range(400)))[0]
            cells.append(f"{name} {1e9 * seconds / rows / 400:.2f}")
        print(f"  {rows:7,} rows: {', '.join(cells)} ns")


def _often(operation: Callable[[int], Any], turns: range) -> None:
    for turn in turns:
        operation(turn)


def _gathered(values: Any, rows: Any, _: int) -> Any:
    return values[rows]


def _of_two(operation: Callable[[Any, Any], Any], columns: Any, turn: int) -> Any:
    return operation(columns[turn % 40], columns[(turn + 1) % 40])


def estimates() -> None:
    """Full estimates (time, memory, communication of every stage that matters) of legal plans, no two alike."""
    print(f"Full estimates of distinct legal plans, one core, {ROUNDS} rounds:")
    for name, question in QUESTIONS.items():
        inputs = question.inputs()
        tables = distinct_plans(inputs)
        count = sum(map(len, tables))
        rounds = cpu_seconds(partial(priced, tables, inputs))
        slowest = f"slowest round {count / rounds[-1]:,.0f}"
        print(f"  {name:26} {count / rounds[0]:9,.0f} plans/s ({slowest}; {count:,} plans)")
        found, seconds = find(inputs), cpu_seconds(partial(find, inputs))[0]
        unpriced = f"{found.unpriced:,} unfit by their states alone"
        print(f"{'':29}{found.legal / seconds:9,.0f} legal plans/s of a whole search ({found.legal:,}, {unpriced})")
    inputs = SMALL.inputs()
    table = distinct_plans(inputs)[0]
    few = [table[row] for row in range(0, len(table), -(-len(table) // 20))]
    one = cpu_seconds(lambda: [estimate_each([plan], inputs) for plan in few])[0] / len(few)
    joined = cpu_seconds(lambda: estimate_each(few, inputs))[0] / len(few)
    print(f"  one plan at a time: {1e3 * one:.1f} ms; {len(few)} named plans in one call: {1e3 * joined:.2f} ms each")
    print(f"  two processes: {two_processes():.2f} times the plans of one in the same time")


def priced(tables: list[Plans], inputs: Inputs) -> None:
    """Price every table as the first of its question: seconds by part, memory, compute by kind and verdict."""
    times = ShapeTimes(inputs)
    for table in tables:
        estimates = estimate_plans(table, inputs, times=times)
        _ = estimates.step_time_s, estimates.worst_memory, estimates.compute, estimates.verdict


def distinct_plans(inputs: Inputs) -> list[Plans]:
    """The first legal plans of the space, in tables as large as those of a search."""
    tables, count = [], 0
    for table in regrouped(space(inputs), CHUNK):
        legal = table.take(check(table, inputs).legal)
        count += len(legal)
        tables += [legal] if len(legal) else []
        if count >= MOST_PLANS:
            break
    return tables


def two_processes() -> float:
    """How many times as many plans two processes price as one, in wall time: 2 where two cores are free."""
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(searches, [1, 1]))
        alone = wall_seconds(lambda: list(pool.map(searches, [3])))
        together = wall_seconds(lambda: list(pool.map(searches, [3, 3])))
    return 2 * alone / together


def searches(count: int) -> None:
    """Search as often; of the module, so that a process can take it."""
    inputs = QUESTIONS["Llama 3.1 405B on 1,024"].inputs()
    for _ in range(count):
        find(inputs)


def growth() -> None:
    """Whole searches from a cold start, with the most memory that the process held."""
    print("Searches, from a cold start:")
    used = {name: cold(question.command("plan")) for name, question in GROWTH.items()}
    counts, curves = [], defaultdict(list)
    for name, (seconds, memory) in used.items():
        found = find(GROWTH[name].inputs())
        rate = found.considered / seconds
        counts.append((1.0, found.considered, found.legal))
        curves["experts" if found.inputs.model.is_moe else "dense"].append((found.considered, seconds))
        plans = f"{found.considered:11,} considered, {found.legal:9,} legal"
        print(f"  {name:26} {plans}: {seconds:5.2f} s, {rate:9,.0f} considered/s, {memory:4.0f} MiB")
    times = np.array([seconds for seconds, _ in used.values()])
    # Relative errors, so that the small ones count as much as the large.
    start, considered, legal = np.linalg.lstsq(np.array(counts) / times[:, None], np.ones(len(times)), rcond=None)[0]
    print(f"  fitted: {start:.2f} s, {1e6 * considered:.2f} us a plan considered, {1e6 * legal:.2f} us a legal one")
    draw({name: sorted(points) for name, points in curves.items()})


def draw(curves: Mapping[str, Points]) -> None:
    """The picture of the page on speed: seconds over plans considered."""
    across, up = Axis("plans considered", lambda count: f"{count:,.0f}"), Axis("seconds", lambda time: f"{time:.1f} s")
    title = "Processor time of a search from a cold start over the plans that it considers"
    CURVE.write_text(lines_picture(curves, title, across, up), "utf-8")


def commands() -> None:
    """Whole processes, from a cold start, against an interpreter that does nothing."""
    bare = min(process([sys.executable, "-c", ""])[0] for _ in range(ROUNDS))
    numpy = min(process([sys.executable, "-c", "import numpy"])[0] for _ in range(ROUNDS))
    print(f"Commands, processor time; a bare interpreter {bare:.3f} s, one that imports NumPy {numpy:.3f} s:")
    for name, words in COMMANDS.items():
        rounds = [cold(words) for _ in range(1 if words[0] == "validate" else ROUNDS)]
        seconds, memory = min(rounds)
        print(f"  meshwright {name:30} {seconds:6.3f} s, {seconds / bare:5.0f} times bare, {memory:4.0f} MiB")


def cold(words: list[str]) -> tuple[float, float]:
    """Processor seconds and the most memory, in MiB, of a command in a process of its own."""
    return process([sys.executable, "-m", "meshwright", *words])


def process(command: list[str]) -> tuple[float, float]:
    """The same of any command."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(started.pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / MEBIBYTE


def cpu_seconds(work: Callable[[], Any]) -> list[float]:
    """Processor seconds of some rounds, the fastest first."""
    work()
    return sorted(_timed(work, time.process_time) for _ in range(ROUNDS))


def wall_seconds(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of some rounds."""
    return min(_timed(work, time.perf_counter) for _ in range(ROUNDS))


def _timed(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    return clock() - started


if __name__ == "__main__":
    main()
