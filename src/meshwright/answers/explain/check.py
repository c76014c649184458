"""The check: one plan against every rule of its runtime, and what its launch must set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from meshwright.answers.context_length import beyond_positions
from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Table, Toned
from meshwright.answers.explain.varied_plan import variation_lines
from meshwright.answers.launch.release import own_release_lines
from meshwright.answers.launch.unlaunched import LaunchRefusal, unlaunched, unlaunched_entry, unlaunched_lines
from meshwright.answers.plans.unaligned import UnalignedSize, unaligned_entry, unaligned_lines, unaligned_sizes
from meshwright.answers.records import document_of, json_of
from meshwright.answers.screen import fit_words, headline
from meshwright.answers.words import plural
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.settings import LaunchSetting, launch_settings
from meshwright.layout.legality import faults, require_counts, rules_of
from meshwright.layout.plan import Plan
from meshwright.search.changes.variation import Variation
from meshwright.search.stop import Progress
from meshwright.specs.inputs import Inputs

SCHEMA = "meshwright.check/1"
WHEN = {
    "late": "late: the framework notices only after it has started",
    "silently": "silently: the framework does something else without a word",
}
"""What the marks of rules mean that are not enforced at the start."""


class RuleCheck(NamedTuple):
    """Whether a plan keeps one rule."""

    name: str
    kept: bool
    source: str
    """Where the framework looks at it, or what it means."""
    enforced: str
    """When the framework enforces it."""
    reason: str | None
    """What is wrong, with the nearest legal change; None where the plan keeps it."""
    about: Literal["plan", "file"] = "plan"
    """Whether it is of the plan, or of the launch file that it was read from."""


@dataclass(frozen=True)
class PlanCheck:
    """One plan, checked against its runtime."""

    runtime: str
    version: str
    plan: Plan
    legal: bool
    """Whether all rules are kept, also those of its launch file."""
    rules: tuple[RuleCheck, ...]
    launch: tuple[LaunchSetting, ...]
    """What the launch of a legal plan must set besides."""
    unaligned: tuple[UnalignedSize, ...]
    """Of a legal plan, sizes of the model that slow its kernels down."""
    launch_refused: LaunchRefusal | None
    """Of a legal plan, why the framework cannot launch it; None where it can."""
    estimate: Estimate | None
    """Of a plan that breaks no rule of its own, its price."""

    @property
    def breaks_plan_rules(self) -> bool:
        """Whether it is the plan, and not only its launch file, that breaks a rule."""
        return any(not rule.kept and rule.about == "plan" for rule in self.rules)


def check_of(plan: Plan, inputs: Inputs, file_rules: Sequence[FileRule] | None = None) -> PlanCheck:
    """Whether a plan is legal, by every rule of its runtime, what its launch must set, and which sizes slow it down.

    file_rules: of the launch file that it was read from, which launches it; None: of none. Raises `IllegalPlan` for
    counts below 1.
    """
    require_counts(plan)
    broken = {fault.where: fault.what for fault in faults(plan, inputs)}
    sources = {**inputs.runtime.checks, **{rule.name: rule for rule in inputs.runtime.rules}}
    rules = tuple(
        RuleCheck(
            name=rule.name,
            kept=rule.name not in broken,
            source=sources[rule.name].source if rule.name in sources else f"meshwright: {rule.summary}",
            enforced=sources[rule.name].enforced if rule.name in sources else "at start",
            reason=broken.get(rule.name),
        )
        for rule in rules_of(inputs)
    )
    of_the_file = (
        RuleCheck(
            name=rule.name,
            kept=rule.kept,
            source=rule.source,
            enforced="at start",
            reason=rule.reason or None,
            about="file",
        )
        for rule in file_rules or ()
    )
    rules = (*rules, *of_the_file)
    legal = all(rule.kept for rule in rules)
    launch = () if broken else launch_settings(plan, inputs)
    estimate = None if broken else estimate_each([plan], inputs)[0]
    unaligned = unaligned_sizes(estimate, inputs) if estimate else ()
    refused = None if broken or file_rules is not None else unlaunched(plan, inputs)
    version = inputs.runtime.version
    return PlanCheck(inputs.runtime.id, version, plan, legal, rules, launch, unaligned, refused, estimate)


def check_document(
    check: PlanCheck, variation: Variation | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """The check as JSON, each setting of the launch also as people write it.

    variation: of a saved plan, which this one is, with the nearest plan that works where it is illegal; progress: of
    the search for that one.
    """
    settings = [{**json_of(setting), "text": str(setting)} for setting in check.launch]
    parts = {**vars(check), "name": str(check.plan), "launch": settings}
    parts["unaligned"] = unaligned_entry(check.unaligned)
    parts["fit"] = json_of(estimate.fit) if (estimate := parts.pop("estimate")) else None
    parts |= unlaunched_entry(check.launch_refused)
    if variation:
        changes = {"changed": variation.named, "follows": variation.follows, "saved": variation.saved}
        parts["variation"] = changes | {
            "nearest": variation.nearest_plan(progress) if check.breaks_plan_rules else None
        }
    return document_of(schema=SCHEMA, **parts)


def check_screen(
    check: PlanCheck,
    inputs: Inputs,
    variation: Variation | None = None,
    progress: Progress | None = None,
    *,
    of_file: bool = False,
    more: bool = False,
) -> tuple[Block, ...]:
    """The rules that are broken, with the values and the nearest legal change, then what the launch must set, then how
    many rules are kept.

    variation: of a saved plan, which this one is; progress: of the search for the nearest plan that works; of_file: an
    existing launch file starts it, and none has to be written; more: every rule that is kept too, with where and when
    the framework enforces it, but for those about the file, which are one line.
    """
    count, broken = len(check.rules), sum(not rule.kept for rule in check.rules)
    verdict = f"refuses it: {broken} of {count} rules broken" if broken else f"accepts it: all {count} rules pass"
    answer = f"Plan: **{check.plan}**", f"{check.runtime} ({check.version}) {verdict}"
    changes = variation_lines(variation) if variation else ()
    nearest = (
        [f"To make it legal: {variation.nearest_words(progress)}"] if variation and check.breaks_plan_rules else []
    )
    sizes = *unaligned_lines(check.unaligned), *beyond_positions(inputs)
    warned = *unlaunched_lines(check.launch_refused), *sizes
    release = () if of_file else own_release_lines(inputs.runtime)
    fit = [fit_words(check.estimate, inputs), *release] if check.estimate else []
    lines = Lines((*answer, *fit, *changes, *nearest, *warned))
    settings = Bullets(tuple(map(str, check.launch)))
    launch = (Heading("The launch must set", 3), settings) if check.launch else ()
    return headline(inputs), lines, *_broken(check.rules), *launch, _kept(check.rules, more)


def _broken(rules: Sequence[RuleCheck]) -> list[Table]:
    """The rules that are broken; nothing where all are kept."""
    broken = [rule for rule in rules if not rule.kept]
    return [_rules(broken, "what is wrong")] if broken else []


def _kept(rules: Sequence[RuleCheck], more: bool) -> Table | Lines:
    """How many rules are kept; more: each."""
    kept = [rule for rule in rules if rule.kept]
    if more and kept:
        return _rules(kept, "where it is enforced")
    passed = f"{plural(len(kept), 'rule')} pass{'es' if len(kept) == 1 else ''}"
    return Lines((f"{passed}; --more lists each with where it is enforced." if kept else "No rule passes.",))


def _rules(rules: Sequence[RuleCheck], what: str) -> Table:
    """Rules, each red or green. what: above their words."""
    rows = list[tuple[Toned, str, str]]()
    kept_by_file = sum(rule.kept and rule.about == "file" for rule in rules)
    for rule in rules:
        if rule.kept and rule.about == "file":
            continue
        mark = Toned("ok", "good") if rule.kept else Toned("**broken**", "bad")
        when = f"{rule.enforced}: " if rule.enforced in WHEN else ""
        rows.append((mark, rule.name, when + (rule.reason or rule.source)))
    if kept_by_file:
        words = f"{plural(kept_by_file, 'rule')} about the file's own settings; --json has each with its source"
        rows.append((Toned("ok", "good"), "the file", words))
    marks = [meaning for when, meaning in WHEN.items() if any(rule.enforced == when for rule in rules)]
    return Table(("", "rule", what), tuple(rows), "lwl", note="\n".join(marks))
