"""Pictures of a sweep: lines that lie on each other are one, and a colour means the same in every picture."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from meshwright.answers.document.blocks import Figure
from meshwright.answers.sweep.columns import LABELS
from meshwright.answers.sweep.figures import figures


def row(model: str, cluster: str, gpus: int, limits: str, limiting: str, step_time_s: float) -> dict[str, Any]:
    """One answered question."""
    labels = dict.fromkeys(LABELS) | {"runtime": "megatron-core", "precision": "bf16", "with": ""}
    asked = {"model": model, "cluster": cluster, "gpus": gpus, "limits": limits, "accelerator": "h100"}
    times = {"step_time_s": step_time_s, "limiting": limiting, "limiting_s": 0.1, "days": None, "cost": None}
    return labels | asked | times | {"plan": "tp1", "status": "planned", "sequence_length": 4096, "global_batch": 8}


def drawn(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Every picture by its name."""
    return {each.name: each.svg for each in figures(rows) if isinstance(each, Figure)}


def test_lines_that_lie_on_each_other_are_one_with_both_names() -> None:
    cases = product((("1x8", 8), ("2x8", 16)), (("open", 1.0), ("narrow", 1.0), ("small", 2.0)))
    rows = [row("a", cluster, gpus, name, "bubble", time / gpus) for (cluster, gpus), (name, time) in cases]
    picture = drawn(rows)["step-time-1"]
    assert "open/narrow" in picture
    assert "small" in picture


def test_a_loss_has_one_colour_in_the_pictures_of_all_models() -> None:
    losses = {"a": ("bubble", "optimizer"), "b": ("optimizer", "host")}
    rows = [
        row(model, cluster, gpus, "", part, 1.0)
        for model, parts in losses.items()
        for (cluster, gpus), part in zip((("1x8", 8), ("2x8", 16)), parts, strict=True)
    ]
    pictures = drawn(rows)
    first, second = (_legend(pictures[f"limits-{place}"]) for place in (1, 2))
    shared = first.keys() & second.keys()
    assert shared
    assert {first[loss] for loss in shared} == {second[loss] for loss in shared}
    assert len({*(first | second).values()}) == 3


def _legend(picture: str) -> dict[str, str]:
    """The colour of every name."""
    pairs = re.findall(r'width="11" height="11" fill="(#\w+)"/>\s*<text[^>]*>([^<]*)<', picture)
    return {name: colour for colour, name in pairs}
