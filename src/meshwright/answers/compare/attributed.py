"""Attributed: what several sides of a comparison rest on, each line once, with the sides that it holds for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def attributed(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines that hold for every side first, without a name; then those of fewer, behind the names of their sides.

    lines: of each side, by its name.

    >>> attributed({"A": ["bf16", "2-byte gradients"], "B": ["bf16", "4-byte gradients"], "C": ["bf16"]})
    ['bf16', 'A: 2-byte gradients', 'B: 4-byte gradients']
    """
    sides: dict[str, list[str]] = {}
    for name, of_side in lines.items():
        for line in dict.fromkeys(of_side):
            sides.setdefault(line, []).append(name)
    shared = [line for line, names in sides.items() if len(names) == len(lines)]
    own: dict[str, list[str]] = {}
    for line, names in sides.items():
        if len(names) < len(lines):
            own.setdefault(", ".join(names), []).append(line)
    return shared + [f"{names}: {line}" for names, of_names in own.items() for line in of_names]
