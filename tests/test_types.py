"""Types: mypy catches a column where one number belongs, and seconds where counts belong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CALLS = {
    "in_flight(Schedule.GPIPE, ranks, PipelineShape(stages=4, micro_batches=8))": None,
    "in_flight(Schedule.GPIPE, seconds, PipelineShape(stages=4, micro_batches=8))": "floating",
    "PipelineShape(stages=4, micro_batches=ranks)": "integer",
    "PassTimes(forward=seconds, input_gradient=2.0, weight_gradient=1.0)": None,
    "PassTimes(forward=ranks, input_gradient=2.0, weight_gradient=1.0)": "integer",
    "one_number(PassTimes(forward=1.0, input_gradient=2.0, weight_gradient=1.0).total)": "floating",
}
"""Calls, and what mypy says of the argument that does not belong there; None: nothing."""
SNIPPET = """
from meshwright.arrays import FloatColumn, IntColumn
from meshwright.schedules.peak import in_flight
from meshwright.schedules.pipeline import PassTimes, PipelineShape
from meshwright.schedules.records import Schedule

def one_number(seconds: float) -> float:
    return seconds

def calls(ranks: IntColumn, seconds: FloatColumn) -> None:
"""


def test_mypy_catches_a_swapped_argument(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET + "".join(f"    {call}\n" for call in CALLS), "utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), str(file)]
    output = subprocess.run(mypy, capture_output=True, text=True, check=False).stdout
    for line, (call, wrong) in enumerate(CALLS.items(), SNIPPET.count("\n") + 1):
        errors = re.findall(rf"snippet\.py:{line}: error: .*", output)
        assert len(errors) == (wrong is not None), f"{call}: {output}"
        assert wrong is None or re.search(wrong, errors[0])
