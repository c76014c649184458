"""Named plans: what users call a plan and what it runs with, from a line of its fields or from a plan file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from meshwright.answers.compare.printed_name import fields_of_name, is_printed_name
from meshwright.answers.plan_file import read_plan_file
from meshwright.errors import InvalidInput, quoted
from meshwright.launch.architecture import same_architecture
from meshwright.layout.named import plan_of
from meshwright.layout.plan import DEFAULTS, Plan
from meshwright.search.changes.sensitivity import SHORT
from meshwright.search.changes.variation import question_changes
from meshwright.specs.inputs import Inputs
from meshwright.specs.varied import varied_inputs

ALSO = {short: name for name, short in SHORT.items()} | {"m": "num_microbatches", "pipeline_layout": "chunk_layers"}
"""Other names of fields, those that plans are written with among them."""
SWITCHES = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
FORM = 'write a plan as "tp=4,pp=2,zero=1" or "A:tp=4,pp=2,zero=1", or by its printed name'
LONGEST = 12
"""Characters of a name, which heads a column."""
LABEL = rf"[\w. +-]{{1,{LONGEST}}}"
OF_QUESTION = ("precision", "gradients", "runtime", "with")
"""What a line may name beside fields, as the options of these names take them; `with` more than once."""
MAY_DIFFER = ("precision", "gradients", "runtime")
"""Parts of a question in which compared plans may differ, beside behaviours of the runtime."""
FilePlan = tuple[str, Inputs, Plan]
"""A file with its question and its plan."""


@dataclass(frozen=True)
class Named:
    """A plan by the name that its column has."""

    label: str
    plan: Plan
    inputs: Inputs
    """The question with what this plan alone runs with."""
    file: str | None = None
    """The file that it is from."""


def named_plans(lines: Sequence[str], inputs: Inputs, from_files: Sequence[FilePlan] = ()) -> list[Named]:
    """The plans of files, then those of lines such as `A:tp=4,pp=2`; those without a name get the next letter.

    from_files: each with its file and question. Raises `InvalidInput` for a line that is no plan, for fewer than two
    plans, and for names or plans that are the same.
    """
    read = [_label_and_fields(line) for line in lines]
    labels = _labels([*(None for _ in from_files), *(label for label, _ in read)])
    plans: list[tuple[Plan, Inputs, str | None]] = [(plan, question, file) for file, question, plan in from_files]
    plans += [(*plan_of_fields(fields, line, inputs), None) for (_, fields), line in zip(read, lines, strict=True)]
    named = [Named(label, *plan) for label, plan in zip(labels, plans, strict=True)]
    _require_several_different(named)
    return named


def named_layouts(plans: Sequence[Plan] | Mapping[str, Plan], inputs: Inputs) -> list[Named]:
    """Plans by their names, or by letters; raises `InvalidInput` for fewer than two, and for the same twice."""
    layouts = plans if isinstance(plans, Mapping) else dict(zip(_labels([None] * len(plans)), plans, strict=True))
    named = [Named(label, plan, inputs) for label, plan in layouts.items()]
    _require_several_different(named, "give plans two or more, as plans=[Plan(tp=8), Plan(dp=8)]; explain")
    return named


def plan_of_fields(assignments: str, line: str, inputs: Inputs) -> tuple[Plan, Inputs]:
    """A plan from `tp=4,pp=2`: fields of `Plan`, what is left out filled in as `plan_of` does; and its question, which
    is the one that is given but for what the line names of it, as `precision=fp8`.

    assignments: the fields, or a plan's printed name; line: all that was written, for messages. A value goes on to the
    next name, as in `chunk_layers=9,10,10`.
    """
    values: dict[str, Any] = {}
    behaviours: list[str] = []
    printed = is_printed_name(assignments)
    for name, text in fields_of_name(assignments) if printed else _pairs(assignments, line):
        if name == "with":
            behaviours.append(text)
            continue
        if name in values:
            raise InvalidInput(f"--plan {quoted(line)} names {name} twice; leave one out")
        values[name] = text if name in OF_QUESTION else _value(name, text, line)
    question = {name: values.pop(name) for name in OF_QUESTION if name in values}
    inputs = varied_inputs(inputs, behaviours=behaviours, **question)
    count = values.pop("num_microbatches", None)
    if "chunk_layers" in values:
        values["pipeline_layout"] = values.pop("chunk_layers")
    plan = plan_of(inputs, **values)
    return (plan if count is None else replace(plan, num_microbatches=count)), inputs


def of_one_question(read: Sequence[FilePlan]) -> tuple[Inputs, list[FilePlan]]:
    """The question of the first file, and every file with its question and plan, models of one architecture by one
    name.

    Raises `InvalidInput` where two files differ in more than precision and runtime.
    """
    first, inputs, _ = read[0]
    plans = []
    for path, others, plan in read:
        alike = same_architecture(inputs.model, others.model, inputs.job.sequence_length)
        named = others.replace(model=inputs.model) if alike and others.model != inputs.model else others
        same = named.replace(runtime=inputs.runtime, constraints=inputs.constraints)
        different = [each for each in question_changes(inputs, same) if each.name not in MAY_DIFFER]
        if different:
            pairs = ", ".join(f"{each.name} {each.before} and {each.after}" for each in different)
            raise InvalidInput(
                f"{first!r} and {path!r} hold different questions: {pairs}; give plan files that differ in precision "
                "and runtime alone, or their plans with --plan"
            )
        plans.append((path, named, plan))
    return inputs, plans


def plan_of_file(path: str) -> FilePlan:
    """A plan file with its question and its first plan, or the one of `FILE:RANK`.

    Raises `InvalidInput` where the rank is beyond the plans of the file.
    """
    file, _, rank = path.rpartition(":")
    if not (file and rank.isdecimal()) or Path(path).exists():
        file, rank = path, "1"
    inputs, plans = read_plan_file(file)
    if not 1 <= int(rank) <= len(plans):
        raise InvalidInput(
            f"--plan-file {path}: {file!r} holds {len(plans)} plans; use {file}:1 to {file}:{len(plans)}"
        )
    return path, inputs, plans[int(rank) - 1]


def _labels(named: Sequence[str | None]) -> list[str]:
    """The names of plans; those without one get the letter of their place, or the next that is free."""
    labels: list[str] = []
    for place, label in enumerate(named):
        letters = (letter + end for end in ("", *map(str, range(1, 100))) for letter in ascii_uppercase)
        free = (letter for letter in islice(letters, place, None) if letter not in (*named, *labels))
        labels.append(label or next(free))
    return labels


def _label_and_fields(line: str) -> tuple[str | None, str]:
    name, colon, assignments = line.partition(":")
    if not colon or "=" in name:
        return None, line
    if not re.fullmatch(LABEL, name.strip()):
        raise InvalidInput(
            f"--plan {quoted(line)}: {quoted(name.strip())} is not a plan name; a name has 1 to {LONGEST} letters, "
            f"digits, dots, dashes or blanks; {FORM}"
        )
    return name.strip(), assignments


def _pairs(assignments: str, line: str) -> list[tuple[str, str]]:
    """Names with their values; a piece without `=` belongs to the value before it."""
    pairs: list[tuple[str, str]] = []
    for piece in assignments.split(","):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if equals and name and value:
            pairs.append((_field(name, line), value))
        elif pairs and name and not equals:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{name}")
        else:
            raise InvalidInput(f"--plan {quoted(line)}: {quoted(piece.strip())} is not a field with a value; {FORM}")
    return pairs


def _field(name: str, line: str) -> str:
    key = name.lower().replace("-", "_")
    field = ALSO.get(key, key)
    if field in DEFAULTS or field in OF_QUESTION:
        return field
    near = difflib.get_close_matches(key, [*DEFAULTS, *ALSO, *OF_QUESTION], n=3)
    hint = f"nearest: {', '.join(near)}" if near else f"its fields: {', '.join(DEFAULTS)}"
    raise InvalidInput(f"--plan {quoted(line)}: {quoted(name)} is not a field of a plan; {hint}")


def _value(name: str, text: str, line: str) -> Any:
    """The value of a field, as `plan_of` takes it: a switch, a whole number or a name."""
    default = DEFAULTS[name]
    if isinstance(default, bool):
        if text.lower() not in SWITCHES:
            raise InvalidInput(f"--plan {quoted(line)}: {name} is {quoted(text)}; it is on or off")
        return SWITCHES[text.lower()]
    if type(default) is not int:
        return text
    if not text.isdecimal() or len(text) > 9 or int(text) < default:
        raise InvalidInput(
            f"--plan {quoted(line)}: {name} is {quoted(text)}; it must be a whole number of {default} or more"
        )
    return int(text)


def _require_several_different(
    named: Sequence[Named], way: str = "add another --plan or --plan-file; meshwright explain"
) -> None:
    """Raise `InvalidInput` for fewer than two plans, or for the same twice; way: to name more, and to price one."""
    if len(named) < 2:
        count = "one plan is" if named else "no plan is"
        raise InvalidInput(f"{count} named, and two or more are compared: {way} prices one plan")
    labels: dict[str, Named] = {}
    for each in named:
        if each.label in labels:
            raise InvalidInput(f"two plans are called {quoted(each.label)}; give each a name of its own")
        same = (label for label, other in labels.items() if (other.plan, other.inputs) == (each.plan, each.inputs))
        twin = next(same, None)
        if twin:
            raise InvalidInput(f"{twin} and {each.label} are the same plan, {each.plan}; leave out one")
        labels[each.label] = each
