"""Typed: changes of a question in the words that a user adds to the command for them."""

from __future__ import annotations

from meshwright.search.changes.question_knobs import FieldChange
from meshwright.search.changes.sensitivity import PricedChange
from meshwright.specs.behaviours import switch_at
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import Runtime


def with_option(change: FieldChange, runtime: Runtime) -> str:
    """With which a question asks for another behaviour of its runtime: a switch, where one sets it."""
    return f"--with {switch_at(runtime, change.name, change.after) or f'{change.name}={change.after}'}"


def typed(change: PricedChange, inputs: Inputs) -> str:
    """A change with what a user types for what it changes of the job or the runtime; sizes, nodes and the plan as
    before and after.

    inputs: the question that is changed.
    """
    first, *rest = change.fields
    after = change.inputs
    if after.runtime != inputs.runtime:
        words = with_option(first, inputs.runtime)
    elif after.job != inputs.job:
        words = f"--{first.name.replace('_', '-')} {first.after}"
    else:
        words = str(first)
    return ", ".join([words, *map(str, rest)])
