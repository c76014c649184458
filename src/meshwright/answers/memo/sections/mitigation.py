"""Mitigation: the first change to try in words, or that none is worth a run and how near the ideal the plan is."""

from __future__ import annotations

from meshwright.answers.memo.memo import Memo
from meshwright.answers.plans.switches import WORTH
from meshwright.answers.words import capitalised, percent
from meshwright.cost.memory.fit import Verdict
from meshwright.units import format_seconds


def mitigation_words(memo: Memo) -> tuple[str, str]:
    """A title and a text."""
    if memo.mitigation is None:
        return "First mitigation: none worth making", _nothing(memo)
    part, first, step = memo.mitigation, memo.mitigation.switch, memo.best.step_time_s
    after = first.estimate.step_time_s
    risk = "" if first.estimate.verdict == Verdict.SAFE else f" Memory: {first.estimate.verdict}."
    flag = f" (`{first.flag}`)" if first.flag else ""
    cuts = capitalised(f"{first.condition}it cuts")
    return (
        f"First mitigation: {first.option.removeprefix('--with ')}",
        f"A launch switch{flag}, which the plan above lacks (`{first.option}`). "
        f"{cuts} {part.part_name} from {format_seconds(part.part_before_s)} to "
        f"{format_seconds(part.part_after_s)} and the step from {format_seconds(step)} to {format_seconds(after)}, "
        f"{percent(first.gain)} less.{risk}{first.needs}{_other_setup(memo)}",
    )


def _nothing(memo: Memo) -> str:
    tried, gaining = memo.switches.tried, memo.switches.gaining
    saved = f"{gaining[0].change}, saves {percent(gaining[0].gain)}" if gaining else ""
    best = f"the best of them, {saved}" if saved else "none of them makes the step shorter"
    switches = f"{tried} launch switches could be set differently: {best}. " if tried else ""
    if tried == 1:
        one = f": {saved}" if saved else "; it makes the step no shorter"
        switches = f"One launch switch could be set differently{one}. "
    return (
        f"No free change saves {WORTH:.0%} of the step. {switches}The plan reaches {percent(memo.best.mfu)} of the "
        f"ideal, in which every accelerator always runs at its dense {memo.inputs.recipe.peak} peak. Appendix E shows "
        f"the changes that have a price: number formats, the batch, the network.{_other_setup(memo)}"
    )


def _other_setup(memo: Memo) -> str:
    """What the best plan with other switches saves; nothing where there is none."""
    if memo.switched is None:
        return ""
    return f" The best plan with other switches saves {percent(memo.switched.gain)} (appendix A)."
