"""Patch: a launch file with the settings of another plan."""

from __future__ import annotations

import difflib
from itertools import pairwise
from typing import NamedTuple

from meshwright.errors import InvalidInput, MeshwrightError
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import differences, fields_of
from meshwright.launch.imports.edits import Edit, edit_of
from meshwright.launch.imports.question import LaunchQuestion, question_of_file
from meshwright.launch.spelling import Settings, settings_of
from meshwright.launch.table import Value
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

OF_THE_SCRIPT = ("plan.", "job.")
"""Settings that a framework's training script holds and its configuration has no key for."""


class Patch(NamedTuple):
    """The way from a launch file to another plan."""

    settings: dict[str, Value | None]
    """What changes, as the framework spells it; None: it is left out."""
    diff: str
    """As `patch` takes it; empty where the file says these settings in a way that only its author can change."""


def patch_of(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> Patch:
    """The patch of the file that makes it this plan; held against what the patched file is read as.

    Raises `InvalidInput` where the framework has no settings for the plan.
    """
    before, after = _spelled(question, question.plan, question.inputs), _spelled(question, plan, inputs)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    keys += [key for key in _implied(question) if key in after and key not in keys]
    given = question.settings.by_key()
    changed = {key: after.get(key) for key in keys if key in after or key in given}
    changed |= dict.fromkeys(_miscounted(question, plan, after))
    changed |= dict.fromkeys(key for key in _spelled_otherwise(question, keys) if key not in after)
    if before == after:
        return Patch({}, "")
    if any(key.startswith(OF_THE_SCRIPT) for key in changed):
        return Patch(changed, "")
    for tried in ([key for key in changed if key in given], [*changed]):
        edits = [edit_of(question.settings, question.table.keys, key, changed[key]) for key in tried]
        text = _applied(question.settings.text, [edit for edit in edits if edit]) if all(edits) else ""
        if text and _is_plan(question, text, plan, inputs):
            return Patch({key: changed[key] for key in tried}, _diff(question, text))
    return Patch(changed, "")


def _spelled(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> Settings:
    """The settings of a plan, of those that the table reads as fields; the padding of the vocabulary where the file
    has it.
    """
    table, padding = question.table, question.table.rows.get("runtime.vocabulary_multiple")
    spelled = settings_of(fields_of(plan, inputs), facts_of(plan, inputs), table)
    if padding and padding.key not in question.settings.by_key():
        spelled.pop(padding.key, None)
    return {key: value for key, value in spelled.items() if key in table.keys and not key.startswith("model")}


def _spelled_otherwise(question: LaunchQuestion, keys: list[str]) -> list[str]:
    """Settings of the file that say in another way what some settings say, as a short form of them does."""
    given = question.settings.by_key()
    choices = [{key for case in choice.cases for key in case.settings} for choice in question.table.choices]
    return [key for choice in choices if choice & {*keys} for key in choice if key in given and key not in keys]


def _miscounted(question: LaunchQuestion, plan: Plan, after: Settings) -> list[str]:
    """Settings of the file that are not written beside tensor parallelism, and mean something else with each degree, as
    the batch does that DeepSpeed counts on every rank.
    """
    if plan.tp == question.plan.tp:
        return []
    given = question.settings.by_key()
    rows = [row for row in question.table.rows.values() if "not tensor_parallel" in row.when]
    return [row.key for row in rows if row.key in given and row.key not in after]


def _implied(question: LaunchQuestion) -> list[str]:
    """Settings that the file leaves out and that follow others, as the tensor parallelism of experts does."""
    given, rows = question.settings.by_key(), question.table.rows.values()
    return [
        row.key for row in rows if isinstance(row.default, str) and "{plan." in row.default and row.key not in given
    ]


def _applied(text: str, edits: list[Edit]) -> str:
    """The text with all edits; empty where two of them change one place."""
    ordered = sorted(edits)
    for first, second in pairwise(ordered):
        if first.stop > second.start or (first[:2] == second[:2] and first.start != first.stop and first != second):
            return ""
    for edit in dict.fromkeys(reversed(ordered)):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _is_plan(question: LaunchQuestion, text: str, plan: Plan, inputs: Inputs) -> bool:
    """Whether the patched file is read as the plan, with the same model, batch and precision."""
    try:
        again = question_of_file(question.path, question.given, text)
        return not differences(plan, inputs, again.plan, again.inputs)
    except (MeshwrightError, InvalidInput):
        return False


def _diff(question: LaunchQuestion, text: str) -> str:
    name = question.path.name
    lines = (question.settings.text.splitlines(), text.splitlines())
    return "".join(f"{line}\n" for line in difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", n=1, lineterm=""))
