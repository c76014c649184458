"""What `--json` prints: whole bytes everywhere, the name of every plan, and an answer where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from commands import LLAMA, Answer, asked
from meshwright.layout.plan import Plan

MIXTURE = ("--model", "mixtral-8x7b", "--cluster", "2x8:h100", "--seq-len", "4096", "--global-batch", "64")
NARROW = ("--cp", "1", "--pp", "1,2", "--tp", "1,2,4", "--micro-batch", "1")
EXPERTS = ("--cp", "1", "--pp", "1", "--tp", "1,2", "--ep", "4,8", "--etp", "1", "--micro-batch", "1")
TIGHT = ("--model", "llama-3.1-70b", "--cluster", "2x8:h100", "--seq-len", "131072", "--global-batch", "64")
TOO_TIGHT = (*TIGHT, "--tp", "8", "--cp", "1", "--pp", "2", "--micro-batch", "1", "--recompute", "full")
ANSWERS = {
    "plan": ("plan", *LLAMA, *NARROW, "--pareto", "--cite"),
    "plan of experts": ("plan", *MIXTURE, *EXPERTS),
    "plan with every runtime": ("plan", *LLAMA, *NARROW, "--runtime", "all"),
    "explain": ("explain", *LLAMA, "--tp", "2", "--cite"),
    "explain experts": ("explain", *MIXTURE, "--dp", "16", "--ep", "8"),
    "explain context parallelism": ("explain", *LLAMA, "--cp", "2"),
    "check": ("check", *LLAMA, "--tp", "2"),
    "limits": ("limits", *LLAMA, *NARROW),
    "memo": ("memo", *MIXTURE, *EXPERTS),
    "compare clusters": ("compare", *LLAMA, *NARROW, "--cluster", "1x8:a100", "--one-plan", "--tokens", "1T"),
    "compare plans": ("compare", *LLAMA, "--plan", "A:tp=2", "--plan", "B:tp=4,pp=2"),
    "model": ("model", "mixtral-8x7b"),
    "catalog": ("catalog", "accelerators", "h100"),
    "catalog of runtimes": ("catalog", "runtimes", "torchtitan"),
    "plan that does not fit": ("plan", *TOO_TIGHT),
    "limits that do not fit": ("limits", *TOO_TIGHT, "--dp", "1"),
    "memo that does not fit": ("memo", *TOO_TIGHT),
    "comparison that does not fit": ("compare", *TOO_TIGHT, "--cluster", "2x8:a100"),
}


def entries(value: Any, path: str = "") -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Every key of a document with its path, its value and the object it stands in."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield f"{path}.{key}", key, each, value
            yield from entries(each, f"{path}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from entries(each, f"{path}[{number}]")


@cache
def answer(name: str) -> Answer:
    return asked(*ANSWERS[name], "--json")


def sizes(value: Any) -> Iterator[Any]:
    """A number, or those of an object, by link or by key."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if parts is None:
        yield value
    else:
        for part in parts:
            yield from sizes(part)


@pytest.mark.parametrize("name", ANSWERS)
def test_bytes_are_whole_numbers(name: str) -> None:
    """But for those of one element, of which a kernel may read a half, and for words about them."""
    checked = 0
    for path, key, value, _ in entries(answer(name).document):
        of_words = any(
            part in path for part in (".sources.", ".cross_entropies.", ".switches.", "limits_waiting_bytes")
        )
        if key.endswith("bytes") and not of_words:
            checked += 1
            assert all(size is None or type(size) is int for size in sizes(value)), (path, value)
        if key == "components":
            checked += 1
            assert all(type(size) is int for size in value.values()), path
    assert checked or name == "model"


@pytest.mark.parametrize("name", ANSWERS)
def test_every_plan_has_its_name_beside_it(name: str) -> None:
    plans = 0
    for path, key, value, beside in entries(answer(name).document):
        if key == "plan" and isinstance(value, dict) and "price" not in beside:
            assert beside["name"] == str(Plan.from_dict(value)), path
            plans += 1
    assert plans or name.startswith(("model", "catalog"))


@pytest.mark.parametrize("name", [name for name in ANSWERS if name.endswith("not fit")])
def test_where_nothing_fits_json_says_what_would(name: str) -> None:
    assert answer(name).code == 3
    document = answer(name).document
    for each in document.get("clusters", {"": document}).values():
        assert each["leanest"]["memory"]["verdict"] == "out-of-memory"
        assert each["what_would_fit"] or "No plan is safe" in document["error"]
