"""Training: what all tokens of a job take with a plan: days, accelerator-hours, money, and nodes for a deadline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.plan_file import nodes_entry
from meshwright.answers.records import fields_of
from meshwright.cost.estimate import Estimate
from meshwright.errors import InvalidInput, UnknownName, quoted
from meshwright.search.find import Progress
from meshwright.search.many_searches.fewest_nodes import Limit, fewest_nodes
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.units import MOST_PRICE, format_count, format_days, is_price

SECONDS_A_DAY = 86400
HOURS_A_DAY = 24


@dataclass(frozen=True)
class Training:
    """All tokens of the job with one plan."""

    days: float
    accelerator_hours: float
    cost: float | None
    """In the currency of the price; None where none is given."""


class Outlook(StrEnum):
    """How many runs like a plan train all tokens by a deadline."""

    MET = "met"
    """Nine of ten or more."""
    MOSTLY = "met in most runs"
    """Half of them or more."""
    AT_RISK = "at risk"
    """Fewer than half."""
    MISSED = "missed"
    """Fewer than one of ten."""


@dataclass(frozen=True)
class Deadline:
    """Whether a cluster trains all tokens in time."""

    days: float
    outlook: Outlook
    """Of its best plan."""
    nodes: Limit | None
    """Where that is not `MET`, the fewest nodes with a safe plan of which it is; None: 32 times the nodes do not."""
    training: Training | None
    """On those nodes."""


def training_of(estimate: Estimate, inputs: Inputs, price: float | None = None) -> Training | None:
    """What a plan takes for all tokens; None where the job names none. price: as `training_on`."""
    return training_on(inputs.job.tokens, estimate, inputs, price) if inputs.job.tokens else None


def training_on(tokens: float, estimate: Estimate, inputs: Inputs, price: float | None = None) -> Training:
    """What a plan takes for so many tokens: days = tokens / tokens a step x step.

    price: of one accelerator for one hour, in any currency.
    """
    days = tokens / inputs.job.tokens_per_step * estimate.step_time_s / SECONDS_A_DAY
    hours = days * HOURS_A_DAY * inputs.cluster.num_gpus
    return Training(days, hours, None if price is None else price * hours)


def days_interval(training: Training, estimate: Estimate, inputs: Inputs) -> tuple[float, float]:
    """The days that eight of ten runs like a plan take: those of the prediction by the interval of its step time."""
    interval = step_time_interval(estimate, inputs)
    shortest, longest = (training.days * seconds / estimate.step_time_s for seconds in (interval.p10, interval.p90))
    return shortest, longest


def training_line(training: Training, tokens: float, price: float | None) -> str:
    """What so many tokens take, in words; price: of one accelerator for one hour."""
    cost = "" if training.cost is None else f", which cost {format_count(training.cost)} at {price:g} each"
    hours = format_count(training.accelerator_hours)
    return f"{format_count(tokens)} tokens take {format_days(training.days)} and {hours} accelerator-hours{cost}."


def training_entry(training: Training, tokens: float, price: float) -> dict[str, Any]:
    """The same as it stands in a document."""
    return {"tokens": tokens, "price_per_accelerator_hour": price} | fields_of(
        training, "days", "accelerator_hours", "cost"
    )


def deadline_of(
    estimate: Estimate | None,
    inputs: Inputs,
    days: float,
    price: float | None = None,
    progress: Progress | None = None,
) -> Deadline | None:
    """Whether runs of the best plan of a question meet a deadline, and the fewest nodes where nine in ten do; None
    without tokens.

    estimate: None where nothing fits; days: of training; price: of one accelerator for one hour.
    """
    if not inputs.job.tokens:
        return None
    step_s = days * SECONDS_A_DAY * inputs.job.tokens_per_step / inputs.job.tokens
    outlook = outlook_of(estimate, inputs, step_s) if estimate else Outlook.MISSED
    if outlook == Outlook.MET:
        return Deadline(days, outlook, None, None)
    limit = fewest_nodes(inputs, step_s, inputs.cluster.num_nodes, progress, _surely_within_s)
    return Deadline(days, outlook, limit, training_of(limit.estimate, limit.inputs, price) if limit else None)


def outlook_of(estimate: Estimate, inputs: Inputs, step_s: float) -> Outlook:
    """How many runs like a plan make a step in so many seconds, by the interval of its step time."""
    interval = step_time_interval(estimate, inputs)
    bounds = ((interval.p90, Outlook.MET), (interval.p50, Outlook.MOSTLY), (interval.p10, Outlook.AT_RISK))
    return next((outlook for seconds, outlook in bounds if seconds <= step_s), Outlook.MISSED)


def _surely_within_s(limit: Limit) -> float:
    """Seconds of a step that nine of ten runs like a plan stay below."""
    return step_time_interval(limit.estimate, limit.inputs).p90


def deadline_entry(deadline: Deadline) -> dict[str, Any]:
    """The deadline as it stands in a document; `nodes` is null where it is met, and where no number meets it."""
    nodes = deadline.nodes and {**nodes_entry(deadline.nodes), "training": deadline.training}
    met = {"met": deadline.outlook == Outlook.MET, "outlook": deadline.outlook.value}
    return {"days": deadline.days, **met, "nodes": nodes}


def prices_of(texts: Sequence[str], clusters: Mapping[str, Cluster]) -> dict[str, float]:
    """The price of an accelerator-hour by the name of its cluster; clusters without a price are left out.

    texts: `KEY=NUMBER`, the key an accelerator by id or alias, or a cluster, which goes before its accelerator; a
    number alone where all clusters have the same accelerator. clusters: by the text that asks for them. Raises
    `InvalidInput` for what is no price, names nothing that is compared, or names the same twice.
    """
    by_accelerator: dict[str, float] = {}
    by_cluster: dict[str, float] = {}
    for text in texts:
        key, price = _read(text)
        names = {cluster.name for asked, cluster in clusters.items() if key in (asked, cluster.name)}
        known = by_cluster if names else by_accelerator
        for name in names or {_accelerator(key, text, clusters)}:
            if name in known:
                raise InvalidInput(f"--price {text}: {name} has the price {known[name]:g} already; give one of the two")
            known[name] = price
    compared = {cluster.name: cluster.accelerator.id for cluster in clusters.values()}
    prices = {name: by_cluster.get(name, by_accelerator.get(accelerator)) for name, accelerator in compared.items()}
    return {name: price for name, price in prices.items() if price is not None}


def _read(text: str) -> tuple[str, float]:
    key, _, number = text.rpartition("=")
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if "," in text and text.count("=") > 1:
        each = " ".join(f"--price {part.strip()}" for part in text.split(","))
        raise InvalidInput(f"--price {quoted(text)} is several prices; give the option once for each: {each}")
    if text.startswith("=") or not is_price(price):
        what = f"is not a price of an accelerator-hour, from 0 to {MOST_PRICE:g}"
        raise InvalidInput(f"--price {quoted(text)} {what}: write it as 2.9 or h100=2.9")
    return key.strip(), price


def _accelerator(key: str, text: str, clusters: Mapping[str, Cluster]) -> str:
    """The accelerator of one of the clusters that a key names; the one that all have for an empty key."""
    ids = {cluster.accelerator.id for cluster in clusters.values()}
    if not key:
        if len(ids) == 1:
            return ids.pop()
        raise InvalidInput(
            f"--price {text}: of which accelerator? Write {' or '.join(f'{i}={text}' for i in sorted(ids))}"
        )
    try:
        wanted = catalog.resolve("accelerators", key)
    except UnknownName:
        wanted = key
    if wanted in ids:
        return wanted
    known = ", ".join([*sorted(ids), *(cluster.name for cluster in clusters.values())])
    raise InvalidInput(f"--price {text}: {quoted(key)} is not compared; it can price {known}")
