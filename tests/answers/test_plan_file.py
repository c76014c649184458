"""The plan file: its numbers agree with each other and with the search, and the file alone is enough to price again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answered import QUESTIONS, asked, document, priced, written
from meshwright.answers.explain.table import explain_document
from meshwright.answers.plan_file import read_plan_file
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.layout.named import plan_of
from strategies import llama_70b, question

EVERY = [(name, kind) for name in QUESTIONS for kind in ("plan", "explain")]


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_the_parts_of_the_step_add_up(name: str, kind: str) -> None:
    for entry in priced(document(name, kind)):
        assert math.fsum(entry["time"].values()) == pytest.approx(entry["step_time_s"], rel=1e-9)
        assert math.fsum(entry["compute"].values()) == pytest.approx(entry["time"]["compute_s"], rel=1e-9)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_no_part_of_the_step_is_negative(name: str, kind: str) -> None:
    for entry in priced(document(name, kind)):
        assert {name: seconds for name, seconds in entry["time"].items() if seconds < 0} == {}


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_the_components_of_memory_add_up(name: str, kind: str) -> None:
    answer = document(name, kind)
    memories = [entry["memory"] for entry in priced(answer)]
    memories += [stage["memory"] for entry in answer["plans"] for stage in entry.get("stages", [])]
    for memory in memories:
        parts = memory["components"]
        outside = parts["context"] + parts["communicators"] + parts["exchange_buffers"]
        beside = parts["fragmentation"]
        live = math.fsum(parts.values()) - outside - beside
        assert memory["allocated_bytes"] == pytest.approx(live, rel=1e-9)
        assert memory["reserved_bytes"] == pytest.approx(live + beside, rel=1e-9)
        assert memory["device_bytes"] == pytest.approx(live + beside + outside, rel=1e-9)


@pytest.mark.parametrize("name", QUESTIONS)
def test_counts_shrink_from_considered_to_fitting(name: str) -> None:
    answer = document(name)
    shown = len(answer["plans"])
    assert answer["considered"] >= answer["legal"] >= answer["fitting"] >= shown >= 1


@pytest.mark.parametrize("name", QUESTIONS)
def test_speed_follows_from_the_step_time(name: str) -> None:
    inputs = asked(name)
    for entry in priced(document(name)):
        tokens = inputs.job.sequence_length * inputs.job.global_batch
        pace = tokens / entry["step_time_s"] / inputs.cluster.num_gpus
        assert entry["tokens_per_s_per_gpu"] == pytest.approx(pace, rel=1e-9)
        assert 0 < entry["mfu"] < 1


@pytest.mark.parametrize("name", QUESTIONS)
def test_degrees_multiply_and_batches_are_whole(name: str) -> None:
    inputs = asked(name)
    for entry in priced(document(name)):
        plan = entry["plan"]
        assert plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"] == inputs.cluster.num_gpus
        assert plan["micro_batch"] * plan["num_microbatches"] * plan["dp"] == inputs.job.global_batch


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_best_comes_first_and_every_other_says_why_it_lost(name: str) -> None:
    answer = document(name)
    best, *others = answer["plans"]
    assert best["lost"] is None
    assert all(entry["lost"] for entry in [*others, *answer["other_splits"]])
    order = [(entry["memory"]["verdict"] != "safe", entry["step_time_s"]) for entry in others]
    assert order == sorted(order)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_file_alone_gives_the_same_numbers_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(written(name), "utf-8")
    inputs, plans = read_plan_file(path)
    assert inputs == asked(name)
    again = [json.loads(json.dumps(explain_document(each, inputs))) for each in estimate_each(plans, inputs)]
    shown = [*document(name)["plans"], *document(name)["other_splits"]]
    for entry, explained in zip(shown, again, strict=True):
        repeated = explained["plans"][0]
        assert {**entry, "lost": None} == {**{key: repeated[key] for key in entry.keys() - {"lost"}}, "lost": None}


@pytest.mark.parametrize("name", QUESTIONS)
def test_everything_that_is_counted_or_measured_is_a_number(name: str) -> None:
    def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if steps is None:
            yield path, value
        else:
            for key, inner in steps:
                yield from leaves(inner, f"{path}.{key}")

    words = (
        "verdict",
        "recompute",
        "schedule",
        "lost",
        "sp",
        "context_exchange",
        "embedding",
        "head",
        "embedding_as_layer",
        "head_as_layer",
        "exchange",
        "kept",
        "name",
        "peak_moment",
        "link",
        "kind",
        "knob",
        "change",
        "axis",
        "like",
        "part",
        "unit",
        "operation",
        "content",
        "phase",
    )
    for path, value in leaves([*priced(document(name)), *priced(document(name, "explain"))]):
        if path.rpartition(".")[2] not in words and not re.search(
            r"\.(recompute_modules|chunk_layers|sources|unproven)(\.|$)", path
        ):
            assert type(value) in (int, float), path
            assert math.isfinite(value), path


def test_an_explained_plan_lists_every_stage() -> None:
    inputs = asked("llama 70b")
    plan = plan_of(inputs, tp=4, pp=8, vpp=2)
    answer = explain_document(estimate_each([plan], inputs)[0], inputs)
    (entry,) = answer["plans"]
    assert [stage["stage"] for stage in entry["stages"]] == list(range(8))
    assert sum(stage["layers"] for stage in entry["stages"]) == 80
    assert [stage["embedding"] for stage in entry["stages"]] == [True] + [False] * 7
    assert [stage["head"] for stage in entry["stages"]] == [False] * 7 + [True]
    worst = max(entry["stages"], key=lambda stage: stage["memory"]["device_bytes"])
    assert entry["memory"]["worst_stage"] == worst["stage"]
    assert entry["memory"]["device_bytes"] == worst["memory"]["device_bytes"]


def test_a_plan_that_does_not_fit_is_explained_and_counted_as_not_fitting() -> None:
    inputs = question(llama_70b(), "1x8:h100", global_batch=8, sequence_length=8192)
    answer = explain_document(estimate_each([plan_of(inputs, tp=8)], inputs)[0], inputs)
    assert (answer["considered"], answer["legal"], answer["fitting"]) == (1, 1, 0)
    assert answer["plans"][0]["memory"]["verdict"] == "out-of-memory"


def test_a_file_of_an_earlier_form_is_completed_and_says_so(tmp_path: Path) -> None:
    answer, name = json.loads(written("llama 70b")), "llama 70b"
    answer["schema"] = "meshwright.plan/1"
    del answer["written_by"], answer["plans"][0]["plan"]["etp"]
    del answer["inputs"]["runtime"]["communication"]["exchanged_counts"]
    del answer["inputs"]["cluster"]["accelerator"]["kernels"]["attention"]["row_width"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(answer), "utf-8")
    inputs, plans = read_plan_file(path)
    *others, told = inputs.job.assumptions
    assert inputs.replace(job=inputs.job.replace(assumptions=tuple(others))) == asked(name)
    assert told.endswith("runtime.communication.exchanged_counts, accelerator.kernels.attention.row_width")
    assert plans[0].etp == 1


def test_a_whole_file_is_not_completed(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(written("llama 70b"), "utf-8")
    assert read_plan_file(path)[0] == asked("llama 70b")
    answer = json.loads(written("llama 70b"))
    del answer["plans"][0]["plan"]["etp"]
    path.write_text(json.dumps(answer), "utf-8")
    with pytest.raises(InvalidSpec, match="etp: is missing"):
        read_plan_file(path)
