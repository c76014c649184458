"""Focusable: a picture for a page, whose marks one can point at, tab through and hear."""

from __future__ import annotations

from xml.etree import ElementTree

from meshwright.answers.pictures.svg import CHARACTER, LINE, MARGIN, WIDTH, number

SVG = "http://www.w3.org/2000/svg"


def focusable(svg: str) -> str:
    """A picture whose marks take the keyboard's focus, each with a line of text below the picture for as long as it is
    pointed at; without a background, so that a page can give it one.

    The page's style sheet hides `.readout` and shows it where its `.mark` is hovered over or has the focus.
    """
    root = ElementTree.fromstring(svg)
    root.attrib.pop("style", None)
    marks = [group for group in root.iter(f"{{{SVG}}}g") if group.get("class") == "mark"]
    if marks:
        *corner, height = (float(side) for side in root.attrib["viewBox"].split())
        root.set("viewBox", " ".join(map(number, (*corner, height + LINE))))
        root.set("role", "group")
        for mark in marks:
            _read_out(mark, height)
    return _written(root)


def _read_out(mark: ElementTree.Element, height: float) -> None:
    """Moves what a mark says from its title, which browsers show late, to a line at that height and to its name."""
    title = mark.find(f"{{{SVG}}}title")
    words = title.text or "" if title is not None else ""
    if title is not None:
        mark.remove(title)
    mark.attrib.update({"tabindex": "0", "role": "img", "aria-label": words})
    most = int((WIDTH - 2 * MARGIN) / CHARACTER)
    line = ElementTree.SubElement(mark, f"{{{SVG}}}text", {"class": "readout", "x": f"{MARGIN}", "y": number(height)})
    line.text = words if len(words) <= most else f"{words[: most - 1]}…"


def _written(root: ElementTree.Element) -> str:
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
    return ElementTree.tostring(root, encoding="unicode")
