"""Pictures of a page: every mark takes the focus and says what it shows."""

from __future__ import annotations

from xml.etree import ElementTree

from meshwright.answers.pictures.focusable import focusable
from meshwright.answers.pictures.lines import Axis, lines_picture
from meshwright.answers.pictures.memory import MemoryBar, memory_picture
from meshwright.answers.pictures.waterfall import waterfall_picture
from meshwright.units import GIB

BARS = [MemoryBar("plan & <1>", (("weights", 10 * GIB), ("gradients", 0.0), ("activations", 30 * GIB)))]


def marks(svg: str) -> list[ElementTree.Element]:
    return [each for each in ElementTree.fromstring(focusable(svg)).iter("g") if each.get("class") == "mark"]


def test_a_bar_says_its_parts() -> None:
    (bar,) = marks(memory_picture(BARS, 80 * GIB, "80 GiB", "Memory"))
    assert bar.attrib["aria-label"] == "plan & <1>: 40.0 GiB = weights 10.0 GiB, activations 30.0 GiB"
    assert bar.attrib["tabindex"] == "0"
    (readout,) = [each for each in bar.iter("text") if each.get("class") == "readout"]
    assert "".join(readout.itertext()) == bar.attrib["aria-label"]


def test_parts_of_a_step_say_seconds_and_share() -> None:
    labels = [each.attrib["aria-label"] for each in marks(waterfall_picture([("ideal", 1.0), ("lost", 3.0)], "Step"))]
    assert labels == ["ideal: 1 s, 25.0% of 4 s", "lost: 3 s, 75.0% of 4 s"]


def test_points_say_what_they_are_told_to() -> None:
    axis = Axis("x", lambda value: f"{value:g}")
    svg = lines_picture({"all": [(1.0, 2.0), (3.0, 4.0)]}, "Lines", axis, axis, told={(3.0, 4.0): "tp8"})
    assert [each.attrib["aria-label"] for each in marks(svg)] == ["all: 2 at 1", "tp8: 4 at 3"]


def test_the_line_of_text_has_room_below_and_a_picture_without_marks_stays_one_image() -> None:
    svg = memory_picture(BARS, 80 * GIB, "80 GiB", "Memory")
    before, after = ElementTree.fromstring(svg), ElementTree.fromstring(focusable(svg))
    height = float(before.attrib["viewBox"].split()[3])
    assert float(after.attrib["viewBox"].split()[3]) > height
    assert after.attrib["role"] == "group"
    assert "style" not in after.attrib
    plain = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 10" role="img"><title>t</title></svg>'
    assert ElementTree.fromstring(focusable(plain)).attrib["role"] == "img"
