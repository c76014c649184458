"""Switched plan: the best plan where the launch makes and hides the exchanges of experts its fastest way, and keeps
optimizer states on the accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from meshwright.answers.pace import pace
from meshwright.answers.plans.switches import FUSED_EXPERTS_LIBRARY, WORTH, library_of, newly_set, overlap_setting
from meshwright.answers.records import fields_of, priced_plan
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.errors import IllegalPlan, InvalidSpec
from meshwright.launch.framework import launch_file
from meshwright.launch.settings import can_say, spelled_settings
from meshwright.layout.plan import Plan
from meshwright.search.find import Progress, SearchResult
from meshwright.search.many_searches.constraint_costs import DISPATCHER, constrained
from meshwright.search.safe import recommended
from meshwright.specs.behaviours import (
    ACTIVATION_FUSION,
    FUSED_EXPERTS,
    GROUPED_EXPERTS,
    PERMUTE_FUSION,
    ROPE_FUSION,
    position_of,
    with_behaviours,
)
from meshwright.specs.inputs import Inputs
from meshwright.specs.switches import forms_on_device, with_kernels_on
from meshwright.units import format_seconds

FUSED = "fused"
FUSES_EXPERTS = "fuses_experts"
"""The condition of settings with which one kernel computes all experts of a rank."""
ON, OVERLAP = "on", "overlap."
"""The position of a switch, and what the fields that it sets begin with, where it hides an exchange."""


class SwitchedPlan(NamedTuple):
    """The best plan with switches of the launch set together, which the recommended plan does without."""

    options: tuple[str, ...]
    """With which the question asks for them."""
    flag: str
    """With which the launch of this plan sets them."""
    library: str
    """What they need beside the framework; empty where nothing."""
    estimate: Estimate
    gain: float
    """Share of the recommended plan's step that it saves."""

    @property
    def with_options(self) -> tuple[str, ...]:
        """The options as a command takes them."""
        return tuple(f"--with {each}" for each in self.options)


def switched_plan(result: SearchResult, progress: Progress | None = None) -> SwitchedPlan | None:
    """The best plan with the fused dispatcher, fused products of experts and every overlap that the runtime has a
    switch for: a search of its own.

    The dispatcher where the accelerators run it; optimizer states on the accelerators, of any model, where the question
    has them on the host. None where all is set already or the question names the dispatcher, where the launch cannot
    set them, where the step is not `WORTH` shorter or the plan fits less safely, and where one switch of the
    recommended plan does as much (`switches_of`). Switches without which this plan is as fast are left out. progress:
    as of `find`. Raises `Stopped` where it stops the search.
    """
    inputs, best = result.inputs, result.best[0]
    options = _options(inputs)
    if not options:
        return None
    try:
        estimate = recommended(_with(inputs, options), progress) or best
    except (IllegalPlan, InvalidSpec):
        return None
    gain = 1 - estimate.step_time_s / best.step_time_s
    if estimate.verdict > best.verdict or gain < WORTH:
        return None
    kept = _needed(options, estimate, inputs)
    alone = (_gain_alone(each, best, inputs) for each in kept if each not in _states(inputs))
    if estimate.plan == best.plan and max(alone, default=0.0) > gain - WORTH:
        return None
    after = _with(inputs, kept)
    flag = _flags(estimate.plan, after, inputs)
    return (
        SwitchedPlan(kept, flag, _libraries(estimate.plan, after, kept), estimate=estimate, gain=gain) if flag else None
    )


def switched_lines(switched: SwitchedPlan | None, best: Estimate, with_flags: bool = True) -> list[str]:
    """The plan with what it gains over the recommended one, and what it needs; nothing where there is none.

    with_flags: and what the launch sets for it.
    """
    if switched is None:
        return []
    estimate, options = switched.estimate, " ".join(switched.with_options)
    flags = f" ({switched.flag})" if with_flags else ""
    library = f" It needs {switched.library} installed on every node." if switched.library else ""
    takes = f"{format_seconds(estimate.step_time_s)} a step, {pace(estimate, best)}"
    return [f"Faster setup: {options}{flags}; the best plan is then {estimate.plan}: {takes}.{library}"]


def switched_entry(switched: SwitchedPlan | None) -> dict[str, Any]:
    """The same for JSON."""
    if switched is None:
        return {}
    told = fields_of(switched, "flag", "library", "gain")
    return {"switched_plan": {"options": list(switched.options)} | told | priced_plan(switched.estimate)}


def _options(inputs: Inputs) -> tuple[str, ...]:
    """Changes of behaviours, as `--with` takes them."""
    if not inputs.runtime.launch:
        return ()
    if not inputs.model.is_moe or DISPATCHER in constrained(inputs):
        return _states(inputs)
    return (*_dispatchers(inputs), *_kernels(inputs), *_overlaps(inputs), *_states(inputs))


def _states(inputs: Inputs) -> tuple[str, ...]:
    """The first form of optimizer states on the accelerators, where they are on the host."""
    return tuple(change for change, _ in islice(forms_on_device(inputs), 1))


def _dispatchers(inputs: Inputs) -> Iterator[str]:
    """The fused one, where it runs and the launch can choose it."""
    if not inputs.cluster.runs_fused_dispatch:
        return
    fused = inputs.dispatcher == FUSED
    if not fused and can_say(inputs.runtime.launch, f"runtime.{DISPATCHER}", FUSED):
        yield f"{DISPATCHER}={FUSED}"


def _kernels(inputs: Inputs) -> Iterator[str]:
    """Fused activations, fused kernels that sort rows, one module for the experts of a rank, and one kernel for them
    where the launch of now can choose it.
    """
    settings = launch_file(inputs.runtime.launch).settings
    for name in (ACTIVATION_FUSION, ROPE_FUSION, PERMUTE_FUSION, GROUPED_EXPERTS):
        if with_kernels_on(inputs, name):
            yield f"{name}={ON}"
    if with_kernels_on(inputs, FUSED_EXPERTS) and any(FUSES_EXPERTS in each.when for each in settings):
        yield f"{FUSED_EXPERTS}={ON}"


def _overlaps(inputs: Inputs) -> Iterator[str]:
    """Switches of the runtime that are not on and hide an exchange, of which the question replaces nothing itself."""
    named = {each.field for each in inputs.runtime.replaced}
    for name, positions in inputs.runtime.switches.items():
        shares = [key.removeprefix(OVERLAP) for key in positions.get(ON, {}) if key.startswith(OVERLAP)]
        if shares and named.isdisjoint(shares) and position_of(inputs.runtime, name) != ON:
            yield f"{name}={ON}"


def _with(inputs: Inputs, options: Sequence[str]) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, options)) if options else inputs


def _libraries(plan: Plan, after: Inputs, options: Sequence[str]) -> str:
    """What the dispatcher and the options need beside the framework."""
    fused = FUSED_EXPERTS_LIBRARY if f"{FUSED_EXPERTS}={ON}" in options else ""
    return " and ".join(filter(None, (library_of(plan, after), fused)))


def _needed(options: tuple[str, ...], estimate: Estimate, inputs: Inputs) -> tuple[str, ...]:
    """The options that a plan's step time rests on: one after the other is left out where it is as short without."""
    kept = options
    for option in options:
        rest = tuple(each for each in kept if each != option)
        if _with_options(estimate.plan, rest, inputs).step_time_s <= estimate.step_time_s:
            kept = rest
    return kept


def _gain_alone(option: str, best: Estimate, inputs: Inputs) -> float:
    return 1 - _with_options(best.plan, (option,), inputs).step_time_s / best.step_time_s


def _with_options(plan: Plan, options: Sequence[str], inputs: Inputs) -> Estimate:
    (estimate,) = estimate_each([plan], _with(inputs, options))
    return estimate


def _flags(plan: Plan, after: Inputs, before: Inputs) -> str:
    """What the launch of a plan sets anew: of its settings, and for each overlap that changes."""
    shares = before.runtime.overlap, after.runtime.overlap
    changed = [name for name in type(shares[0]).model_fields if getattr(shares[0], name) != getattr(shares[1], name)]
    overlaps = [overlap_setting(name, plan, after) for name in changed]
    return spelled_settings(newly_set(plan, after, before) | dict(pair for each in overlaps for pair in each.items()))
