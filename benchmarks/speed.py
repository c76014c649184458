"""How fast the planner is: full estimates per second on one core, and the commands against a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from meshwright.cost.step import estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plans import Plans
from meshwright.search.find import CHUNK
from meshwright.search.space import space
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.read_model import read_model
from meshwright.specs.runtime import read_runtime

EXAMPLE = Path(__file__).parent.parent / "examples" / "llama-3.1-70b"
ROUNDS = 7


def main() -> None:
    engine()
    commands()


def engine() -> None:
    """Full estimates (time, memory, communication of every stage that matters) of legal 70B plans, in a table as large
    as those of a search.
    """
    inputs = Inputs(
        model=read_model(EXAMPLE),
        cluster=read_cluster("8x8:h100"),
        job=Job(sequence_length=8192, global_batch=256),
        runtime=read_runtime("megatron-core"),
    )
    considered = Plans.join(space(inputs))
    legal = considered.take(check(considered, inputs).legal)
    many = Plans.join([legal] * (CHUNK // len(legal) + 1)).take(slice(0, CHUNK))
    few = legal.take(slice(0, 20))
    array = median_seconds(lambda: estimate_plans(many, inputs)) / len(many)
    single = median_seconds(lambda: [estimate_plans(Plans.of([few[row]]), inputs) for row in range(len(few))]) / len(
        few
    )
    print(f"full estimates, one core: {1 / array:,.0f} plans/s (median of {ROUNDS} rounds of {len(many)})")
    print(f"one plan at a time: {1 / single:,.0f} plans/s; as columns {single / array:,.0f} times faster")
    listed = median_seconds(lambda: estimate_plans(many, inputs, keep_all_stages=True)) / len(many)
    print(f"with every stage listed: {listed / array:.2f} times the time")


def commands() -> None:
    """Whole processes, from a cold start, against an interpreter that does nothing."""
    dense = f"plan --model {EXAMPLE} --cluster 8x8:h100 --seq-len 8192 --global-batch 256"
    experts = "plan --model deepseek-v3 --cluster {} --seq-len 4096 --global-batch {}"
    asked = {
        "--help": "--help",
        "plan 70B on 64": dense,
        "plan DeepSeek-V3 on 1024": experts.format("128x8:h100", 8192),
        "plan DeepSeek-V3 on 2048": experts.format("256x8:h800", 15360),
    }
    bare = median_seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
    for name, words in asked.items():
        command = [sys.executable, "-m", "meshwright.cli", *words.split()]
        seconds = median_seconds(partial(subprocess.run, command, check=True, capture_output=True))
        print(f"meshwright {name}: {seconds:.2f} s, {seconds / bare:.1f} times a bare interpreter ({bare:.3f} s)")


def median_seconds(work: Callable[[], object]) -> float:
    work()
    return statistics.median(timed(work) for _ in range(ROUNDS))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
