"""Communication: where, why and how much ranks exchange, and what it does to scaling."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.answers.document.blocks import Block, Heading, Paragraph, Table
from meshwright.answers.experts.routing import routing_lines
from meshwright.answers.experts.tables import expert_tables
from meshwright.answers.memo.exchanges import NAMES, tensor_seconds_apart
from meshwright.answers.memo.memo import Memo
from meshwright.answers.memo.sections.scaling import scaling_section
from meshwright.answers.plans.crossing import nothing_fits_inside
from meshwright.answers.words import percent, plural
from meshwright.layout.groups import expert_data_ranks, sharding_ranks
from meshwright.units import GIGA, format_bandwidth, format_bytes, format_seconds


def communication_section(memo: Memo) -> Iterator[Block]:
    """The table of exchanges, why gradients are summed, how much that is, and strong and weak scaling."""
    yield Heading("Appendix C. Communication: what is sent over which links", 2)
    yield Paragraph(_summary(memo))
    if memo.exchanges:
        yield _table(memo)
    if tables := tuple(expert_tables(memo.best, memo.inputs)):
        yield Heading("What an expert layer takes", 3)
        yield from tables
        yield from (Paragraph(f"{line}.") for line in routing_lines(memo.best, memo.inputs))
    yield Heading("What summing gradients costs", 3)
    yield Paragraph(_gradients(memo))
    yield Paragraph(_inside(memo))
    yield Heading("Scaling", 3)
    yield from scaling_section(memo)


def _summary(memo: Memo) -> str:
    step_s, exposed_s = memo.best.step_time_s, sum(each.exposed_s for each in memo.exchanges)
    if not memo.exchanges:
        return f"A single rank sends nothing: communication takes 0 s of the {format_seconds(step_s)} step."
    exposed: dict[str, float] = {}
    for each in memo.exchanges:
        exposed[each.axis] = exposed.get(each.axis, 0.0) + each.exposed_s
    largest = max(exposed, key=lambda axis: exposed[axis])
    return (
        f"A rank of the slowest stage communicates for {format_seconds(sum(each.seconds for each in memo.exchanges))} "
        f"in a step of {format_seconds(step_s)}; compute hides all but {format_seconds(exposed_s)}, "
        f"{percent(exposed_s / step_s)} of the step. The largest part is {NAMES[largest]}: "
        f"{format_seconds(exposed[largest])}."
    )


def _table(memo: Memo) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            NAMES[each.axis] if each.axis == "embedding" else "experts' dp" if each.axis == "edp" else each.axis,
            each.what,
            f"{each.ranks} in {plural(each.domains, 'domain')}",
            f"{each.link} {format_bandwidth(each.bandwidth)}",
            format_bytes(each.sent_bytes),
            f"{each.times:,.0f}",
            f"{each.effective_bandwidth / GIGA:.3g}",
            format_seconds(each.seconds),
            format_seconds(each.exposed_s),
        )
        for each in memo.exchanges
    ]
    sums = (format_seconds(sum(getattr(each, name) for each in memo.exchanges)) for name in ("seconds", "exposed_s"))
    rows.append(("all", "", "", "", "", "", "", *sums))
    columns = (
        "axis", "collective", "ranks", "link", "sent each time", "times", "effective GB/s", "seconds", "exposed",
    )  # fmt: skip
    caption = (
        "One rank in one step. Tensor, context and expert messages have a line for each pass of a layer. Effective "
        "GB/s: bytes sent divided by time. It is less than the link where messages are small or several operations "
        "follow each other, and more where a part stays inside a node. Exposed: the time that the step waits for"
    )
    return Table(columns, tuple(rows), "llllrrrrr", caption=caption, total=True)


def _gradients(memo: Memo) -> str:
    best, plan, inputs = memo.best, memo.best.plan, memo.inputs
    summed = [each for each in memo.exchanges if each.axis == "dp"]
    if not summed:
        return f"There is {plural(plan.dp, 'replica')}, so no gradients are summed between replicas: 0 bytes."
    sent = sum(each.sent_bytes * each.times for each in summed)
    seconds, exposed_s = (sum(getattr(each, name) for each in summed) for name in ("seconds", "exposed_s"))
    divided = f"; ZeRO {plan.zero} divides over {int(sharding_ranks(plan))} of them" if plan.zero else ""
    return (
        f"The {plan.dp * plan.cp} ranks with the same part of the model each see different "
        f"{'sequences' if plan.cp == 1 else 'tokens'}, and the gradient of the batch is the mean over all "
        f"{inputs.job.global_batch} sequences. {_when(memo)}{divided}. A rank sends "
        f"{format_bytes(sent)} for this in a step. That takes {format_seconds(seconds)}, of which "
        f"{format_seconds(exposed_s)} is exposed, {percent(exposed_s / best.step_time_s)} of the step."
        f"{_of_experts(memo)}"
    )


def _when(memo: Memo) -> str:
    """How often gradients are summed, and weights gathered."""
    plan = memo.best.plan
    count, one = plan.num_microbatches, plan.num_microbatches == 1
    if plan.zero >= 3 or any(each.by_layer for each in memo.exchanges):
        each = "The one micro-batch" if one else f"Each of the {count} micro-batches"
        gathered = "gathers weights before every layer and reduce-scatters gradients after it"
        return f"{each} {gathered}, while other layers compute"
    if plan.zero == 2:
        after = "the one micro-batch" if one else f"each of the {count} micro-batches"
        return f"ZeRO 2 sums them after {after}, in buckets during backward"
    last = "the one micro-batch" if one else f"the last of {count} micro-batches"
    return f"They are summed once a step, in buckets during the backward pass of {last}"


def _of_experts(memo: Memo) -> str:
    """Over which ranks the gradients of experts are summed."""
    plan, own = memo.best.plan, [each for each in memo.exchanges if each.axis == "edp"]
    if not memo.inputs.model.is_moe:
        return ""
    ranks = int(expert_data_ranks(plan))
    if not own:
        return f" Each expert is on {plural(ranks, 'rank')}, so its gradients need no sum over ranks."
    return (
        f" Gradients of experts are summed over the {ranks} ranks that hold the same experts: "
        f"{format_bytes(sum(each.sent_bytes * each.times for each in own))} a step."
    )


def _inside(memo: Memo) -> str:
    tensor = [each for each in memo.exchanges if each.axis == "tp"]
    if not tensor:
        return "Without tensor parallelism a layer sends no activations to other ranks for its products: 0 bytes."
    slowest, first, seconds = memo.inputs.cluster.levels[-1], tensor[0], sum(each.seconds for each in tensor)
    over = (
        f"Tensor parallelism communicates in every layer, {format_seconds(seconds)} a step over {first.link} at "
        f"{format_bandwidth(first.bandwidth)}"
    )
    if first.link == slowest.name and first.domains == 1:
        return f"{over}; the cluster has no slower links."
    if first.domains > 1:
        why = ", because nothing fits within one" if nothing_fits_inside(memo.search) else ""
        return f"{over}; it crosses {plural(first.domains, 'domain')}{why}."
    links = f"{slowest.name} at {format_bandwidth(slowest.effective_bandwidth)}"
    return (
        f"{over}. With only {links} between its {first.ranks} ranks, the same messages would take about "
        f"{format_seconds(tensor_seconds_apart(memo.best, memo.inputs))}."
    )
