"""Pictures of priced plans for notebooks, those of the memo."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.answers.document.blocks import Figure
from meshwright.answers.memo.sections.memory import memory_bar
from meshwright.answers.pictures.lines import Axis, lines_picture
from meshwright.answers.pictures.memory import memory_picture
from meshwright.answers.pictures.svg import gib
from meshwright.answers.pictures.waterfall import waterfall_picture
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.cost.estimate import Estimate
from meshwright.specs.inputs import Inputs
from meshwright.units import format_gib, format_seconds


def memory_figure(estimates: Sequence[Estimate], inputs: Inputs) -> Figure:
    """The memory of the fullest rank of each plan, numbered where there are several, against what is visible."""
    accelerator = inputs.cluster.accelerator
    names = [f"{number}" for number in range(1, len(estimates) + 1)] if len(estimates) > 1 else ["the plan"]
    bars = [memory_bar(name, each.memory) for name, each in zip(names, estimates, strict=True)]
    visible = format_gib(accelerator.visible_memory_bytes)
    title = f"Memory of the fullest rank, of the {visible} that {accelerator.id} has"
    picture = memory_picture(bars, accelerator.visible_memory_bytes, f"{visible} usable", title)
    return Figure("memory", picture, f"{title}, in GiB")


def waterfall_figure(estimate: Estimate, inputs: Inputs) -> Figure:
    """One step from the ideal to what is predicted."""
    title = "Time of one step, from the model's FLOPs at peak to the prediction"
    parts = [(ALL_NAMES.get(name, name), seconds) for name, seconds in from_peak(estimate, inputs).items() if seconds]
    return Figure("waterfall", waterfall_picture(parts, title), title)


def front_figure(front: Sequence[Estimate], inputs: Inputs) -> Figure:
    """Step time over memory of the plans that no other beats in both; front: the fastest first, two or more."""
    visible = inputs.cluster.accelerator.visible_memory_bytes
    title = f"Time against memory: plans that no other beats in both; {format_gib(visible)} is usable"
    plans = {(float(each.memory.device), float(each.step_time_s)): str(each.plan) for each in reversed(front)}
    axes = Axis("memory of the fullest rank", gib), Axis("step time", format_seconds)
    return Figure(
        "front", lines_picture({"Pareto-optimal plans": [*plans]}, title, *axes, steps=True, told=plans), title
    )
