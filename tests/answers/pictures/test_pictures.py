"""Pictures: SVG that is well formed, stays inside its frame and shows what it is given."""

from __future__ import annotations

import re
from itertools import combinations
from math import isfinite
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.answers.document.inline import printable
from meshwright.answers.pictures.memory import MOST, MemoryBar, memory_picture
from meshwright.answers.pictures.pipeline import FILLS, MOST_ROWS, SECOND_CHUNKS, PipelineChart, pipeline_picture
from meshwright.answers.pictures.scaling import ScalingPoint, scaling_picture
from meshwright.answers.pictures.svg import WIDTH, round_step
from meshwright.answers.pictures.waterfall import waterfall_picture
from meshwright.schedules.action import ChunkTimes, play
from meshwright.schedules.interleaved import actions
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule, blocks
from meshwright.units import GIB

NS = "{http://www.w3.org/2000/svg}"
SIZES = st.floats(0, 500).map(lambda size: size * GIB)
NAMES = ("parameters", "gradients & more", "activations <kept>")


def drawn(svg: str) -> ElementTree.Element:
    """The picture, held to what every picture keeps."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == WIDTH
    assert root.attrib["role"] == "img"
    assert root.find(f"{NS}title") is not None
    assert root.find(f"{NS}desc") is not None
    for shape in root.iter():
        for name in ("x", "y", "x1", "y1", "x2", "y2", "width", "height"):
            if name in shape.attrib and shape is not root:
                value = float(shape.attrib[name])
                assert isfinite(value)
                assert -1 <= value <= (width if name in ("x", "x1", "x2", "width") else height) + 1
        if shape.tag == f"{NS}rect":
            assert float(shape.attrib["x"]) + float(shape.attrib["width"]) <= width + 1
    assert not re.search(r"\d{5,}", "".join(root.itertext()).replace(",", ""))
    return root


@given(st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=6), st.floats(10, 200))
def test_bars_of_memory_are_as_long_as_their_parts(sizes: list[tuple[float, ...]], limit: float) -> None:
    bars = [MemoryBar(f"bar {index}", tuple(zip(NAMES, each, strict=True))) for index, each in enumerate(sizes)]
    root = drawn(memory_picture(bars, limit * GIB, f"{limit:.1f} GiB", "Memory"))
    rects = [shape for shape in root.iter(f"{NS}rect") if float(shape.attrib["height"]) == 22]
    longest = min(max(limit * GIB, *(bar.total for bar in bars)), MOST * limit * GIB)
    scale = (WIDTH - 190 - 90 - 24) / longest
    for index, bar in enumerate(bars):
        y = 30 + index * 34
        width = sum(float(shape.attrib["width"]) for shape in rects if float(shape.attrib["y"]) == y)
        assert width == pytest.approx(min(bar.total, longest) * scale, abs=0.4)


@given(
    st.lists(st.tuples(st.floats(0.4, 1.0), st.floats(0.4, 1.0)), min_size=2, max_size=8),
    st.floats(1e2, 1e7),
)
def test_curves_of_scaling_stay_in_their_field(shares: list[tuple[float, float]], start: float) -> None:
    series = {
        name: [ScalingPoint(8 * 2**index, start * share[column] * 2**index) for index, share in enumerate(shares)]
        for column, name in enumerate(("same batch", "batch grows"))
    }
    root = drawn(scaling_picture(series, "Scaling"))
    lines = list(root.iter(f"{NS}polyline"))
    assert len(lines) == 4
    for line in lines:
        for x, y in (corner.split(",") for corner in line.attrib["points"].split()):
            assert 70 <= float(x) <= WIDTH - 130
            assert 30 - 0.1 <= float(y) <= 250.1


@given(st.lists(st.floats(-0.5, 20), min_size=1, max_size=12), st.floats(1, 50))
def test_a_waterfall_ends_at_the_sum(parts: list[float], ideal: float) -> None:
    named = [("ideal", ideal + 10), *((f"part {index}", seconds) for index, seconds in enumerate(parts))]
    root = drawn(waterfall_picture(named, "Waterfall"))
    rects = list(root.iter(f"{NS}rect"))
    assert len(rects) == len(named) + 1
    scale = float(rects[0].attrib["width"]) / named[0][1]
    whole = sum(seconds for _, seconds in named)
    assert float(rects[-1].attrib["width"]) == pytest.approx(whole * scale, abs=0.02 * whole * scale + 1)


@pytest.mark.parametrize(("stages", "chunks"), [(2, 1), (4, 2), (8, 4), (32, 1)])
def test_a_pipeline_shows_every_action_of_its_first_stages(stages: int, chunks: int) -> None:
    count = 2 * stages
    times = ChunkTimes.alike(chunks, *[[0.01] * stages] * 3)
    order = actions(PipelineShape(stages, count, chunks, stages))
    played = play(order, times, blocks(Schedule.INTERLEAVED, stages, chunks))
    chart = PipelineChart("interleaved", played.events, played.makespan_s)
    svg = pipeline_picture([chart, chart], "Pipeline")
    rows = min(stages, MOST_ROWS)
    rects = [shape for shape in drawn(svg).iter(f"{NS}rect") if float(shape.attrib["height"]) == 18]
    assert len(rects) == 2 * (rows + rows * 2 * count * chunks)
    assert ("more stages" in svg) == (stages > MOST_ROWS)
    assert len(svg) < 700_000


def test_charts_share_one_scale() -> None:
    """The same work twice as slow is twice as long."""
    parts = []
    for seconds in (0.01, 0.02):
        order, times = actions(PipelineShape(2, 4, 1, 2)), ChunkTimes.alike(1, *[[seconds] * 2] * 3)
        played = play(order, times, blocks(Schedule.INTERLEAVED, 2, 1))
        parts.append(PipelineChart(f"{seconds}", played.events, played.makespan_s))
    rects = [each for each in drawn(pipeline_picture(parts, "P")).iter(f"{NS}rect") if each.attrib["fill"] == "#e9edf0"]
    rows = [float(each.attrib["width"]) for each in rects if float(each.attrib["height"]) == 18]
    assert rows[2] == pytest.approx(2 * rows[0], abs=0.2)


def _lightness(colour: str) -> float:
    """CIE 1976 L*, 0 for black and 100 for white."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(116 * sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) ** (1 / 3) - 16)


def test_kinds_of_work_are_told_apart_in_grey() -> None:
    """Both shades of forward are lighter than both of backward, and no two kinds are alike."""
    kinds = {kind: _lightness(colour) for kind, (_, colour) in FILLS.items()}
    assert all(abs(a - b) > 10 for a, b in combinations(kinds.values(), 2))
    forward, backward = FILLS["forward"][1], FILLS["backward"][1]
    lightest = max(_lightness(colour) for colour in (backward, SECOND_CHUNKS[backward]))
    assert min(_lightness(colour) for colour in (forward, SECOND_CHUNKS[forward])) > lightest + 10


def test_every_shade_of_a_pipeline_is_in_its_legend() -> None:
    order, times = actions(PipelineShape(2, 4, 2, 2)), ChunkTimes.alike(2, *[[0.01] * 2] * 3)
    played = play(order, times, blocks(Schedule.INTERLEAVED, 2, 2))
    root = drawn(pipeline_picture([PipelineChart("p", played.events, played.makespan_s)], "P"))
    rects = list(root.iter(f"{NS}rect"))
    keys = {each.attrib["fill"] for each in rects if each.attrib["height"] == "11"}
    assert keys == {each.attrib["fill"] for each in rects if each.attrib["height"] == "18"}


@given(st.text(max_size=20))
def test_any_name_leaves_a_picture_well_formed(name: str) -> None:
    root = ElementTree.fromstring(memory_picture([MemoryBar(name, (("p", GIB),))], GIB, name, name))
    assert printable(name) in [shape.text or "" for shape in root.iter(f"{NS}text")]


def test_sizes_have_four_digits_at_most() -> None:
    svg = memory_picture([MemoryBar("all on one", (("parameters", 1428.4 * GIB),))], 79.1 * GIB, "visible", "Memory")
    assert "1,428 GiB" in svg


def test_curves_may_be_more_than_colours() -> None:
    points = (ScalingPoint(8, 1e5), ScalingPoint(16, 1.9e5))
    assert scaling_picture({f"series {index}": points for index in range(9)}, "Scaling").count("95.0% of perfect") == 9


@given(st.floats(1e-6, 1e6), st.integers(2, 12))
def test_steps_are_round_and_few(span: float, most: int) -> None:
    step = round_step(span, most)
    assert span / step <= most * (1 + 1e-9)
    assert f"{step:.0e}"[0] in "125"
    assert span / (step / 2.5) > most * (1 - 1e-9)
