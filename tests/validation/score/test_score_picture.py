"""The picture: well-formed, one mark for every pair, and everything inside of it."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from meshwright.answers.pictures.svg import WIDTH
from meshwright.validation.outcomes import Outcome
from meshwright.validation.score.picture import LEFT, SIDE, TOP, score_picture
from tables import outcome

SVG = "{http://www.w3.org/2000/svg}"


def _drawn(outcomes: list[Outcome]) -> ElementTree.Element:
    return ElementTree.fromstring(score_picture(outcomes))


def _marks(picture: ElementTree.Element) -> list[tuple[float, float]]:
    """Centres of circles and first corners of other shapes, the legend's as well."""
    circles = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in picture.iter(f"{SVG}circle")]
    corners = [each.attrib["points"].split(" ")[0].split(",") for each in picture.iter(f"{SVG}polygon")]
    return [*circles, *((float(x), float(y)) for x, y in corners)]


def _texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def _in_the_fields(picture: ElementTree.Element) -> list[tuple[float, float]]:
    return [(x, y) for x, y in _marks(picture) if y <= TOP + SIDE + 1]


CASES = {
    "none": [],
    "nothing measured": [outcome()],
    "one step time": [outcome((2.0, 3.0))],
    "one memory": [outcome(memory=(2.0, 3.0))],
    "equal values": [outcome((2.0, 2.0), (2.0, 2.0)), outcome((2.0, 2.0), (2.0, 2.0))],
    "far apart": [outcome((1e-9, 1e15), (1e15, 1e-9)), outcome((1.0, 1.0), (1.0, 1.0))],
    "many sources": [outcome((1.0 + n, 2.0), dataset=f"source <{n}> & \x00") for n in range(40)],
    "a long name": [outcome((1.0, 2.0), dataset="x" * 500)],
}


@pytest.mark.parametrize("name", CASES)
def test_every_pair_is_one_mark_inside_of_the_picture(name: str) -> None:
    picture = _drawn(CASES[name])
    pairs = sum((each.step_time is not None) + (each.memory is not None) for each in CASES[name])
    assert len(_in_the_fields(picture)) == pairs
    height = float(picture.attrib["viewBox"].split()[-1])
    assert all(0 < x < WIDTH and 0 < y < height for x, y in _marks(picture))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"none", "nothing measured"}))
def test_axes_have_a_few_figures_that_do_not_overlap(name: str) -> None:
    texts = [each for each in _drawn(CASES[name]).iter(f"{SVG}text") if each.attrib["text-anchor"] == "middle"]
    for left in (LEFT, LEFT + SIDE + 80):
        shown = [each for each in texts if left <= float(each.attrib["x"]) <= left + SIDE and each.text != "measured"]
        assert len(shown) in range(2, 12) or not shown
        ends = [
            (float(each.attrib["x"]) - half, float(each.attrib["x"]) + half)
            for each in shown
            for half in (3.3 * len(each.text or ""),)
        ]
        assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_a_mark_lies_on_the_line_where_the_prediction_is_right() -> None:
    (x, y), *_ = _in_the_fields(_drawn([outcome((5.0, 5.0)), outcome((1.0, 2.0)), outcome((80.0, 70.0))]))
    assert x - LEFT == pytest.approx(TOP + SIDE - y, abs=0.11)


def test_too_long_a_prediction_lies_above_the_line() -> None:
    (x, y), *_ = _in_the_fields(_drawn([outcome((5.0, 9.0))]))
    assert x - LEFT < TOP + SIDE - y


def test_the_legend_names_each_source_once_with_its_own_mark() -> None:
    picture = _drawn([outcome((1.0, 2.0), dataset=name) for name in ("b", "a", "b")])
    assert [text for text in _texts(picture) if text in ("a", "b")] == ["a", "b"]
    colours = [each.attrib["fill"] for each in picture.iter(f"{SVG}circle")]
    assert len(set(colours)) == 2
    assert len(colours) == 5


def test_names_that_are_too_long_are_cut() -> None:
    assert max(map(len, _texts(_drawn(CASES["a long name"])))) <= 60
