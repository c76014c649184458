"""Docstrings are plain text: set their doctests, trees and literal blocks as code, so that Markdown lets them be."""

from __future__ import annotations

import re
from typing import Any

import griffe

TREE = re.compile(r"^\s*[├└│]")


class PlainText(griffe.Extension):
    """Rewrites every docstring once, when its object is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Leave out the constructor of `Spec`: a specification takes its fields, which are listed."""
        if cls.name == "Spec":
            cls.del_member("__init__")


def as_markdown(text: str) -> str:
    """The text with doctests and trees in fences; a paragraph that ends in `::` ends in `:`."""
    return "\n\n".join(_fenced(paragraph) for paragraph in text.split("\n\n"))


def _fenced(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if lines[0].startswith(">>>"):
        return f"```pycon\n{paragraph}\n```"
    if any(map(TREE.match, lines)):
        return f"```text\n{paragraph}\n```"
    return re.sub(r"::$", ":", paragraph)
