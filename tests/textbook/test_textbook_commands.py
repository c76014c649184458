"""The commands of the calculators: tables, dictionaries, the planner beside them, and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from meshwright.textbook import analyze_4d_parallelism, estimate_4d_memory
from worked import ANALYZED, DEGREES, HARDWARE, JOB, ONE, SEVEN, flags


def told(*arguments: str) -> str:
    """The screen as running text."""
    answer = asked("textbook", *arguments)
    assert (answer.code, answer.err) == (0, "")
    return " ".join(answer.out.split())


def document(*arguments: str) -> Any:
    answer = asked("textbook", *arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    return answer.document


def test_analyze_from_flags_and_from_a_file_is_the_functions_dictionary(tmp_path: Path) -> None:
    expected = analyze_4d_parallelism(ANALYZED, DEGREES, HARDWARE)
    given = flags(ANALYZED | DEGREES | HARDWARE)
    assert document("analyze", *given) == expected
    path = tmp_path / "job.json"
    configs = {"model_config": ANALYZED, "parallel_config": DEGREES, "hardware_config": HARDWARE}
    path.write_text(json.dumps(configs), "utf-8")
    assert document("analyze", str(path)) == expected
    assert document("analyze", str(path), "--num-gpus", "8")["valid"] is False
    assert document("analyze", str(path), "--explain")["per_step"]["tp_comm_gb_per_step"]["value"] == 12.8849


def test_analyze_takes_the_accelerators_and_their_memory_from_the_cluster() -> None:
    """As far as no flag says them; 40 GB of the label, not a silent 80."""
    given = flags(ANALYZED | DEGREES)
    for cluster, named in (("1x8:a100-sxm-40gb", {"num_gpus": 8, "memory_per_gpu_gb": 40.0}), ("1x4:a100", {})):
        hardware = named or {"num_gpus": 4, "memory_per_gpu_gb": 20.0}
        rest = () if named else ("--memory-per-gpu-gb", "20")
        answer = document("analyze", *given, *rest, "--model", "llama-2-7b", "--cluster", cluster)
        answer.pop("planner")
        assert answer == analyze_4d_parallelism(ANALYZED, DEGREES, hardware)


def test_analyze_prints_every_number_with_its_scope() -> None:
    given = flags(ANALYZED | DEGREES | HARDWARE)
    screen = told("analyze", *given)
    for fact in ("6,704,594,944", "13.4092", "14.0803", "per GPU, per micro-batch", "never add them"):
        assert fact in screen
    assert "16 P / (tp pp)" in told("analyze", *given, "--explain")


def test_analyze_beside_the_planner_says_how_much_and_why() -> None:
    given = flags(ANALYZED | DEGREES | HARDWARE)
    beside = document("analyze", *given, "--model", "llama-2-7b", "--cluster", "2x8:a100")["planner"]
    rows = {row["quantity"]: row for row in beside["rows"]}
    assert rows["parameters"]["planner"] == 6738415616
    assert rows["parameters"]["difference"] == 6738415616 - 6704594944
    assert rows["states per GPU"]["planner"] == pytest.approx(10.1119, abs=1e-3)
    assert "6 + 12 / 2 bytes" in rows["states per GPU"]["why"]
    assert "2 micro-batches alive" in rows["activations per GPU"]["why"]
    assert all(row["why"] for row in beside["rows"])
    assert "Compared with the planner" in told("analyze", *given, "--model", "llama-2-7b", "--cluster", "2x8:a100")


def test_sequence_parallelism_beyond_tp_has_no_counterpart() -> None:
    given = flags(ANALYZED | DEGREES | HARDWARE | {"sp": 2, "num_gpus": 32})
    beside = document("analyze", *given, "--model", "llama-2-7b", "--cluster", "4x8:a100")["planner"]
    assert any("sp 2 has no axis of its own" in note for note in beside["notes"])


def test_degrees_that_the_planner_refuses_are_still_analyzed() -> None:
    given = flags(ANALYZED | DEGREES | HARDWARE)
    answer = document("analyze", *given, "--model", "llama-2-7b", "--cluster", "1x8:a100")
    assert answer["total_params"] == 6704594944
    assert "world_size" in answer["planner"]["refused"]
    huge = flags(ANALYZED | DEGREES | HARDWARE | {"seq_len": 10**12})
    beside = document("analyze", *huge, "--model", "llama-2-7b", "--cluster", "2x8:a100")["planner"]
    assert "beyond" in beside["refused"]


def test_allreduce() -> None:
    sizes = flags({"hidden_size": 4096, "seq_len": 2048, "num_gpus": 8, "num_layers": 32})
    assert document("allreduce", *sizes)["total_comm_time_ms"] == 6.2635
    assert "1,879,048,192.0000 bytes" in told("allreduce", *sizes)


def test_memory_of_one_configuration_from_flags_and_from_a_model() -> None:
    expected = estimate_4d_memory(**SEVEN | JOB | ONE)
    assert document("memory", *flags(SEVEN | JOB)) == expected
    assert document("memory", "--model", "llama-2-7b", *flags(JOB)) == expected
    literal = estimate_4d_memory(**SEVEN | JOB | ONE | {"pp": 4}, form="literal", distributed_optimizer=False)
    changed = ("--pp", "4", "--form", "literal", "--no-distributed-optimizer")
    assert document("memory", "--model", "llama-2-7b", *flags(JOB), *changed) == literal
    assert "at-risk" in told("memory", "--model", "llama-2-7b", *flags(JOB), "--dp", "8")


def test_memory_of_all_configurations() -> None:
    question = ("memory", "--model", "llama-2-7b", *flags(JOB), "--gpus", "8", "--gpu-memory-gb", "40")
    space = document(*question)
    assert [len(space[verdict]) for verdict in ("safe", "at-risk", "out-of-memory")] == [8, 4, 8]
    assert "20 configurations of 8 GPUs, 20 legal: 8 safe, 4 at-risk, 8 out-of-memory" in told(*question)


def test_memory_is_judged_by_the_card_that_was_asked_about() -> None:
    question = ("memory", "--model", "llama-2-7b", "--seq-len", "4096", "--tp", "2", "--dp", "4")
    small = (*question, "--cluster", "1x8:a100-sxm-40gb")
    answer = document(*small)
    assert (round(answer["usage"], 4), answer["verdict"]) == (1.0172, "out-of-memory")
    assert "GPU of 40 GB, as --cluster 1x8:a100-sxm-40gb says" in told(*small)
    assert document(*question)["verdict"] == "safe"
    assert "GPU of 80 GB, the usual" in told(*question)
    given = document(*small, "--gpu-memory-gb", "80")
    assert given["verdict"] == "safe"
    every = ("memory", "--model", "llama-2-7b", "--seq-len", "4096", "--gpus", "8", "--cluster", "1x8:a100-sxm-40gb")
    assert len(document(*every)["out-of-memory"]) == 8


def test_the_configurations_stand_by_usage() -> None:
    question = ("memory", "--model", "llama-2-7b", *flags(JOB), "--gpus", "8", "--gpu-memory-gb", "40")
    usages = [int(each[:-1]) for each in re.findall(r"\d+%", asked("textbook", *question).out)]
    assert len(usages) == 20
    assert usages == sorted(usages)


def test_compare_memory_the_planner_counts_the_same_parameters_and_says_why_the_rest_differs() -> None:
    question = ("memory", "--model", "llama-3.1-8b", "--seq-len", "8192", "--tp", "2", "--pp", "2", "--dp", "2")
    answer = document(*question, "--cluster", "1x8:h100")
    rows = {row["quantity"]: row for row in answer["planner"]["rows"]}
    for part in ("parameters", "gradients", "optimizer"):
        assert rows[part]["planner"] == pytest.approx(answer[f"{part}_gb"], rel=1e-12)
        assert rows[part]["why"] == "the same"
    assert rows["activations"]["relative"] == pytest.approx(-0.17, abs=0.005)
    assert "6 f/h instead of 8 f/h" in rows["activations"]["why"]
    parts = [row["planner"] for name, row in rows.items() if not name.endswith("stage")]
    assert rows["first stage"]["planner"] == pytest.approx(sum(parts), rel=1e-12)
    assert rows["worst stage"]["planner"] >= rows["first stage"]["planner"]
    assert "Compared with the planner" in told(*question, "--cluster", "1x8:h100")


def test_search_writes_its_file_and_says_what_it_leaves_out(metadata: list[str], tmp_path: Path) -> None:
    answer = document("search", *metadata)
    assert (answer["best"], round(answer["ms"], 4), answer["evaluated"]) == ([4, 2, 1], 311.1369, 10)
    assert json.loads((tmp_path / "o.json").read_text("utf-8"))["4, 2, 1"] == "311.1369ms/iter"
    assert len(answer["left_out"]) == 7
    assert [line.split(":")[0] for line in answer["comparison"]["missing"]] == [
        "--model CONFIG",
        "--cluster NODESxGPUS",
        "--seq-len TOKENS",
    ]
    screen = told("search", *metadata, "--top", "2")
    for fact in ("dp 4, tp 2, pp 1 at 311.1369 ms", "memory is never checked", "--seq-len TOKENS"):
        assert fact in screen


def test_compare_search_the_planner(metadata: list[str]) -> None:
    job = ("--model", "llama-3.1-8b", "--cluster", "1x8:h100", "--seq-len", "8192", "--global-batch", "64")
    beside = document("search", *metadata, *job)["comparison"]
    assert beside["planner"]["step_time_ms"] <= beside["same_degrees"]["step_time_ms"]
    assert beside["same_degrees"]["plan"].startswith("tp2 sp pp1 dp4")
    told_apart = " ".join(beside["disagreements"])
    for figure in (
        "gpu_gflops is 312000",
        "num_layers is 24",
        "the sum of layer_tflops is 36",
        "global_batch_size is 8",
    ):
        assert figure in told_apart
    assert "not the same job" in told("search", *metadata, *job)


def test_what_the_planner_cannot_do_is_told_beside_the_answer(metadata: list[str]) -> None:
    job = ("--model", "llama-3.1-405b", "--cluster", "1x8:h100", "--seq-len", "8192")
    beside = document("search", *metadata, *job)["comparison"]
    assert "refused" in beside["planner"]
    assert beside["same_degrees"]["verdict"] == "out-of-memory"


@pytest.mark.parametrize("command", [[], ["analyze"], ["allreduce"], ["memory"], ["search"]])
def test_help(command: list[str]) -> None:
    assert f"meshwright {' '.join(['textbook', *command])} [OPTIONS]" in told(*command, "--help")
