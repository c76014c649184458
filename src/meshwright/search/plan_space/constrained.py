"""Constrained: which plans the constraints of a question allow, and which values of an axis a search tries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from meshwright.arrays import BoolColumn, Bools, Ints
from meshwright.layout.groups import placement, stride
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, of_chunks
from meshwright.specs.choices import CHOICES, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import RECOMPUTE_MODULE_NAMES, RecomputeModules, modules_of

Value = TypeVar("Value")
CODES = {field: {name: int(code) for code, name in names.items()} for field, names in CHOICES.items()}
"""Of fields whose values have names."""
MEANINGLESS: dict[str, Callable[[Layout], Bools]] = {
    "zero": lambda plan: np.equal(plan.dp * plan.cp, 1) & np.equal(plan.zero, 0),
    "recompute_modules": lambda plan: np.not_equal(plan.recompute, Recompute.SELECTIVE),
    "schedule": lambda plan: np.equal(plan.pp, 1),
    "sp": lambda plan: np.equal(plan.tp, 1),
    "context_exchange": lambda plan: np.equal(plan.cp, 1),
}
"""Where an axis says nothing of a plan, so that no constraint on it holds."""
RULES = ("recompute_modules", "sp", "even_chunks", "max_nodes_per_tp")
"""Constraints that are not lists of the values of one field."""


def values_of(name: str, inputs: Inputs) -> tuple[int, ...] | None:
    """The values of a field that the question allows, names as codes; None: all."""
    given = getattr(inputs.constraints, name)
    if isinstance(given, bool):
        return (int(given),)
    return given if given is None or name not in CODES else tuple(CODES[name][each] for each in given)


def allowed(name: str, values: Iterable[int], inputs: Inputs) -> list[int]:
    """Of the values of a field those that the question allows."""
    wanted = values_of(name, inputs)
    return [value for value in values if wanted is None or value in wanted]


def satisfies(plan: Layout, inputs: Inputs) -> Bools:
    """Whether plans keep every constraint of their question. plan: scalar or array (n,)."""
    kept: Bools = np.equal(plan.tp, plan.tp)
    for name in inputs.constraints.given:
        kept = kept & keeps(plan, name, inputs)
    return kept


def keeps(plan: Layout, name: str, inputs: Inputs) -> Bools:
    """Whether plans keep one constraint of their question. plan: scalar or array (n,); name: its field."""
    if name == "even_chunks":
        return _even(plan, inputs)
    if name == "max_nodes_per_tp":
        return nodes_per_tp(plan, inputs) <= (inputs.constraints.max_nodes_per_tp or inputs.cluster.num_nodes)
    if name == "recompute_modules":
        among: Bools = np.equal(np.bitwise_and(plan.recompute_modules, ~allowed_modules(inputs)), 0)
    else:
        among = np.isin(getattr(plan, name), named(name, inputs))
    return among | MEANINGLESS[name](plan) if name in MEANINGLESS else among


def says_nothing(plan: Plan, inputs: Inputs) -> list[str]:
    """The constraints of a question that a plan keeps as they are not about it, by field.

    >>> from meshwright.specs.constraints import Constraints
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> says_nothing(Plan(tp=8), LLAMA.replace(constraints=Constraints(tp=8, zero=3)))
    ['zero']
    """
    about = (name for name in inputs.constraints.given if name in MEANINGLESS and bool(MEANINGLESS[name](plan)))
    return [name for name in about if getattr(plan, name) not in named(name, inputs)]


def _even(plan: Layout, inputs: Inputs) -> BoolColumn:
    """Whether all chunks hold as many layers, with the ends that count as layers."""
    layers = inputs.model.num_layers + np.add(plan.embedding_as_layer, plan.head_as_layer)
    named = np.not_equal(of_chunks(plan, len), 0) | np.not_equal(plan.first_stage_layers, 0)
    named = named | np.not_equal(plan.last_stage_layers, 0)
    return np.equal(layers % (plan.pp * plan.vpp), 0) & ~named


def nodes_per_tp(plan: Layout, inputs: Inputs) -> Ints:
    """Nodes that the widest tensor-parallel group touches. plan: scalar or array (n,). Returns a count."""
    distance, cluster = stride(plan, "tp", inputs.runtime.plans.rank_order), inputs.cluster
    return placement(plan.tp, distance, cluster.gpus_per_node, cluster.num_gpus).blocks


def too_many_nodes(plan: Layout, inputs: Inputs) -> bool:
    """Whether the tensor-parallel groups of one plan touch more nodes than the question allows."""
    return "max_nodes_per_tp" in inputs.constraints.given and not keeps(plan, "max_nodes_per_tp", inputs)


def allowed_modules(inputs: Inputs) -> RecomputeModules:
    """What selective recomputation may compute again: the modules that the question names, else all."""
    return modules_of(inputs.constraints.recompute_modules or RECOMPUTE_MODULE_NAMES.values())


def allows_schedule(name: str | None, inputs: Inputs) -> bool:
    """Whether the question allows a schedule of this name."""
    return inputs.constraints.schedule is None or name in inputs.constraints.schedule


def named(field: str, inputs: Inputs) -> tuple[int, ...]:
    """The values of a field that the question names; none where it names none."""
    return values_of(field, inputs) or ()
