"""Experts: where a plan's experts lie, what exchanging tokens costs, and what an imbalance between ranks would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from meshwright.answers.placed import link_of, sent_over
from meshwright.answers.records import json_of, price_of
from meshwright.cost.comms.experts import RESULTS, TOKENS
from meshwright.cost.comms.group import Group, axis_group
from meshwright.cost.estimate import Estimate
from meshwright.cost.expert_rows import routed_experts, routed_rows
from meshwright.cost.messages import layer_messages, step_messages
from meshwright.cost.shard import residual_tokens
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs

IMBALANCES = (1.0, 1.2, 1.5, 2.0)
"""Tokens of the busiest rank over the mean, of which each is priced."""


@dataclass(frozen=True)
class ExpertLayers:
    """The layers of experts of one kind, for one micro-batch on one rank."""

    kind: str
    layers: int
    """Of the whole model, with multi-token prediction."""
    experts: int
    active: int
    """Experts that one token visits."""
    experts_per_rank: int
    tokens: float
    """That enter one layer on one rank."""
    rows: float
    """That all experts of one rank compute, on average."""
    busiest_rows: float
    sent_bytes: dict[str, float]
    """By link: what one rank sends in a dispatch of forward, on average; a combine sends as many elements back, each of
    2 bytes."""
    dispatch_s: float
    combine_s: float


@dataclass(frozen=True)
class ExpertReport:
    """The experts of one plan."""

    group: Group
    """Ranks that together hold every expert of one layer once."""
    link: str
    """The outermost links that the group crosses."""
    dispatcher: str
    replicas: int
    """Of every expert."""
    layers: tuple[ExpertLayers, ...]
    exchanged_s: float
    """Seconds of all exchanges of one step on the slowest stage, both passes, as if nothing hid them."""
    exposed_s: float
    """Of these, what the step waits for."""
    imbalance: tuple[tuple[float, Estimate], ...]
    """The plan priced again for each of `IMBALANCES`, without an expert capacity."""


def expert_report(estimate: Estimate, inputs: Inputs) -> ExpertReport | None:
    """The experts of a priced plan; None for a model without."""
    if not inputs.model.is_moe:
        return None
    plan, group = estimate.plan, axis_group("ep_etp", estimate.plan, inputs)
    rows = step_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True))
    return ExpertReport(
        group=group,
        link=link_of(group, inputs.cluster).name,
        dispatcher=inputs.runtime.communication.dispatcher,
        replicas=int(expert_data_ranks(plan)),
        layers=tuple(_layers(plan, inputs)),
        exchanged_s=sum(row.seconds for row in rows if row.part == "ep"),
        exposed_s=estimate.time.exposed_ep_s,
        imbalance=tuple((imbalance, _imbalanced(plan, inputs, imbalance)) for imbalance in IMBALANCES),
    )


def experts_entry(report: ExpertReport) -> dict[str, Any]:
    """The report as it stands in the plan file of `explain`."""
    return {
        "dispatcher": report.dispatcher,
        "domains": int(report.group.blocks[0]),
        "ranks_per_domain": int(report.group.members[0]),
        "link": report.link,
        "replicas": report.replicas,
        "layers": json_of(report.layers),
        "exchanged_s": report.exchanged_s,
        "exposed_s": report.exposed_s,
        "imbalance": [
            {"expert_imbalance": imbalance, **price_of(estimate)} for imbalance, estimate in report.imbalance
        ],
    }


def _layers(plan: Plan, inputs: Inputs) -> Iterator[ExpertLayers]:
    model, tokens = inputs.model, residual_tokens(plan, inputs)
    for kind, count in zip(model.layer_kinds, inputs.layers_per_kind, strict=True):
        if not kind.is_moe:
            continue
        experts, rows = routed_experts(kind), routed_rows(plan, inputs, kind, tokens)
        sent = [row for row in layer_messages(plan, inputs, kind) if (row.part, row.phase) == ("ep", "forward")]
        dispatch, combine = ([row for row in sent if row.content == what] for what in (TOKENS, RESULTS))
        yield ExpertLayers(
            kind=kind.name,
            layers=count,
            experts=experts.count,
            active=experts.active,
            experts_per_rank=experts.count // plan.ep,
            tokens=float(tokens),
            rows=float(rows.mean),
            busiest_rows=float(rows.hottest),
            sent_bytes=sent_over(dispatch, inputs.cluster),
            dispatch_s=sum(row.seconds for row in dispatch),
            combine_s=sum(row.seconds for row in combine),
        )


def _imbalanced(plan: Plan, inputs: Inputs, imbalance: float) -> Estimate:
    job = inputs.job.replace(expert_imbalance=imbalance, expert_capacity=None)
    return estimate_each([plan], inputs.replace(job=job))[0]
