"""Dropped: tokens that experts of limited capacity do not compute, told wherever such plans stand beside others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meshwright.errors import listed
from meshwright.specs.inputs import Inputs

MARK = " *"
"""Behind the name of what drops tokens."""


def drops_tokens(inputs: Inputs) -> bool:
    """Whether the experts of a question have a capacity, so that some tokens are not computed."""
    return inputs.model.is_moe and bool(inputs.expert_capacity)


def mark_of(inputs: Inputs) -> str:
    """The mark of what drops tokens; nothing for the rest."""
    return MARK if drops_tokens(inputs) else ""


def mark_words(questions: Iterable[Inputs]) -> str:
    """What the mark means below a table; nothing where none of its questions drops tokens."""
    dropping = [inputs for inputs in questions if drops_tokens(inputs)]
    if not dropping:
        return ""
    return f"{MARK.strip()} drops tokens: {_capacity_words(dropping)}; the other plans compute every token."


def recommended_words(inputs: Inputs) -> str:
    """That a recommended plan drops tokens, as a sentence; nothing where it drops none."""
    if not drops_tokens(inputs):
        return ""
    why = f"as {inputs.runtime.id} does by default" if inputs.job.expert_capacity is None else "as you asked"
    return f"It drops tokens, {why}: {_capacity_words([inputs])}."


def side_words(questions: Mapping[str, Inputs]) -> str:
    """Which of several named plans drop tokens, where others compute all of them; else nothing."""
    dropping = {name: inputs for name, inputs in questions.items() if drops_tokens(inputs)}
    others = [name for name in questions if name not in dropping]
    if not dropping or not others:
        return ""
    verbs = "drops" if len(dropping) == 1 else "drop", "computes" if len(others) == 1 else "compute"
    return (
        f"{listed([*dropping])} {verbs[0]} tokens, and {listed(others)} {verbs[1]} all of them: "
        f"{_capacity_words(dropping.values())}, so the steps do not do the same work."
    )


def _capacity_words(questions: Iterable[Inputs]) -> str:
    """What becomes of tokens; questions: that drop some."""
    capacities = dict.fromkeys(f"{inputs.expert_capacity:g}" for inputs in questions)
    return f"an expert takes at most {listed([*capacities], 'or')} x its equal share of tokens, and the rest skip it"
