"""Switches: what a launch can switch without another plan, number format, batch or cluster, and what that gains."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from meshwright.answers.pace import pace
from meshwright.answers.records import fields_of, priced_plan
from meshwright.answers.typed import with_option
from meshwright.cost.estimate import Estimate
from meshwright.launch.facts import FLEX_FLASH, facts_of
from meshwright.launch.framework import launch_file
from meshwright.launch.kernels import LIBRARIES
from meshwright.launch.settings import as_told, launch_settings, spelled_settings
from meshwright.layout.plan import Plan
from meshwright.search.changes.knobs import question_changes
from meshwright.search.changes.question_knobs import switches
from meshwright.search.changes.sensitivity import PricedChange, sensitivity
from meshwright.search.many_searches.constraint_costs import constrained
from meshwright.specs.behaviours import FUSED_EXPERTS, LIGER
from meshwright.specs.inputs import Inputs

WORTH = 0.02
"""Of the step: predictions of two plans for one job are not told apart by less (`tie_share`)."""
OFF = "0"
"""Share of the compute beside an exchange that hides it where its overlap is off, which makes no step shorter."""
_AGAINST = "--no-"
"""How flags begin that turn something off."""
FUSED_EXPERTS_LIBRARY = "Transformer Engine 2.14 or later"
"""Source: megatron/core/transformer/moe/experts.py, _is_fused_impl_supported."""
LIGER_LIBRARY = "liger-kernel"
ROCM_OVERLAP_LIBRARY = "Transformer Engine of ROCm of April 2026 or later"
"""Source: ROCm/TransformerEngine pull requests 367 and 513, userbuffers."""
NEWEST_ATTENTION_LIBRARY = "FlashAttention-4"
ATTENTION_LIBRARIES = {10.0: NEWEST_ATTENTION_LIBRARY, 9.0: "FlashAttention-3"}
"""By the least compute capability, from the highest."""


class Switch(NamedTuple):
    """One switch of the runtime that the question leaves as it is, set another way."""

    knob: str
    change: str
    """As `overlap.expert 0 -> 0.9`."""
    option: str
    """With which the question asks for it."""
    flag: str
    """With which the launch sets it; empty where nothing is known of the runtime's launches."""
    library: str
    """What it needs beside the framework; empty where nothing."""
    inputs: Inputs
    estimate: Estimate
    gain: float
    """Share of the step that it saves."""

    @property
    def condition(self) -> str:
        """On which the gain depends: how much of the compute beside it hides an exchange (`exposed_time`); empty where
        nothing.
        """
        if not self.knob.startswith("overlap."):
            return ""
        share = attrgetter(self.knob)(self.inputs.runtime)
        return f"if communication hides behind {share:.0%} of the compute beside it, "

    @property
    def needs(self) -> str:
        """A sentence on what it needs; empty where that is nothing."""
        return f" It needs {self.library} installed on every node." if self.library else ""


class Switches(NamedTuple):
    """Every switch that makes the step shorter, the one to try first at the head."""

    tried: int
    """Switches that can be set another way for this plan."""
    gaining: tuple[Switch, ...]

    @property
    def first(self) -> Switch | None:
        """The one that gains most, where that is worth a run."""
        return self.gaining[0] if self.gaining and self.gaining[0].gain >= WORTH else None


def switches_of(estimate: Estimate, inputs: Inputs) -> Switches:
    """What a launch can switch for a plan, each alone, and what that gains.

    Other plans are no switches: the search has priced them, and recommends the best. A switch counts where the launch
    files of the runtime can set it for the plan, the question does not constrain it, and the plan fits as safely.
    """
    plan = estimate.plan
    settable = (
        (knob, [each for each in changes if each.change.after != OFF and _settable(knob, plan, each.inputs, inputs)])
        for knob, changes in switches(inputs)
        if knob not in constrained(inputs)
    )
    priced = sensitivity(estimate, inputs, question_changes(plan, settable)).changes
    possible = [each for each in priced if each.estimate.verdict <= estimate.verdict]
    gaining = (_switch(each, estimate, inputs) for each in possible)
    faster = (each for each in gaining if each.gain > 0)
    return Switches(len(possible), tuple(sorted(faster, key=lambda each: -each.gain)))


def switch_lines(estimate: Estimate, inputs: Inputs, told: Sequence[str] = (), with_flags: bool = True) -> list[str]:
    """The switch to try first, with what it gains and needs; nothing where none is worth a run, or where it is among
    the options that are told otherwise. with_flags: and what the launch sets for it.
    """
    first = switches_of(estimate, inputs).first
    if first is None or first.option in told:
        return []
    flag = f" ({first.flag})" if first.flag and with_flags else ""
    faster = f"{first.condition}it makes this plan {pace(first.estimate, estimate)}, and may help another plan more"
    return [f"Worth trying: {first.option}{flag}; {faster}.{first.needs}"]


def switch_entry(estimate: Estimate, inputs: Inputs) -> dict[str, Any]:
    """The same for JSON; nothing where none is worth a run."""
    first = switches_of(estimate, inputs).first
    if first is None:
        return {}
    told = fields_of(first, "knob", "change", "option", "flag", "library", "gain")
    return {"switch": told | priced_plan(first.estimate)}


def _flag(knob: str, plan: Plan, after: Inputs, before: Inputs) -> str | None:
    """With which the launch of a plan sets a switch; empty where nothing is known of the runtime's launches, None where
    the launch cannot set it.
    """
    launch = before.runtime.launch
    if not launch:
        return None if knob.startswith("overlap.") else ""
    set_for_it = newly_set(plan, after, before)
    if knob.startswith("overlap."):
        overlap = overlap_setting(knob.removeprefix("overlap."), plan, after)
        set_for_it = overlap and overlap | set_for_it
    return spelled_settings(set_for_it) or None


def _settable(knob: str, plan: Plan, after: Inputs, before: Inputs) -> bool:
    return _flag(knob, plan, after, before) is not None


def overlap_setting(name: str, plan: Plan, inputs: Inputs) -> dict[str, str | bool]:
    """With which the launch of a plan switches on an overlap; empty where it cannot."""
    launch = inputs.runtime.launch
    flag = launch_file(launch).overlaps.get(name, "")
    told = as_told(launch, {flag: True} if flag else {})
    return {} if any(told.keys() & {*each.unset} for each in launch_settings(plan, inputs)) else told


def newly_set(plan: Plan, after: Inputs, before: Inputs) -> dict[str, str | bool]:
    """What the launch of a plan sets for a switch alone, and what it leaves out: flags against it, and those of
    optimizer states on the host where it brings them back.
    """
    old, new = (_all_set(plan, inputs) for inputs in (before, after))
    back = before.runtime.storage.offloads_states and not after.runtime.storage.offloads_states
    dropped = {f"without {key}": True for key in old if (back or key.startswith(_AGAINST)) and key not in new}
    return {key: value for key, value in new.items() if old.get(key) != value} | dropped


def _all_set(plan: Plan, inputs: Inputs) -> dict[str, str | bool]:
    return {key: value for setting in launch_settings(plan, inputs) for key, value in setting.set.items()}


def _library(knob: str, plan: Plan, inputs: Inputs) -> str:
    """What the switch of a knob needs beside the framework; empty where nothing."""
    if knob == "attention":
        return _attention_library(plan, inputs) if inputs.attention_kernel == "newest" else ""
    if knob == FUSED_EXPERTS:
        return FUSED_EXPERTS_LIBRARY
    if knob == LIGER:
        return LIGER_LIBRARY
    if knob == "overlap.tensor_parallel" and inputs.runtime.communication.hides_by_peer_access:
        return ROCM_OVERLAP_LIBRARY if inputs.cluster.accelerator.vendor == "AMD" else ""
    return library_of(plan, inputs) if knob == "dispatcher" else ""


def _attention_library(plan: Plan, inputs: Inputs) -> str:
    """Source: torchtitan 0.3.0 tools/utils.py, get_cuda_flash_attention_impl, of varlen; of flex_flash `FLEX_FLASH`."""
    if facts_of(plan, inputs)["attention_backend"] == FLEX_FLASH:
        return NEWEST_ATTENTION_LIBRARY
    capability = inputs.cluster.accelerator.compute_capability or 0
    return next((name for least, name in ATTENTION_LIBRARIES.items() if capability >= least), "")


def library_of(plan: Plan, inputs: Inputs) -> str:
    """Whose kernels a fused dispatcher runs."""
    if inputs.dispatcher != "fused":
        return ""
    return LIBRARIES[str(facts_of(plan, inputs)["flex_backend"])]


def _switch(each: PricedChange, before: Estimate, inputs: Inputs) -> Switch:
    return Switch(
        knob=each.knob,
        change=each.change,
        option=with_option(each.fields[0], inputs.runtime),
        flag=_flag(each.knob, before.plan, each.inputs, inputs) or "",
        library=_library(each.knob, before.plan, each.inputs),
        inputs=each.inputs,
        estimate=each.estimate,
        gain=1 - each.estimate.step_time_s / before.step_time_s,
    )
