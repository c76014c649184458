"""Spans: the kernels of a trace as intervals of time, each with the part of the step that it is of."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from meshwright.arrays import Ints
from meshwright.errors import InvalidInput
from meshwright.layout.groups import expert_data_ranks, expert_stride, stride
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.text_files import packaged_table
from meshwright.validation.profile.events import Trace

COMPUTED = ("products", "attention", "elementwise", "optimizer")
AXES = ("tp", "cp", "ep", "pp", "dp", "other")
"""Of collectives; other: of groups that the trace does not name."""
PARTS = (*COMPUTED, *AXES)
MOST_KERNELS = 20_000_000
MOST_NAMES = 100_000
_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_EXCHANGE = re.compile(r"deep_ep|intranode|internode|hybrid_ep|all_?to_?all", re.IGNORECASE)
_STEP, _OPTIMIZER = "ProfilerStep#", "Optimizer.step"
_OF_THE_HOST = (
    ("products", re.compile(r"aten::(addmm|baddbmm|bmm|mm|addmv|mv|dot)$")),
    ("attention", re.compile(r"aten::_scaled_dot_product")),
)
"""Operators of PyTorch 2.13 that a host runs by itself (aten/src/ATen/native/native_functions.yaml)."""
_HOST_EVENTS = {("cpu_op", "aten"), ("user_annotation", "gloo")}


@dataclass
class Spans:
    """Intervals in microseconds."""

    rank: int | None = None
    kernels: dict[str, tuple[array[float], array[float]]] = field(
        default_factory=lambda: {part: (array("d"), array("d")) for part in PARTS}
    )
    """Starts and ends by part."""
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Begin and end of every step, by its name: on the device where the trace has that, else on the host."""
    on_device: bool = False
    """The steps are those of the device."""
    optimizer_steps: int = 0
    broken: bool = False
    on_host: bool = False
    """No accelerator ran: intervals are those of operators and of what gloo exchanged."""
    groups: dict[str, str] = field(default_factory=dict)
    """The axis that the groups of collectives were taken for, by their names."""

    @property
    def count(self) -> int:
        """Kernels."""
        return sum(len(starts) for starts, _ in self.kernels.values())


@cache
def _table() -> tuple[list[tuple[str, re.Pattern[str]]], list[tuple[str, re.Pattern[str]]]]:
    document = packaged_table("meshwright.validation.profile", "kernels.toml")
    kinds = [(each["part"], re.compile(each["pattern"], re.IGNORECASE)) for each in document["kinds"]]
    return kinds, [(each["axis"], re.compile(each["pattern"], re.IGNORECASE)) for each in document["groups"]]


@cache
def part_of(name: str) -> str:
    """The part of a step that a kernel of that name is of, or `collective`.

    >>> part_of("nvjet_tst_256x128_64x4_2x1_v_bz_coopB_TNT"), part_of("ncclDevKernel_AllGather_RING_LL")
    ('products', 'collective')
    """
    return next((part for part, pattern in _table()[0] if pattern.search(name)), "elementwise")


def read_spans(path: Path, plan: Plan | None = None, inputs: Inputs | None = None) -> Spans:
    """The kernels of a trace; plan, inputs: of the run, which tell groups of ranks apart.

    Raises `InvalidInput` where the file is no trace, or holds no kernel of an accelerator.
    """
    trace, spans, seen = Trace(path), Spans(), dict[str, int]()
    host: dict[str, tuple[float, float]] = {}
    optimizers: list[tuple[float, float]] = []
    axes = _axes(plan, inputs) if plan and inputs else {}
    for event in trace.events():
        category = event.get("cat")
        span = _span(event)
        if span is None or not isinstance(category, str):
            continue
        if category in seen or len(seen) < MOST_NAMES:
            seen[category] = seen.get(category, 0) + 1
        name = str(event.get("name", ""))[:300]
        if category in _ON_DEVICE:
            _add(spans, path, _part(name, event, axes, spans) if category == "kernel" else "elementwise", span)
        elif category == "gpu_user_annotation" and name.startswith(_STEP):
            _widen(spans.steps, name, span)
        elif category == "user_annotation" and name.startswith(_STEP):
            _widen(host, name, span)
        elif category == "user_annotation" and name.startswith(_OPTIMIZER):
            spans.optimizer_steps += 1
            optimizers += [span] if len(optimizers) < MOST_NAMES else []
    if not spans.count:
        _add_operators(Trace(path), spans, optimizers, axes)
    if not spans.count:
        held = ", ".join(f"{count} {name}" for name, count in sorted(seen.items())[:8]) or "nothing"
        raise InvalidInput(
            f"{str(path)!r} holds no kernels of an accelerator (it holds {held}): profile with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        )
    spans.rank, spans.broken, spans.on_device = trace.rank, trace.broken, bool(spans.steps)
    spans.steps = spans.steps or host
    return spans


def _add(spans: Spans, path: Path, part: str, span: tuple[float, float]) -> None:
    starts, ends = spans.kernels[part]
    starts.append(span[0])
    ends.append(span[1])
    if spans.count > MOST_KERNELS:
        raise InvalidInput(f"{str(path)!r} holds more than {MOST_KERNELS} kernels; profile one step or two")


def _add_operators(
    trace: Trace, spans: Spans, optimizers: list[tuple[float, float]], axes: dict[tuple[int, int], str]
) -> None:
    """What a host ran by itself, where a trace says what gloo exchanged: operators, and collectives of gloo's threads.

    Source: PyTorch 2.13, torch/csrc/distributed/c10d/ProcessGroupGloo.cpp ("gloo:all_gather", "gloo:all_reduce").
    """
    begins = np.array([begin for begin, _ in optimizers])
    ends = np.array([end for _, end in optimizers])
    found = Spans()
    for event in trace.events():
        category, name, span = event.get("cat"), str(event.get("name", ""))[:300], _span(event)
        if span is None or (category, name.partition(":")[0]) not in _HOST_EVENTS:
            continue
        if category == "user_annotation":
            _add(found, trace.path, _axis(name, {}, axes), span)
            continue
        part = next((part for part, pattern in _OF_THE_HOST if pattern.match(name)), "elementwise")
        inside = part == "elementwise" and bool(((begins <= span[0]) & (span[1] <= ends)).any())
        _add(found, trace.path, "optimizer" if inside else part, span)
    if any(len(found.kernels[axis][0]) for axis in AXES):
        spans.kernels, spans.on_host = found.kernels, True


def _span(event: dict[str, Any]) -> tuple[float, float] | None:
    start, duration = event.get("ts"), event.get("dur")
    if event.get("ph") != "X" or isinstance(start, bool) or isinstance(duration, bool):
        return None
    if not isinstance(start, int | float) or not isinstance(duration, int | float):
        return None
    try:
        begin, end = float(start), float(start) + float(duration)
    except OverflowError:
        return None
    return (begin, end) if math.isfinite(end) and abs(end) < 1e18 and end >= begin else None


def _widen(steps: dict[str, tuple[float, float]], name: str, span: tuple[float, float]) -> None:
    """A step of several streams lasts from the first to the last of them."""
    if name in steps or len(steps) < MOST_NAMES:
        known = steps.get(name, span)
        steps[name] = min(known[0], span[0]), max(known[1], span[1])


def _part(name: str, event: dict[str, Any], axes: dict[tuple[int, int], str], spans: Spans) -> str:
    part = part_of(name)
    if part != "collective":
        return part
    given = event.get("args")
    args: dict[str, Any] = given if isinstance(given, dict) else {}
    group = f"{args.get('Process Group Description', '')} {args.get('Process Group Name', '')}".strip()[:100]
    key = f"{group} {str(args.get('Process Group Ranks', ''))[:200]} {args.get('Collective name', '')}"[:300]
    if key not in spans.groups:
        if len(spans.groups) >= MOST_NAMES:
            return "other"
        spans.groups[key] = _axis(name, args, axes)
    return spans.groups[key]


def _axis(name: str, args: dict[str, Any], axes: dict[tuple[int, int], str]) -> str:
    """The axis of a collective: what its group is called, else which ranks it joins, else what it does, else the only
    axis that the plan has.
    """
    description = str(args.get("Process Group Description", ""))[:200]
    for axis, pattern in _table()[1]:
        if pattern.search(description):
            return axis
    ranks = [int(each) for each in re.findall(r"\d{1,9}", str(args.get("Process Group Ranks", ""))[:200])[:2]]
    size = args.get("Group size")
    if len(ranks) == 2 and isinstance(size, int) and (size, ranks[1] - ranks[0]) in axes:
        return axes[size, ranks[1] - ranks[0]]
    told = f"{name} {args.get('Collective name', '')}"
    if _EXCHANGE.search(told):
        return "ep"
    only = {*axes.values()}
    return only.pop() if len(only) == 1 else "other"


def _axes(plan: Plan, inputs: Inputs) -> dict[tuple[int, int], str]:
    """Every axis of a plan by the size and the stride of its groups; of several alike the first."""
    order = inputs.runtime.plans.rank_order
    found: dict[tuple[int, int], str] = {}
    for axis, size, distance in _groups(plan, order):
        if int(size) > 1:
            found.setdefault((int(size), int(distance)), axis)
    return found


def _groups(plan: Plan, order: tuple[str, ...]) -> Iterator[tuple[str, Ints, Ints]]:
    for axis in ("tp", "cp", "pp"):
        yield axis, getattr(plan, axis), stride(plan, axis, order)
    yield "dp", plan.dp, stride(plan, "dp", order)
    yield "dp", plan.dp * plan.cp, min(stride(plan, "dp", order), stride(plan, "cp", order))
    yield "ep", plan.ep, expert_stride(plan, "ep", order)
    yield "ep", plan.etp, expert_stride(plan, "tp", order)
    yield "dp", expert_data_ranks(plan), expert_stride(plan, "dp", order)
