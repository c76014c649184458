"""The explain screen's parts: each figure is the one that the planner gives, at 80 columns and without colour."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from rich.console import Console

from commands import asked
from meshwright.answers.basis.uncertainty import margin_line
from meshwright.answers.document.blocks import Block, Table
from meshwright.answers.document.terminal import terminal
from meshwright.answers.explain.alternatives import (
    MOST_PLANS,
    alternatives_entry,
    cheap_search,
    knobs_section,
    neighbours,
    neighbours_section,
)
from meshwright.answers.explain.placement import placement_section
from meshwright.answers.explain.stages import stage_table
from meshwright.answers.explain.table import explain_screen, messages_entry
from meshwright.answers.links import axes
from meshwright.answers.step_parts import COMPUTED_NAMES, Computed, from_peak, waterfall_table, why_lost
from meshwright.answers.unfit.nothing_fits import remedy_words
from meshwright.answers.unfit.rescue import rescue, rescue_entry, rescue_section
from meshwright.cost.estimate import Estimate, Waterfall
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.named import plan_of
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.search.find import find
from meshwright.search.ranking.rank import rank_key
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds
from strategies import gpt_like, latent, legal_plans, llama_8b, llama_70b, mixture, question

WIDTH = 80
LLAMA = question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192)
ASKED: dict[str, tuple[Inputs, dict[str, Any]]] = {
    "interleaved": (LLAMA, {"tp": 8, "pp": 4, "vpp": 5}),
    "recomputed": (LLAMA, {"tp": 4, "pp": 4, "recompute": "full"}),
    "no room": (LLAMA, {"tp": 4, "pp": 2}),
    "long context": (
        question(llama_8b(), "2x8:h100", global_batch=8, sequence_length=65536),
        {"tp": 2, "cp": 8, "context_exchange": "ring", "recompute": "full"},
    ),
    "experts": (question(mixture(), "2x8:h100", global_batch=64), {"tp": 2, "pp": 2, "ep": 4}),
    "latent": (question(latent(), "4x8:b200", global_batch=64, precision="mxfp8"), {"tp": 2, "etp": 2, "ep": 8}),
    "one rank": (question(gpt_like(), "1x1:v100", "megatron-lm", global_batch=8, sequence_length=1024), {}),
}


@cache
def priced(name: str) -> Estimate:
    inputs, degrees = ASKED[name]
    return estimate_each([plan_of(inputs, **degrees)], inputs)[0]


def shown(screen: Block | tuple[Block, ...], **options: Any) -> str:
    out, blocks = io.StringIO(), (screen,) if isinstance(screen, Block) else screen
    Console(file=out, width=WIDTH, **{"color_system": None, "force_terminal": False} | options).print(terminal(blocks))
    return out.getvalue()


def told(screen: Block | tuple[Block, ...]) -> str:
    return " ".join(shown(screen).split())


@pytest.mark.parametrize("name", ASKED)
def test_the_screen_keeps_to_80_columns_without_colour(name: str) -> None:
    text = shown(explain_screen(priced(name), ASKED[name][0]))
    assert max(len(line.rstrip()) for line in text.splitlines()) <= WIDTH
    assert "\x1b" not in text


def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(explain_screen(priced("interleaved"), LLAMA), color_system="auto", force_terminal=True)
    assert "\x1b[1m" in text
    assert not re.search(r"\x1b\[(\d;)*(3[0-8]|9[0-7])", text)


@pytest.mark.parametrize("name", ASKED)
def test_the_way_from_the_peak_adds_up_to_the_step(name: str) -> None:
    inputs, estimate = ASKED[name][0], priced(name)
    parts = from_peak(estimate, inputs)
    assert sum(parts.values()) == pytest.approx(estimate.step_time_s, rel=1e-12)
    assert sum(parts[part] for part in Computed._fields) == pytest.approx(estimate.time.compute_s, rel=1e-12)
    assert set(parts) == {*Computed._fields, *Waterfall._fields} - {"compute_s"}
    assert parts["ideal_s"] / estimate.step_time_s == pytest.approx(estimate.mfu, rel=1e-12)
    assert parts["kernels_s"] > 0
    assert parts["elementwise_s"] > 0


def test_recomputation_is_what_the_same_plan_without_it_saves() -> None:
    plain = estimate_each([plan_of(LLAMA, tp=4, pp=4)], LLAMA)[0]
    again = priced("recomputed").time.compute_s - plain.time.compute_s
    assert priced("recomputed").slowest_stage == plain.slowest_stage
    assert from_peak(priced("recomputed"), LLAMA)["recompute_s"] == pytest.approx(again, rel=1e-12)
    assert from_peak(priced("interleaved"), LLAMA)["recompute_s"] == 0


def test_one_stage_is_as_slow_as_the_mean() -> None:
    assert from_peak(priced("one rank"), ASKED["one rank"][0])["uneven_s"] == pytest.approx(0, abs=1e-12)


def test_the_waterfall_shows_every_part_that_takes_time() -> None:
    text = told(waterfall_table(priced("interleaved"), LLAMA))
    parts = from_peak(priced("interleaved"), LLAMA)
    took = {COMPUTED_NAMES[name]: seconds for name, seconds in parts.items() if name in COMPUTED_NAMES and seconds}
    assert took
    assert [name for name, seconds in took.items() if f"{name} {format_seconds(seconds)}" not in text] == []


def test_the_bounds_of_memory_agree_with_the_verdict() -> None:
    """A safe plan fits at its most, one out of memory not at its least, whatever the plan."""
    inputs = question(llama_8b(), "1x8:h100", global_batch=32, sequence_length=16384)
    visible, seen = inputs.cluster.accelerator.visible_memory_bytes, set()
    estimates = estimate_plans(legal_plans(inputs), inputs, keep_all_stages=True)
    for row in range(0, len(estimates), 7):
        estimate = estimates[row]
        known = estimate.fit
        fits = known.least_bytes <= visible, known.most_bytes <= visible
        wanted = {Verdict.SAFE: (True, True), Verdict.AT_RISK: (True, False), Verdict.OUT_OF_MEMORY: (False, False)}
        assert fits == wanted[estimate.verdict]
        assert (known.margin_bytes >= 0) == (estimate.verdict == Verdict.SAFE)
        seen.add(estimate.verdict)
        line = margin_line(estimate, inputs)
        assert f"{format_gib(known.least_bytes)} to {format_gib(known.most_bytes)} there" in line
    assert seen == {*Verdict}


def test_a_stage_is_drawn_by_its_components() -> None:
    rows = [line for line in shown(stage_table(priced("interleaved"))).splitlines() if "|" in line[50:]]
    bars = [row[row.rindex(" ", 0, row.rindex("|")) + 1 :].rstrip() for row in rows[1:]]
    assert len(bars) == 4
    assert {len(bar) for bar in bars} == {25}
    first, memory = bars[0], priced("interleaved").stages[0].memory
    used = memory.device / LLAMA.cluster.accelerator.visible_memory_bytes * 24
    assert len(first.rstrip("|").rstrip(".")) == pytest.approx(used, abs=0.51)
    assert first.count("A") == pytest.approx(24 * memory.activations / 84932978278, abs=1)


def test_what_is_beyond_the_visible_memory_is_drawn_beyond_its_line() -> None:
    rows = shown(stage_table(priced("no room"))).splitlines()
    over = [row.rstrip() for row in rows if row[:1] == "0"]
    assert over
    assert over[0].rpartition("|")[2].strip(".")


def test_a_long_pipeline_is_folded() -> None:
    inputs = question(llama_70b(), "10x8:h100", global_batch=80)
    estimate = estimate_each([plan_of(inputs, pp=40, dp=2, tp=1)], inputs)[0]
    text = shown(stage_table(estimate))
    assert len(text.splitlines()) < 24
    assert "26 stages" in text
    assert "39" in text


@pytest.mark.parametrize("name", ASKED)
def test_every_axis_of_the_plan_is_placed(name: str) -> None:
    inputs, estimate = ASKED[name][0], priced(name)
    plan, text = estimate.plan, told(placement_section(estimate, inputs))
    for axis in axes(estimate, inputs):
        assert f"{axis.axis} {axis.ranks} " in text
        if axis.exposed_s is not None:
            assert f"{format_seconds(axis.exposed_s)} exposed per step" in text
    named = {axis.axis for axis in axes(estimate, inputs)}
    assert {degree for degree in ("tp", "pp") if getattr(plan, degree) > 1} <= named


def test_ranks_stand_where_the_runtime_numbers_them() -> None:
    text = shown(placement_section(priced("interleaved"), LLAMA))
    rows = [line.split() for line in text.splitlines() if line.startswith("nodes")]
    assert rows == [
        ["nodes", f"{2 * stage}-{2 * stage + 1}", "d0-1", f"p{stage}", *(f"t{rank}" for rank in range(8))]
        for stage in range(4)
    ]
    text = shown(placement_section(priced("experts"), ASKED["experts"][0]))
    assert "t0d0e0 t1d0e1 t0d1e2 t1d1e3 t0d2e0 t1d2e1 t0d3e2 t1d3e3" in text


def test_a_large_cluster_is_folded_with_counts() -> None:
    inputs = question(llama_70b(), "2048x8:h100", global_batch=8192)
    estimate = estimate_each([plan_of(inputs, tp=2, pp=16)], inputs)[0]
    lines = shown(placement_section(estimate, inputs)).splitlines()
    nodes = [line for line in lines if line.startswith(("node", "..."))]
    assert len(nodes) <= 9
    counted = next(int(line.split()[1]) for line in nodes if line.startswith("..."))
    assert nodes[-1].startswith("node 2047") or "-2047" in nodes[-1]
    assert counted > 0


def test_the_neighbours_are_the_searches_and_lose_what_they_lose() -> None:
    found, estimate = cheap_search(LLAMA), priced("interleaved")
    assert found
    ranked = neighbours(found, estimate)
    assert ranked[0].plan == found.best[0].plan
    assert len({each.plan for each in ranked}) == len(ranked) == 5
    assert estimate.plan not in [each.plan for each in ranked]
    text = told(neighbours_section(estimate, found))
    share = 1 - found.best[0].step_time_s / estimate.step_time_s
    assert f"{share:.1%} faster" in text
    entries = alternatives_entry(estimate, LLAMA, found)["neighbours"]
    assert [entry["lost"] for entry in entries] == [why_lost(each, estimate) for each in ranked]


def test_the_best_plan_is_no_neighbour_of_itself() -> None:
    found = cheap_search(LLAMA)
    assert found
    assert found.best[0].plan not in [each.plan for each in neighbours(found, found.best[0])]


def test_the_neighbours_stand_as_they_rank() -> None:
    """Also where the best plans of other splits are at risk, and other plans of the same split are safe."""
    found = cheap_search(question(llama_70b(), "3x8:h100", global_batch=100, sequence_length=8192))
    assert found
    assert Verdict.AT_RISK in [each.verdict for each in found.other_splits]
    ranked = neighbours(found, found.best[0])
    assert ranked[: len(found.best) - 1] == [*found.best[1:]]
    assert ranked == sorted(ranked, key=rank_key)


def test_a_large_space_is_not_searched() -> None:
    inputs = question(latent(), "64x8:b200", global_batch=4096)
    assert cheap_search(inputs) is None
    assert MOST_PLANS < 10**5
    estimate = estimate_each([plan_of(inputs, tp=2, ep=8)], inputs)[0]
    assert "meshwright plan ranks the plans" in told(neighbours_section(estimate, None))


def test_the_knobs_are_shown_with_their_seconds_and_bytes() -> None:
    result = sensitivity(priced("interleaved"), LLAMA)
    text = told(knobs_section(priced("interleaved"), LLAMA, result, None))
    for each in result.changes[:5]:
        assert f"{format_seconds(each.estimate.step_time_s)}" in text
        assert f"{each.estimate.memory.device / 2**30:.1f}" in text
    assert f"{result.illegal} not legal, {result.idle} without effect" in text


def test_a_change_of_the_question_is_told_as_a_user_types_it() -> None:
    text = told(knobs_section(priced("interleaved"), LLAMA, sensitivity(priced("interleaved"), LLAMA), None))
    for typed in ("--with tensor_parallel_overlap=on", "--with cross_entropy=native", "--precision fp8"):
        assert f"{typed} " in text
    assert "mbs 1 -> 2 " in text


def test_no_overlap_is_offered_to_be_turned_off() -> None:
    result = sensitivity(priced("interleaved"), LLAMA)
    assert any(each.change == "overlap.data_parallel 0.9 -> 0" for each in result.changes)
    assert "overlap" not in told(knobs_section(priced("interleaved"), LLAMA, result, None)).replace("_overlap=on", "")


def test_changes_of_hardware_stand_by_themselves_and_what_gains_nothing_is_not_named_first() -> None:
    inputs = question(llama_8b(), "2x8:h100", global_batch=64)
    estimate = estimate_each([plan_of(inputs, tp=2)], inputs)[0]
    result = sensitivity(estimate, inputs)
    assert {"nodes", "network"} <= {each.knob for each in result.changes}
    idle = replace(next(each for each in result.changes if each.knob == "precision"), estimate=estimate)
    result = replace(result, changes=(idle, *result.changes))
    [few] = [each for each in knobs_section(estimate, inputs, result, None, shown=50) if isinstance(each, Table)]
    assert not any(row[0].startswith(("nodes", "network")) for row in few.rows)
    assert not any(row[2] in ("+0.0%", "-0.0%") for row in few.rows)
    _, hardware = (each for each in knobs_section(estimate, inputs, result, None) if isinstance(each, Table))
    nodes = next(each for each in result.changes if each.change.startswith("nodes 2 -> 4"))
    (row,) = (row for row in hardware.rows if row[0] == nodes.change)
    assert row[3] == f"{nodes.estimate.tokens_per_s_per_gpu / estimate.tokens_per_s_per_gpu - 1:+.1%}"


@pytest.mark.parametrize("degrees", [{"zero": 0}, {"tp": 2}, {"tp": 4}, {"tp": 8}])
def test_a_plan_that_is_not_safe_is_told_what_would_be(degrees: dict[str, int]) -> None:
    """Single changes that are safe, else what a search recommends; of a safe plan nothing."""
    inputs = question(llama_8b(), "1x8:a100-sxm-40gb", global_batch=8, sequence_length=8192)
    estimate = estimate_each([plan_of(inputs, **degrees)], inputs)[0]
    result, near = sensitivity(estimate, inputs), find(inputs)
    ways = alternatives_entry(estimate, inputs, near).get("what_would_fit", [])
    text = told(knobs_section(estimate, inputs, result, rescue(estimate, result, near)))
    assert bool(ways) == (estimate.verdict != Verdict.SAFE)
    assert {each["verdict"] for each in ways} <= {"safe"}
    safe = [each for each in result.changes if each.estimate.verdict == Verdict.SAFE]
    if ways:
        assert {each["kind"] for each in ways} == {"change of the plan" if safe else "recommended plan"}
        assert ways[0]["words"] in text


def test_of_a_question_without_a_safe_plan_it_is_told_what_question_has_one() -> None:
    inputs = question(llama_8b(), "1x1:h100", global_batch=16, sequence_length=8192, precision="bf16")
    near = find(inputs)
    assert not near.best
    result = sensitivity(near.leanest, inputs)
    found = rescue(near.leanest, replace(result, changes=()), near)
    assert found
    assert found.remedies
    assert all(each.estimate.verdict == Verdict.SAFE for each in found.remedies)
    assert remedy_words(found.remedies[0]) in told(tuple(rescue_section(found, inputs)))
    assert [each["words"] for each in rescue_entry(found, inputs)["what_would_fit"]] == [
        *map(remedy_words, found.remedies)
    ]


@pytest.mark.parametrize("name", ASKED)
def test_what_the_listed_messages_expose_is_what_the_step_waits_for(name: str) -> None:
    estimate = priced(name)
    rows = messages_entry(estimate, ASKED[name][0])
    time = estimate.time
    waits = time.exposed_tp_s + time.exposed_cp_s + time.exposed_ep_s + time.exposed_pp_s + time.exposed_dp_s
    assert sum(row["exposed_s"] for row in rows) == pytest.approx(waits, rel=1e-9)
    assert bool(rows) == (estimate.plan != plan_of(ASKED["one rank"][0]))
    for row in rows:
        assert row["times"] > 0
        assert row["ranks"] > 1
        assert 0 <= row["exposed_s"] <= row["raw_s"] * (1 + 1e-9)


def test_no_change_is_negative_nothing() -> None:
    options = ("--runtime", "megatron-bridge", "--seq-len", "4k", "--global-batch", "1024", "--dp", "16", "--more")
    screen = asked("explain", "qwen3-8b", "2x8:h100", *options).out
    assert "+0.0%" in screen
    assert "-0.0%" not in screen
