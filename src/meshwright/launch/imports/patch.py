"""Patch: a launch file with the settings of another plan."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from meshwright.cost.shard import vocabulary_shard
from meshwright.errors import InvalidInput, MeshwrightError
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import differences, fields_of
from meshwright.launch.framework import Value
from meshwright.launch.imports.files.edits import Edit, edit_of
from meshwright.launch.imports.question import LaunchQuestion, question_of_file
from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.imports.rules.file_rules import file_rules
from meshwright.launch.spelling import Settings, settings_of
from meshwright.launch.table import LaunchTable
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs

OF_THE_SCRIPT = ("plan.", "job.")
"""Settings that a framework's training script holds and its configuration has no key for."""
_DEGREES = ("tp", "cp", "pp", "ep")


class Patch(NamedTuple):
    """The way from a launch file to another plan."""

    settings: dict[str, Value | None]
    """What changes, as the framework spells it; None: it is left out."""
    diff: str
    """As `patch` takes it; empty where the file says these settings in a way that only its author can change."""
    besides: tuple[str, ...] = ()
    """Degrees that none of these settings says, and what the framework would refuse of the file with them: what to do
    only its author can tell.
    """


def patch_of(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> Patch:
    """The patch of the file that makes it this plan; held against what the patched file is read as.

    Raises `InvalidInput` where the framework has no settings for the plan.
    """
    changed, given = _changed(question, plan, inputs), question.settings.by_key()
    if not changed:
        return Patch({}, "")
    unsaid = tuple(_unsaid(question, plan))
    if any(key.startswith(OF_THE_SCRIPT) for key in changed):
        return Patch(changed, "", unsaid)
    gone = {key for key, value in changed.items() if value is None}
    refused = any(not rule.kept for rule in question.rules)
    for tried in sorted(([key for key in changed if key in given], [*changed]), key=len, reverse=refused):
        edits = [edit_of(question.settings, question.table, key, changed[key], gone) for key in tried]
        text = _applied(question.settings.text, [edit for edit in edits if edit]) if all(edits) else ""
        if text and _is_plan(question, text, plan, inputs):
            return Patch({key: changed[key] for key in tried}, _diff(question, text))
    return Patch(changed, "", (*unsaid, *_newly_broken(question, changed, plan, inputs)))


def as_changed(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> LaunchQuestion:
    """The launch file with the rules as it keeps or breaks them where its settings tell another plan and question.

    What copies one of them stays as the file has it, and all does where the framework has no settings for the plan.
    """
    if plan == question.plan and inputs == question.inputs:
        return question
    try:
        changed = _changed(question, plan, inputs)
        told = {key: value for key, value in changed.items() if key not in question.table.copies}
        rules = _rules_with(question, told, plan, inputs)
    except InvalidInput:
        return question
    others = [rule for rule in question.rules if rule.name not in {each.name for each in rules}]
    return replace(question, rules=(*rules, *others))


def _changed(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> dict[str, Value | None]:
    """What of the file changes for a plan and its question, as the framework spells it; None: it is left out."""
    before, after = _as_written(question), _spelled(question, plan, inputs)
    if before == after:
        return {}
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    keys += [key for key in _implied(question) if key in after and key not in keys]
    given = question.settings.by_key()
    changed = {key: after.get(key) for key in keys if key in after or key in given}
    changed |= dict.fromkeys(_miscounted(question, plan, after))
    return changed | dict.fromkeys(key for key in _spelled_otherwise(question, keys) if key not in after)


def _unsaid(question: LaunchQuestion, plan: Plan) -> Iterator[str]:
    """Degrees that change and that no setting of the framework says, as far as its files are read."""
    said = {name for choice in question.table.choices for case in choice.cases for name in case.fields}
    for name in _DEGREES:
        degree, known = getattr(plan, name), f"plan.{name}" in {*question.table.rows, *said}
        if degree != getattr(question.plan, name) and not known:
            yield f"{name} {degree}: no setting of {question.table.framework} that is read says it"


def _spelled(question: LaunchQuestion, plan: Plan, inputs: Inputs) -> Settings:
    """The settings of a plan, of those that the table reads as fields; the padding of the vocabulary where the file
    has it, and as the file has it where that makes the rows of the plan.
    """
    table, padding = question.table, question.table.rows.get("runtime.vocabulary_multiple")
    spelled = settings_of(fields_of(plan, inputs), facts_of(plan, inputs), table)
    given = question.settings.by_key()
    if padding and padding.key not in given:
        spelled.pop(padding.key, None)
    elif padding and _pads_alike(given[padding.key].value, plan, inputs):
        spelled[padding.key] = int(str(given[padding.key].value))
    spelled |= _by_layers_of_a_chunk(table, spelled, given, plan, inputs)
    of_the_model = {row.key for field, row in table.rows.items() if field.startswith("model.")}
    return {key: value for key, value in spelled.items() if key in table.keys - of_the_model}


def _pads_alike(multiple: object, plan: Plan, inputs: Inputs) -> bool:
    """Whether a multiple, as a file has it, pads the vocabulary to the rows that a rank of a plan has."""
    rows = int(str(multiple)) if str(multiple).isdecimal() else 0
    return rows > 0 and -(-inputs.model.vocab_size // (rows * plan.tp)) * rows == int(vocabulary_shard(plan, inputs))


def _as_written(question: LaunchQuestion) -> Settings:
    """The settings of the file's plan, with its counts of chunks in place of a layout that it lacks: without one the
    framework refuses a split of unequal chunks.
    """
    spelled, given = _spelled(question, question.plan, question.inputs), question.settings.by_key()
    layout, *counts = (question.table.rows.get(f"plan.{name}") for name in ("chunk_layers", "vpp", "layers_per_chunk"))
    if not layout or layout.key not in spelled or layout.key in given:
        return spelled
    del spelled[layout.key]
    return spelled | {row.key: question.spelled[row.key] for row in counts if row and row.key in question.spelled}


def _by_layers_of_a_chunk(
    table: LaunchTable, spelled: Settings, given: Collection[str], plan: Plan, inputs: Inputs
) -> Settings:
    """The chunks of a stage by the layers of one, where the file counts them so and all have as many; the setting that
    counts chunks is taken out of what is spelled.
    """
    by_layers, by_chunks = (table.rows.get(f"plan.{name}") for name in ("layers_per_chunk", "vpp"))
    if not by_layers or not by_chunks or by_layers.key not in given or by_chunks.key not in spelled:
        return {}
    ends = plan.first_stage_layers + plan.last_stage_layers
    layers = inputs.model.num_layers + plan.embedding_as_layer + plan.head_as_layer
    if ends or layers % (plan.pp * plan.vpp):
        return {}
    del spelled[by_chunks.key]
    return {by_layers.key: layers // (plan.pp * plan.vpp)}


def _newly_broken(
    question: LaunchQuestion, changed: dict[str, Value | None], plan: Plan, inputs: Inputs
) -> Iterator[str]:
    """What the framework would refuse of the file with other settings, and takes as it is."""
    broken = {rule.name for rule in question.rules if not rule.kept}
    rules = _rules_with(question, changed, plan, inputs)
    return (rule.reason for rule in rules if not rule.kept and rule.name not in broken)


def _rules_with(
    question: LaunchQuestion, changed: dict[str, Value | None], plan: Plan, inputs: Inputs
) -> tuple[FileRule, ...]:
    """The rules about the settings of the file with those that change."""
    overlaid = question.spelled | _in_its_words(question, changed)
    settings = {key: value for key, value in overlaid.items() if value is not None}
    return file_rules(question.dialect.name, question.settings, settings, facts_of(plan, inputs), question.given.values)


def _in_its_words(question: LaunchQuestion, changed: dict[str, Value | None]) -> dict[str, Value | None]:
    """Settings as the file has them: in a recipe, as its fields."""
    if not question.table.recipe:
        return changed
    targets = [
        (target, value) for key, value in changed.items() for target in question.table.recipe_targets(key, value)
    ]
    return {target: value for target, value in targets if " = " not in target}


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
    given, table = question.settings.by_key(), question.table
    names = {row.key: (row.key, *_in_its_words(question, {row.key: None})) for row in table.rows.values()}
    follows = [row.key for row in table.rows.values() if isinstance(row.default, str) and "{plan." in row.default]
    return [key for key in follows if given.keys().isdisjoint(names[key])]


def _applied(text: str, edits: list[Edit]) -> str:
    """The text with all edits; empty where two of them change one place."""
    ordered = list[Edit]()
    for edit in sorted(edits):
        neighbours = ordered and not (edit.text or ordered[-1].text) and edit.start <= ordered[-1].stop
        ordered.append(_both_out(text, ordered.pop(), edit) if neighbours else edit)
    for first, second in pairwise(ordered):
        if first.stop > second.start or (first[:2] == second[:2] and first.start != first.stop and first != second):
            return ""
    for edit in dict.fromkeys(reversed(ordered)):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _both_out(text: str, first: Edit, second: Edit) -> Edit:
    """What takes out two flags side by side; at the end of a line with the blanks before them."""
    start, stop = first.start, max(first.stop, second.stop)
    return Edit(len(text[:start].rstrip(" ")) if text[stop : stop + 1] in ("", "\n") else start, stop, "")


def _is_plan(question: LaunchQuestion, text: str, plan: Plan, inputs: Inputs) -> bool:
    """Whether the patched file is read as the plan, with the same model, batch and precision, and breaks no rule of its
    framework that the file itself keeps.
    """
    try:
        again = question_of_file(question.path, question.given, text)
        broken, now = ({rule.name for rule in each.rules if not rule.kept} for each in (question, again))
        return now <= broken and not differences(plan, inputs, again.plan, again.inputs)
    except (MeshwrightError, InvalidInput):
        return False


def _diff(question: LaunchQuestion, text: str) -> str:
    name = question.path.name
    lines = (question.settings.text.splitlines(), text.splitlines())
    return "".join(f"{line}\n" for line in difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", n=1, lineterm=""))
