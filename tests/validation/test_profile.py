"""Traces of a profiler: every instant of a step counts for one part, and the parts stand beside the predicted ones."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import asked, refused
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.validation.logs import lines
from meshwright.validation.profile.parts import StepParts, step_parts
from meshwright.validation.profile.spans import part_of, read_spans
from printed import megatron
from strategies import llama_8b, question
from traced import GEMM, collective, event, steps, written

MEASURED = {
    "products": 0.04,
    "attention": 0.01,
    "elementwise": 0.01,
    "optimizer": 0.005,
    "tp": 0.01,
    "dp": 0.005,
    "idle": 0.02,
}


def parts(tmp_path: Path, events: list[dict[str, Any]], rank: int | None = 0) -> StepParts:
    path = tmp_path / "trace.json"
    path.write_text(written(events, rank))
    return step_parts(read_spans(path))


def seconds(step: StepParts) -> dict[str, float]:
    return {part.name: part.measured_s for part in step.parts}


def test_parts_of_a_step_add_up_to_it(tmp_path: Path) -> None:
    step = parts(tmp_path, steps())
    assert seconds(step) == pytest.approx(MEASURED)
    assert (step.rank, step.steps, step.notes) == (0, 2, ())
    assert step.step_s == pytest.approx(0.1)
    assert sum(seconds(step).values()) == pytest.approx(step.step_s)
    overlapped = {part.name: part.overlapped_s for part in step.parts if part.overlapped_s}
    assert overlapped == pytest.approx({"dp": 0.015})


def test_the_order_and_the_form_of_the_file_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = steps()
    random.Random(1).shuffle(events)
    usual = parts(tmp_path, steps())
    assert parts(tmp_path, events).parts == usual.parts
    monkeypatch.setattr(lines, "CHUNK", 1000)
    assert parts(tmp_path, events).parts == usual.parts
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(written(events).encode()))
    assert step_parts(read_spans(path)).parts == usual.parts
    path.write_text(json.dumps(events))
    assert step_parts(read_spans(path)).parts == usual.parts


def test_kernels_beside_each_other_count_once(tmp_path: Path) -> None:
    twice = [*steps(), *(event("kernel", GEMM, start, start + 30, 8) for start in (5.0, 105.0))]
    assert seconds(parts(tmp_path, twice)) == pytest.approx(MEASURED)


def test_a_trace_without_steps_says_what_it_was_taken_for(tmp_path: Path) -> None:
    step = parts(tmp_path, [each for each in steps() if "annotation" not in each["cat"]], rank=None)
    assert (step.rank, step.steps) == (None, 1)
    assert step.step_s == pytest.approx(0.18)
    assert "it has no step marks" in step.notes[0]
    host = parts(tmp_path, [each for each in steps() if each["cat"] != "gpu_user_annotation"])
    assert "runs ahead" in host.notes[0]


@pytest.mark.parametrize(
    ("description", "ranks", "axis"),
    [
        ("TENSOR_MODEL_PARALLEL_GROUP", [0, 1], "tp"),
        ("DATA_PARALLEL_GROUP_WITH_CP", [0, 8], "dp"),
        ("EXPERT_DATA_PARALLEL_GROUP", [0, 8], "dp"),
        ("EXPERT_MODEL_PARALLEL_GROUP", [0, 1], "ep"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", [0, 8], "pp"),
        ("CONTEXT_PARALLEL_GROUP", [0, 2], "cp"),
        ("mesh_dp_shard_cp", [0, 1], "dp"),
        ("mesh_tp", [0, 1], "tp"),
        ("mesh_pp", [0, 8], "pp"),
        ("undefined", [0, 1, 2, 3], "tp"),
        ("undefined", [0, 4], "dp"),
        ("undefined", [1, 9], "pp"),
        ("undefined", [0, 3], "other"),
    ],
)
def test_groups_are_told_by_their_name_and_else_by_their_ranks(
    tmp_path: Path, description: str, ranks: list[int], axis: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(written([collective(description, ranks, 0, 1)]))
    plan = Plan(tp=4, sp=True, dp=2, pp=2, zero=1)
    assert [part.name for part in step_parts(read_spans(path, plan, question(llama_8b(), "2x8:h100"))).parts] == [axis]


def test_collectives_without_a_group_are_of_the_only_axis_that_there_is(tmp_path: Path) -> None:
    """Traces of PyTorch 2.1 name no group."""
    path = tmp_path / "trace.json"
    path.write_text(written([event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", 0, 1, 20)]))
    for plan, axis in ((Plan(dp=16, zero=1), "dp"), (Plan(tp=8, sp=True, dp=2, zero=1), "other")):
        spans = read_spans(path, plan, question(llama_8b(), "2x8:h100"))
        assert [part.name for part in step_parts(spans).parts] == [axis]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "products"),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x256", "products"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7_64x128", "attention"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::{lambda(float)#1}>", "elementwise"),
        ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<>>", "elementwise"),
        ("void transformer_engine::multi_tensor_adam::AdamFunctorMaster", "optimizer"),
        ("void deep_ep::internode::dispatch<true>", "collective"),
    ],
)
def test_kernels_are_sorted_by_their_names(name: str, part: str) -> None:
    assert part_of(name) == part


@pytest.mark.parametrize("cut", range(12))
def test_a_trace_cut_anywhere_gives_its_kernels_or_the_reason(tmp_path: Path, cut: int) -> None:
    path, whole = tmp_path / "trace.json", written(steps())
    path.write_text(whole[: len(whole) * cut // 12])
    if cut < 3:
        with pytest.raises(InvalidInput, match=r"is not a trace|holds no kernels"):
            read_spans(path)
    else:
        assert "cut off" in step_parts(read_spans(path)).notes[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "nothing",
        '{"traceEvents": [',
        '{"traceEvents": [3]}',
        '{"traceEvents": [{"ph": }]}',
        "[" * 5000,
        "\0\1",
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"is not a trace|holds no kernels"):
        read_spans(path)


def test_wrong_events_are_passed_over(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": GEMM, "ts": "1", "dur": 1},
        {"ph": "X", "cat": "kernel", "name": GEMM, "ts": 1e400, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": None, "ts": 1, "dur": -1},
        {"ph": "X", "cat": ["kernel"], "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": GEMM, "ts": 10**400, "dur": 1},
    ]
    assert seconds(parts(tmp_path, [*wrong, *steps()])) == pytest.approx(MEASURED)


def test_predicted_parts_add_up_to_the_predicted_step(tmp_path: Path) -> None:
    inputs = question(llama_8b(), "1x8:h100")
    plan = Plan(tp=2, sp=True, dp=4, zero=1, num_microbatches=inputs.job.global_batch // 4)
    (estimate,) = estimate_each([plan], inputs)
    path = tmp_path / "trace.json"
    path.write_text(written(steps()))
    step = step_parts(read_spans(path, plan, inputs), estimate, inputs)
    assert sum(part.predicted_s or 0 for part in step.parts) == pytest.approx(estimate.step_time_s)
    assert step.largest is not None
    assert step.largest.name == "products"


def test_the_command_sets_the_trace_beside_the_waterfall(tmp_path: Path) -> None:
    log, trace = tmp_path / "run.log", tmp_path / "trace.json"
    log.write_text("\n".join(megatron()))
    trace.write_text(written(steps()))
    screen = asked("runs", str(log), "--trace", str(trace)).out
    assert "2 steps of 100 ms" in screen
    document = asked("runs", str(log), "--trace", str(trace), "--json").document
    assert {each["name"]: each["measured_s"] for each in document["trace"]["parts"]} == pytest.approx(MEASURED)
    assert "is not a trace" in refused(asked("runs", str(log), "--trace", str(log)))


RECORD = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, schedule
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
done = lambda profiler: profiler.export_chrome_trace(sys.argv[1])
two = schedule(wait=0, warmup=1, active=2)
with profile(activities=[ProfilerActivity.CPU], schedule=two, on_trace_ready=done) as run:
    for _ in range(3):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        run.step()
"""


@pytest.mark.clients("torch")
def test_a_trace_that_pytorch_writes_is_read_to_its_end(tmp_path: Path) -> None:
    """A CPU has no kernels; beside those of the trace, the ones that stand here are read in it."""
    path = tmp_path / "trace.json"
    subprocess.run([sys.executable, "-c", RECORD, str(path)], check=True, capture_output=True)
    with pytest.raises(InvalidInput, match=r"holds no kernels of an accelerator .* user_annotation"):
        read_spans(path)
    real = json.loads(path.read_text())
    first = min(each["ts"] for each in real["traceEvents"] if str(each["name"]).startswith("ProfilerStep#"))
    text = path.read_text()
    place = text.index('"traceEvents": [') + len('"traceEvents": [')
    added = event("kernel", GEMM, 0.0, 0.001) | {"ts": first + 1}
    path.write_text(f"{text[:place]}{json.dumps(added)},{text[place:]}")
    spans = read_spans(path)
    assert (spans.count, len(spans.steps), spans.optimizer_steps, spans.broken) == (1, 2, 2, False)
