"""Comments: what a launch file says to its readers, as lines of a script or of a Python module."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

WIDTH = 110


def commented(lines: Iterable[str]) -> Iterator[str]:
    """Lines as comments, long ones wrapped; whatever they hold, none ends up outside of its comment.

    >>> list(commented(["a", "", "b\\nc"]))
    ['# a', '#', '# b c']
    """
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        plain = " ".join(line.split())
        wrapped = textwrap.wrap(plain, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ") or [""]
        yield from (f"# {part}".rstrip() for part in wrapped)


def used_imports(imports: str, body: str) -> Iterator[str]:
    """Imports of a Python module, each with the names alone that its body uses.

    >>> list(used_imports("import os\\nfrom a import B, C", "C()"))
    ['from a import C']
    """
    for line in imports.splitlines():
        head, names = line.split("import ")
        used = [name for name in names.split(", ") if re.search(rf"\b{name}\b", body)]
        if used:
            yield f"{head}import {', '.join(used)}"


def slug(text: str) -> str:
    """A name as files and jobs may have it.

    >>> slug("my/model v2")
    'my-model-v2'
    """
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in text)
