"""Launch patch: the change of a launch file that makes its plan safe, or that gains most; JSON and screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from meshwright.answers.document.blocks import Block, Code, Heading, Lines, Paragraph
from meshwright.answers.launch.baseline import Baseline
from meshwright.answers.pace import longer
from meshwright.answers.typed import typed
from meshwright.cost.estimate import Estimate
from meshwright.launch.fields import fields_of
from meshwright.launch.imports.files.folder import SCRIPT, constants_beside
from meshwright.launch.imports.patch import OF_THE_SCRIPT, Patch, patch_of
from meshwright.launch.imports.question import LaunchQuestion
from meshwright.launch.readers.settings import FileSetting
from meshwright.search.changes.sensitivity import cheapest_safe, sensitivity
from meshwright.search.changes.variation import Variation
from meshwright.search.find import SearchResult
from meshwright.search.ranking.rank import LEAST_GAIN
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB, format_seconds

BEST = "The best plan here"
MOST_TRIED = 12
"""Changes of which the first is taken that the framework has settings for."""


class Wish(NamedTuple):
    """A plan that a file could have instead."""

    why: str
    estimate: Estimate
    inputs: Inputs


class LaunchPatch(NamedTuple):
    """A change of a file, and what it brings."""

    base: Estimate | None
    """Of the plan of the file; None where it has no price."""
    wish: Wish
    patch: Patch


def launch_patch(
    question: LaunchQuestion | None, estimate: Estimate, near: SearchResult | None, variation: Variation | None
) -> LaunchPatch | None:
    """The change of the file to the plan that options ask for; else, where its plan does not fit, the cheapest single
    change with which it is safe; else to the best plan, where that is faster. None without a file, or without a change.
    """
    if question is None:
        return None
    for _, wish in zip(range(MOST_TRIED), _wishes(question, estimate, near, variation), strict=False):
        patch = patch_of(question, wish.estimate.plan, wish.inputs)
        if patch.settings:
            return LaunchPatch(variation.saved_estimate if variation else estimate, wish, patch)
    return None


def patch_to_best(baseline: Baseline | None, best: Estimate) -> LaunchPatch | None:
    """The change of a file to the best plan of a search; None without a file, or where it is that plan."""
    if baseline is None or (baseline.plan == best.plan and baseline.inputs == baseline.launch.inputs):
        return None
    patch = patch_of(baseline.launch, best.plan, baseline.inputs)
    return LaunchPatch(baseline.estimate, Wish(BEST, best, baseline.inputs), patch) if patch.settings else None


def launch_patch_entry(change: LaunchPatch | None) -> dict[str, Any]:
    """The change as JSON: why, the settings as the framework spells them (null: left out), and the patch."""
    if change is None:
        return {}
    _, wish, patch = change
    return {
        "launch_patch": {
            "why": wish.why,
            "plan": wish.estimate.plan.to_dict(),
            "step_time_s": wish.estimate.step_time_s,
            "device_bytes": wish.estimate.memory.device,
            "settings": patch.settings,
            "patch": patch.diff,
            "besides": list(patch.besides),
        }
    }


def launch_patch_section(question: LaunchQuestion | None, change: LaunchPatch | None) -> tuple[Block, ...]:
    """The change with its gain in seconds and GiB, and the lines of the file that it changes."""
    if question is None or change is None:
        return ()
    base, wish, patch = change
    words = [f"{wish.why}: **{wish.estimate.plan}**", *_gains(base, wish.estimate), str(wish.estimate.verdict)]
    gain = ", ".join(words)
    lines = Code(tuple(patch.diff.splitlines())) if patch.diff else Lines(tuple(_by_hand(question, change)))
    return Heading(f"As a change of {question.path.name}", 3), Paragraph(gain), lines


def _gains(base: Estimate | None, wished: Estimate) -> Iterator[str]:
    """Seconds and GiB that a plan takes less than the one of the file."""
    if base is not None:
        faster = base.step_time_s - wished.step_time_s
        less = (base.memory.device - wished.memory.device) / GIB
        yield f"{format_seconds(abs(faster))} {'less' if faster >= 0 else 'more'} a step"
        yield f"{abs(less):.1f} GiB {'less' if less >= 0 else 'more'}"


def _by_hand(question: LaunchQuestion, change: LaunchPatch) -> Iterator[str]:
    """What to set where: in the file, in the training script beside it, or in one that is not known. A constant of the
    script stays where the file leaves its setting out: there it is what the plan has.
    """
    _, wish, patch = change
    fields = fields_of(wish.estimate.plan, wish.inputs)
    name, constants = question.path.name, constants_beside(question.path, question.table)
    if constants:
        yield f"Change these by hand, in {name} and in {SCRIPT} beside it, or write both anew with meshwright launch:"
    elif any(key.startswith(OF_THE_SCRIPT) for key in patch.settings):
        yield f"Change these by hand, in {name} and in your training script:"
    elif any(_is_computed(each, patch) for each in question.settings.settings):
        yield f"Change these by hand; {name} computes some of them or takes them from outside:"
    else:
        yield f"Change these by hand, in {name}:"
    own = {each.key for each in question.settings.settings if each.line}
    for key, value in patch.settings.items():
        table = question.table
        words = [f"leave out {table.key_in_file(key)}"]
        if value is not None:
            words = [f"set {each}" for each in table.assignments(key, value)]
        if key not in constants:
            yield from (f"- {each}" for each in words)
            continue
        constant = constants[key]
        written = fields[question.table.script[constant]] if value is None else value
        beside = f"set {constant} = {written!r} in {SCRIPT}"
        yield f"- {words[0]}, and {beside}" if key in own else f"- {beside}"
    yield from (f"- {each}" for each in patch.besides)


def _is_computed(setting: FileSetting, patch: Patch) -> bool:
    """Whether the value of a setting that changes stands nowhere in the file."""
    return setting.key in patch.settings and setting.value is not True and setting.span is None


def _wishes(
    question: LaunchQuestion, estimate: Estimate, near: SearchResult | None, variation: Variation | None
) -> Iterator[Wish]:
    if variation is not None:
        yield Wish("What the options ask for", estimate, variation.inputs)
        return
    inputs = question.inputs
    if not estimate.verdict.fits:
        for each in cheapest_safe(sensitivity(estimate, inputs)):
            if each.inputs.cluster == inputs.cluster and each.inputs.model == inputs.model:
                yield Wish(f"It is safe with {typed(each, inputs)}", each.estimate, each.inputs)
    if near and near.best and (longer(estimate, near.best[0]) >= LEAST_GAIN or not estimate.verdict.fits):
        yield Wish(BEST, near.best[0], inputs)
