"""Traces that PyTorch writes of true steps of two processes on this machine: parts and collectives are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.validation.profile.parts import step_parts
from meshwright.validation.profile.spans import read_spans
from strategies import llama_8b, question

SCRIPT = Path(__file__).parent / "traced_run.py"
PLANS = {"ddp": Plan(dp=2, zero=0), "fsdp2": Plan(dp=2, zero=3)}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of each kind."""
    folder = tmp_path_factory.mktemp("traces")
    for kind in PLANS:
        (folder / kind).mkdir()
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([sys.executable, *start, str(SCRIPT), str(folder)], check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.clients("torch")
@pytest.mark.parametrize("kind", PLANS)
def test_the_parts_of_a_step_on_the_host_are_found(kind: str, traces: Path) -> None:
    inputs = question(llama_8b(), "1x2:h100", "torchtitan", global_batch=2)
    plan = PLANS[kind]
    for rank in range(2):
        path = traces / kind / f"{rank}.json"
        spans = read_spans(path, plan, inputs)
        told = step_parts(spans, estimate_each([plan], inputs)[0], inputs)
        parts = {part.name: part for part in told.parts}
        assert (told.rank, told.steps, spans.optimizer_steps) == (rank, 2, 2)
        assert sum(part.measured_s for part in told.parts) == pytest.approx(told.step_s)
        assert {*parts} >= {"products", "attention", "elementwise", "optimizer", "dp"}
        assert {part.predicted_s for part in told.parts} == {None}
        assert told.largest is None
        assert any(note.startswith("it ran on the host") for note in told.notes)
        counted = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
        assert len(spans.kernels["products"][0]) == sum(name in ("aten::mm", "aten::addmm") for name in counted)
        assert len(spans.kernels["dp"][0]) == sum(name.startswith("gloo:") for name in counted)
        assert ("gloo:all_gather" in counted) == (kind == "fsdp2")
