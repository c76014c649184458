"""Entry: the figures of the memo as JSON."""

from __future__ import annotations

from typing import Any

from meshwright.answers.assumptions import assumptions
from meshwright.answers.memo.bottleneck import Bottleneck
from meshwright.answers.memo.exchanges import ExchangeLine
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.micro_batching import MicroBatching, idle_share
from meshwright.answers.memo.mitigation import KINDS, Mitigation
from meshwright.answers.memo.scaling import Point
from meshwright.answers.plan_file import plan_entry
from meshwright.answers.records import json_of, priced_plan
from meshwright.answers.step_parts import why_lost
from meshwright.specs.inputs import Inputs

SCHEMA = "meshwright.memo/1"


def memo_entry(memo: Memo) -> dict[str, Any]:
    """Every figure that the memo's text and pictures are written from; seconds and bytes."""
    best, inputs, found = memo.best, memo.inputs, memo.found
    return {
        "schema": SCHEMA,
        "inputs": inputs.model_dump(mode="json"),
        "fits": True,
        "recommendation": plan_entry(best, inputs),
        "runners_up": [
            plan_entry(each, inputs) | {"lost": why_lost(each, best)} for each in (*found.other_splits, *found.best[1:])
        ],
        "budgets": {name: plan_entry(each, inputs) if each else None for name, each in vars(memo.budgets).items()},
        "exchanges": [exchange_entry(each) for each in memo.exchanges],
        "scaling": {
            "baseline": memo.scaling.baseline,
            "best_on_baseline": _point(memo.smaller) if memo.smaller else None,
            "strong": [_point(each) for each in memo.scaling.strong],
            "weak": [_point(each) for each in memo.scaling.weak],
        },
        "micro_batching": _micro_batching(memo.micro_batching) if memo.micro_batching else None,
        "bottleneck": _bottleneck(memo.bottleneck, inputs),
        "mitigation": _mitigation(memo.mitigation) if memo.mitigation else None,
        "assumptions": [*memo.assumed, *assumptions(inputs)],
    }


def exchange_entry(each: ExchangeLine) -> dict[str, Any]:
    """One line of the table of exchanges."""
    return vars(each) | {"link": each.link.name, "bandwidth": each.link.effective_bandwidth}


def _point(point: Point) -> dict[str, Any]:
    estimate = point.estimate
    return {
        "gpus": point.gpus,
        "global_batch": point.inputs.job.global_batch,
        **priced_plan(estimate),
        "tokens_per_s": point.tokens_per_s,
        "time": json_of(estimate.time),
    }


def _micro_batching(piped: MicroBatching) -> dict[str, Any]:
    bubbles = [
        {
            "micro_batches": each.micro_batches,
            "global_batch": each.global_batch,
            "equal_stages": each.textbook,
            "bubble": each.estimate.time.bubble_s / each.estimate.step_time_s,
            "mfu": each.estimate.mfu,
        }
        for each in piped.bubbles
    ]
    drawn = {"micro_batches": piped.drawn, "idle": idle_share(piped.chosen), "naive_idle": idle_share(piped.naive)}
    return {"stages": piped.stages, "naive_busy": piped.naive_busy, "bubbles": bubbles, "drawn": drawn}


def _bottleneck(named: Bottleneck, inputs: Inputs) -> dict[str, Any]:
    ranks = inputs.cluster.num_gpus
    return {
        "part": named.chosen.part,
        "name": named.chosen.name,
        "seconds": named.chosen.after / ranks,
        "grows": named.grows,
        "reference_gpus": named.reference.gpus if named.reference else None,
        "overheads": [
            {
                "part": each.part,
                "share_before": each.before / named.total_before,
                "share_after": each.after / named.total_after,
            }
            for each in named.overheads
        ],
    }


def _mitigation(tried: Mitigation) -> dict[str, Any]:
    return {
        "knob": tried.knob,
        "change": tried.change,
        "price": KINDS[tried.kind],
        "gain": tried.gain,
        "part_before_s": tried.part_before_s,
        "part_after_s": tried.part_after_s,
        "plan": tried.estimate.plan.to_dict(),
        "step_time_s": tried.estimate.step_time_s,
    }
