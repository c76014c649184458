"""Exchanges: what ranks send to each other in one step: collective, group, link, bytes, frequency and seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from meshwright.answers.links import link_of
from meshwright.cost.comms.collectives import operation_time
from meshwright.cost.comms.data import GRADIENTS, WEIGHTS, earlier_reductions
from meshwright.cost.comms.exchange import COPY
from meshwright.cost.comms.group import Group, axis_group
from meshwright.cost.comms.sharded import gathers_weights
from meshwright.cost.estimate import Estimate
from meshwright.cost.messages import MessageRow, step_messages
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs

HOST = "host"
NAMES = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "pp": "pipeline parallel",
    "dp": "data parallel",
    "edp": "experts' data parallel",
    "embedding": "shared embedding",
    HOST: "host memory",
}
"""Axes in words; the embedding is summed over the stages that share it, and each rank has its host's memory."""
PASSES = ("tp", "cp", "ep")
"""Axes that exchange in the passes of every micro-batch."""


@dataclass(frozen=True, kw_only=True)
class ExchangeLine:
    """What one axis exchanges in one pass, seen from a rank of the stage that sets the pace."""

    axis: str
    """A key of `NAMES`."""
    what: str
    """As `forward: 2 all-gather, 2 reduce-scatter`."""
    ranks: int
    domains: int
    """Scale-up domains that the group touches."""
    link: str
    """The outermost links that it crosses."""
    sent_bytes: float
    """By one rank each time."""
    times: float
    """A step."""
    seconds: float
    """A step, if nothing ran beside it."""
    exposed_s: float
    """Of these, what the step waits for."""
    bandwidth: float
    """Of the link, bytes/s."""
    by_layer: bool = False
    """Of weights that are gathered for every layer, and their gradients."""

    @property
    def effective_bandwidth(self) -> float:
        """What one rank sends in a step over the seconds that it takes, bytes/s, over all links."""
        return self.sent_bytes * self.times / self.seconds if self.seconds else 0.0


def exchanges(estimate: Estimate, inputs: Inputs) -> tuple[ExchangeLine, ...]:
    """Every exchange of one step; what they expose adds up to the communication in the estimate's waterfall."""
    plan, rows = estimate.plan, step_messages(estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True))
    return (*_passes(rows, plan, inputs), *_between_stages(rows, plan, inputs), *_weights(rows, plan, inputs))


def tensor_seconds_apart(estimate: Estimate, inputs: Inputs) -> float:
    """Seconds of the tensor-parallel messages of one step if only the cluster's slowest links joined the ranks of a
    group, one rank in each of their blocks, and nothing ran beside them; priced as any other collective.
    """
    rows = step_messages(estimate_plans(Plans.of([estimate.plan]), inputs, keep_all_stages=True))
    return sum(_seconds_apart(row, inputs.cluster) for row in rows if row.part == "tp")


def _seconds_apart(row: MessageRow, cluster: Cluster) -> float:
    """Of a collective, with what its seconds hold beside the price of sending, such as a copy."""
    inner, ranks = len(cluster.levels) - 1, row.group.ranks
    apart = Group(ranks, (*[1] * inner, ranks), (*[ranks] * inner, 1))
    before, after = (
        float(operation_time(row.operation, row.bytes, group, cluster))  # type: ignore[arg-type]
        for group in (row.group, apart)
    )
    return row.seconds + row.times * (after - before)


def _passes(rows: Sequence[MessageRow], plan: Plan, inputs: Inputs) -> Iterator[ExchangeLine]:
    """A line for either pass of every axis that a layer exchanges over.

    Bytes are the mean of the layers on the slowest stage that exchange; seconds hold its embedding's and head's too.
    """
    kinds = [kind.name for kind in inputs.model.layer_kinds]
    for axis in PASSES:
        for forward in (True, False):
            every = [row for row in rows if row.part == axis and (row.phase == "forward") == forward]
            layers = [row for row in every if row.unit in kinds]
            if not layers:
                continue
            units = sum({(row.unit, row.units): row.units for row in layers}.values())
            last = [row for row in layers if (row.unit, row.units) == (layers[-1].unit, layers[-1].units)]
            what = f"{'forward' if forward else 'backward'}: {_what(axis, last, plan, inputs, forward=forward)}"
            sent = sum(row.sent_bytes * row.times for row in layers) / units
            yield _line(axis, what, every, plan, inputs, sent, units)


def _what(axis: str, rows: Sequence[MessageRow], plan: Plan, inputs: Inputs, *, forward: bool) -> str:
    """What one layer exchanges in one pass, in words."""
    if axis == "cp":
        name = CONTEXT_EXCHANGE_NAMES[plan.context_exchange].replace("_", "-")
        return f"{name} exchange of keys{' and values' if forward else ', values and their gradients'}"
    if axis == "ep":
        name = inputs.dispatcher.replace("_", "-")
        return f"{name} dispatch and combine of tokens" if forward else f"{name} of their gradients"
    counts = dict.fromkeys(sorted({row.operation for row in rows}), 0.0)
    for row in rows:
        counts[row.operation] += row.times_a_unit
    return ", ".join(f"{count:.0f} {name.replace('_', '-')}" for name, count in counts.items())


def _between_stages(rows: Sequence[MessageRow], plan: Plan, inputs: Inputs) -> Iterator[ExchangeLine]:
    """Activations to the next stage and gradients to the one before, of every micro-batch and chunk."""
    between = [row for row in rows if row.part == "pp"]
    if between:
        sent = next(row.bytes for row in between if row.operation == "send")
        what, times = "activations to the next stage, gradients back", 2 * plan.num_microbatches * plan.vpp
        yield _line("pp", what, between, plan, inputs, sent, times)


def _weights(rows: Sequence[MessageRow], plan: Plan, inputs: Inputs) -> Iterator[ExchangeLine]:
    """Lines for gradients and weights between replicas, of the stage that waits longest, for embeddings that two stages
    share, and for weights in the host's memory.
    """
    tied, of_host = [row for row in rows if row.axis == "embedding"], [row for row in rows if _is_of_host(row)]
    between = [row for row in rows if row.part == "dp" and row.axis != "embedding" and not _is_of_host(row)]
    for axis, of in (("dp", ""), ("edp", "experts' ")):
        some = [row for row in between if row.axis.startswith("edp") == (axis == "edp")]
        if any(row.sent_bytes * row.times for row in some):
            yield from _shared(axis, of, some, plan, inputs)
    if tied:
        yield _line("embedding", "all-reduce of its gradient", tied, plan, inputs, _sent(tied), 1)
    if of_host:
        yield _to_and_from_host(of_host, inputs)


def _is_of_host(row: MessageRow) -> bool:
    """Whether it goes between a rank and the memory of its host, or is added up there."""
    return row.operation == COPY and row.content in (WEIGHTS, GRADIENTS)


def _to_and_from_host(rows: Sequence[MessageRow], inputs: Inputs) -> ExchangeLine:
    """The line of copies of weights to the device and of gradients to the host, with what adds these up there."""
    times = sum(row.times for row in rows if row.bytes)
    return ExchangeLine(
        axis=HOST,
        what="copies of weights to the device and of gradients back, layer by layer",
        ranks=1,
        domains=1,
        link=HOST,
        sent_bytes=sum(row.bytes * row.times for row in rows) / times,
        times=times,
        seconds=sum(row.seconds for row in rows),
        exposed_s=sum(row.exposed_s for row in rows),
        bandwidth=inputs.cluster.accelerator.kernels.host_copy_bandwidth,
        by_layer=True,
    )


def _shared(axis: str, of: str, rows: Sequence[MessageRow], plan: Plan, inputs: Inputs) -> Iterator[ExchangeLine]:
    """Lines for the weights that the ranks of one axis hold alike; of: whose they are, in words."""
    gathered, reduced = ([row for row in rows if (row.content == WEIGHTS) == weights] for weights in (True, False))
    if gathers_weights(plan, inputs):
        what = f"all-gather of {of}weights, reduce-scatter of {of}gradients, layer by layer"
        times = sum(row.times for row in rows if row.axis == f"{axis}_shard" and row.bytes)
        yield replace(_line(axis, what, rows, plan, inputs, _sent(rows) / times, times), by_layer=True)
        return
    times = 1 + float(earlier_reductions(plan))
    yield _line(axis, _reducing(reduced, of), reduced, plan, inputs, _sent(reduced) / times, times)
    if gathered:
        yield _line(axis, f"all-gather of {of}updated weights", gathered, plan, inputs, _sent(gathered), 1)


def _reducing(rows: Sequence[MessageRow], of: str) -> str:
    """What sums the gradients; of: whose they are, in words."""
    operations = {row.operation for row in rows}
    if "reduce_scatter" not in operations:
        return f"all-reduce of {of}gradients"
    return f"reduce-scatter of {of}gradients" + (", all-reduce between replicas" if "all_reduce" in operations else "")


def _sent(rows: Sequence[MessageRow]) -> float:
    """Bytes that one rank sends in a step."""
    return sum(row.sent_bytes * row.times for row in rows)


def _line(
    axis: str, what: str, rows: Sequence[MessageRow], plan: Plan, inputs: Inputs, sent_bytes: float, times: float
) -> ExchangeLine:
    """A line for some messages of an axis; of the expert axes, over the ranks that hold all experts."""
    group = axis_group("ep_etp" if axis == "ep" else axis, plan, inputs)
    link = link_of(group, inputs.cluster)
    return ExchangeLine(
        axis=axis,
        what=what,
        ranks=int(group.ranks),
        domains=int(group.blocks[0]),
        link=link.name,
        sent_bytes=sent_bytes,
        times=times,
        seconds=sum(row.seconds for row in rows),
        exposed_s=sum(row.exposed_s for row in rows),
        bandwidth=link.effective_bandwidth,
    )
