"""Focusable: a picture for a page, whose marks one can point at, tab through and hear."""

from __future__ import annotations

from textwrap import wrap
from xml.etree import ElementTree

from meshwright.answers.pictures.svg import CHARACTER, LINE, MARGIN, WIDTH, number

MOST_READ_OUT = 2
"""Lines below a picture."""
SVG = "http://www.w3.org/2000/svg"


def focusable(svg: str) -> str:
    """A picture whose marks take the keyboard's focus, each with its words below the picture for as long as it is
    pointed at; without a background, so that a page can give it one.

    The page's style sheet hides `.readout` and shows it where its `.mark` is hovered over or has the focus.
    """
    root = ElementTree.fromstring(svg)
    root.attrib.pop("style", None)
    marks = [group for group in root.iter(f"{{{SVG}}}g") if group.get("class") == "mark"]
    if marks:
        *corner, height = (float(side) for side in root.attrib["viewBox"].split())
        root.set("viewBox", " ".join(map(number, (*corner, height + MOST_READ_OUT * LINE))))
        root.set("role", "group")
        for mark in marks:
            _read_out(mark, height)
    return _written(root)


def _read_out(mark: ElementTree.Element, height: float) -> None:
    """Moves what a mark says from its title, which browsers show late, to lines from that height on and to its name."""
    title = mark.find(f"{{{SVG}}}title")
    words = title.text or "" if title is not None else ""
    if title is not None:
        mark.remove(title)
    mark.attrib.update({"tabindex": "0", "role": "img", "aria-label": words})
    lines = wrap(words, int((WIDTH - 2 * MARGIN) / CHARACTER), max_lines=MOST_READ_OUT, placeholder=" …")
    readout = ElementTree.SubElement(mark, f"{{{SVG}}}text", {"class": "readout", "y": number(height)})
    for index, line in enumerate(lines):
        place = {"x": f"{MARGIN}"} | ({"dy": f"{LINE}"} if index else {})
        ElementTree.SubElement(readout, f"{{{SVG}}}tspan", place).text = line


def _written(root: ElementTree.Element) -> str:
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
    return ElementTree.tostring(root, encoding="unicode")
