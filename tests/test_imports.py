"""Imports: a question makes those that it needs, and a help page hardly any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ASK = """
import json, os, sys
sys.argv = ["meshwright", *json.loads(sys.argv[1])]
from meshwright.__main__ import run
try:
    run()
except SystemExit:
    pass
threads = os.listdir("/proc/self/task") if os.path.exists("/proc/self/task") else []
print(json.dumps({"modules": sorted(sys.modules), "threads": len(threads)}), file=sys.stderr)
"""
PLAN = ("plan", "llama-3.1-8b", "1x8:h100", "--seq-len", "8192", "--global-batch", "64")
HEAVY = ("numpy", "pydantic", "meshwright.specs", "meshwright.search")
NOT_OF_PLANS = (
    "multiprocessing",
    "matplotlib",
    "pyarrow",
    "meshwright.search.many_searches.limits",
    "meshwright.search.many_searches.remedies",
    "meshwright.search.many_searches.crossover",
    "meshwright.search.many_searches.pareto",
    "meshwright.answers.explain.table",
    "meshwright.answers.plan_file",
    "meshwright.answers.experts.exchanges",
    "meshwright.launch.imports",
    "meshwright.launch.readers",
    "meshwright.launch.writers",
    "meshwright.textbook",
    "meshwright.validation",
)


def seen(*words: str) -> Any:
    """The modules and the number of threads that a command ends with; no threads where Linux does not list them."""
    done = subprocess.run([sys.executable, "-c", ASK, json.dumps(words)], capture_output=True, text=True, check=True)
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_what_is_the_same_for_every_question_imports_none_of_the_planner(word: str) -> None:
    assert not {*seen(word)["modules"]} & {*HEAVY}


def test_a_plan_imports_nothing_of_other_commands() -> None:
    modules = {*seen(*PLAN)["modules"]}
    assert "meshwright.search.find" in modules
    assert not modules & {*NOT_OF_PLANS}


@pytest.mark.skipif(not Path("/proc/self/task").exists() or os.cpu_count() == 1, reason="counts threads as Linux does")
def test_the_command_starts_no_threads_that_only_spin() -> None:
    assert seen(*PLAN)["threads"] == 1
