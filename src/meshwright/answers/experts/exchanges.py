"""Experts: where a plan's experts lie, what exchanging tokens costs, and what an imbalance between ranks would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meshwright.answers.document.blocks import Block, Heading, Lines, Table
from meshwright.answers.links import placement_of, placement_words, sent_over, sent_words
from meshwright.answers.screen import verdict_cell
from meshwright.cost.comms.experts import RESULTS
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.cost.messages import layer_messages, step_messages
from meshwright.cost.routing import routed_experts, routed_rows
from meshwright.cost.shard import routed_tokens
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import HALF_BYTES
from meshwright.units import GIB, format_seconds

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
    """By link: what one rank sends in a dispatch of forward, on average, with the scores and counts of its tokens; a
    combine sends the tokens' elements back, each of 2 bytes."""
    dispatch_s: float
    combine_s: float


@dataclass(frozen=True)
class Imbalance:
    """The plan priced again with unequal shares of the experts, without an expert capacity."""

    expert_imbalance: float
    """Tokens of the busiest rank over the mean."""
    step_time_s: float
    device_bytes: float
    verdict: Verdict


@dataclass(frozen=True)
class ExpertReport:
    """The experts of one plan."""

    dispatcher: str
    domains: int
    """Scale-up domains over which the ranks stand that together hold every expert of one layer once."""
    ranks_per_domain: int
    link: str
    """The outermost links that these ranks exchange over."""
    replicas: int
    """Of every expert."""
    layers: tuple[ExpertLayers, ...]
    exchanged_s: float
    """Seconds of all exchanges of one step on the slowest stage, both passes, as if nothing hid them."""
    exposed_s: float
    """Of these, what the step waits for."""
    imbalance: tuple[Imbalance, ...]


def expert_report(estimate: Estimate, inputs: Inputs) -> ExpertReport | None:
    """The experts of a priced plan; None for a model without."""
    if not inputs.model.is_moe:
        return None
    plan, placement = estimate.plan, placement_of("ep_etp", estimate.plan, inputs)
    rows = step_messages(estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True))
    return ExpertReport(
        dispatcher=inputs.dispatcher,
        domains=placement.domains,
        ranks_per_domain=placement.ranks_per_domain,
        link=placement.link,
        replicas=int(expert_data_ranks(plan)),
        layers=tuple(_layers(plan, inputs)),
        exchanged_s=sum(row.seconds for row in rows if row.part == "ep"),
        exposed_s=estimate.time.exposed_ep_s,
        imbalance=tuple(_imbalanced(plan, inputs, imbalance) for imbalance in IMBALANCES),
    )


def _layers(plan: Plan, inputs: Inputs) -> Iterator[ExpertLayers]:
    model, tokens = inputs.model, routed_tokens(plan, inputs)
    for kind, count in zip(model.layer_kinds, inputs.layers_per_kind, strict=True):
        if not kind.is_moe:
            continue
        experts, rows = routed_experts(kind), routed_rows(plan, inputs, kind, tokens)
        sent = [row for row in layer_messages(plan, inputs, kind) if (row.part, row.phase) == ("ep", "forward")]
        dispatch, combine = ([row for row in sent if (row.content == RESULTS) == back] for back in (False, True))
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


def _imbalanced(plan: Plan, inputs: Inputs, imbalance: float) -> Imbalance:
    job = inputs.job.replace(expert_imbalance=imbalance, expert_capacity=None)
    estimate = estimate_each([plan], inputs.replace(job=job))[0]
    return Imbalance(imbalance, estimate.step_time_s, estimate.memory.device, estimate.verdict)


def experts_section(report: ExpertReport, plan: Plan, inputs: Inputs) -> tuple[Block, ...]:
    """Where the experts lie, what their exchange sends and takes, and the plan priced again with imbalances."""
    placements = [placement_words(placement_of(axis, plan, inputs), inputs.cluster) for axis in ("ep", "etp")]
    replicas = f"{report.replicas} replicas of every expert" if report.replicas > 1 else "no replicas"
    lines = ["; ".join([*placements, replicas])]
    for layers in report.layers:
        lines += _layer_lines(layers, report, inputs)
    if report.exchanged_s:
        lines.append(
            f"The slowest stage spends {format_seconds(report.exchanged_s)} of a step on exchanges; "
            f"{format_seconds(report.exposed_s)} of that is exposed ({report.exposed_s / report.exchanged_s:.0%})"
        )
    return Heading("Experts", 3), Lines(tuple(lines)), _imbalance_table(report, inputs)


def _layer_lines(layers: ExpertLayers, report: ExpertReport, inputs: Inputs) -> list[str]:
    busiest = f", {layers.busiest_rows:,.0f} on the busiest rank" if layers.busiest_rows > layers.rows else ""
    computed = (
        f"{layers.layers} layers ({layers.kind}): a rank holds {layers.experts_per_rank} of {layers.experts} experts; "
        f"in a micro-batch it takes in {layers.tokens:,.0f} tokens and computes {layers.rows:,.0f} rows{busiest}, "
        f"{layers.rows / layers.experts_per_rank:,.0f} per expert"
    )
    if not layers.dispatch_s:
        return [computed]
    wider = HALF_BYTES / inputs.dispatch_bytes[0]
    back = "as much" if wider == 1 else f"{wider:.2f} times as much"
    sent = (
        f"One dispatch ({report.dispatcher.replace('_', '-')}) sends {sent_words(layers.sent_bytes)} per rank in "
        f"{format_seconds(layers.dispatch_s)}; one combine sends {back} in {format_seconds(layers.combine_s)}"
    )
    return [computed, sent]


def _imbalance_table(report: ExpertReport, inputs: Inputs) -> Table:
    capacity = inputs.expert_capacity
    without = f", without the capacity of {capacity:g}" if capacity else ""
    even = report.imbalance[0].step_time_s
    rows = tuple(
        (
            f"{each.expert_imbalance:.1f}",
            format_seconds(each.step_time_s),
            f"{each.step_time_s / even - 1:z.1%}",
            f"{each.device_bytes / GIB:.1f}",
            verdict_cell(each.verdict),
        )
        for each in report.imbalance
    )
    columns = ("busiest rank / mean", "step", "slower", "device GiB", "verdict")
    return Table(columns, rows, "rrrrw", caption=f"If experts get unequal shares{without}")
