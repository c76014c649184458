"""Outside: single changes beside the plan: of the job, the runtime and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime.communication import Communication, Overlap
from meshwright.specs.scale import network_levels, with_network, with_nodes

NETWORK_FACTOR = 2.0


class Outside(NamedTuple):
    """One change beside the plan."""

    inputs: Inputs
    told: str
    """As `precision bf16 -> fp8`."""
    changes: dict[str, Any]
    """Fields of the plan that go with it."""


def outside_knobs(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, list[Outside]]]:
    """Every single change beside the plan: by its name, the ways to make it; none where it makes no question.

    Other precisions and gradients; switches of the runtime (each share of overlap to nothing, or from nothing to what
    the runtime hides best; cross-entropy; dispatcher of experts); the fewest more nodes; the network twice as fast.
    """
    job, runtime = inputs.job, inputs.runtime
    for precision in runtime.plans.precisions:
        if precision != job.precision:
            yield from _of_job(inputs, "precision", job.precision, precision)
    summed = {2: "half", 4: "fp32"}
    now = summed[inputs.gradient_bytes]
    yield from _of_job(inputs, "gradients", now, next(name for name in summed.values() if name != now))
    yield from _switches(inputs)
    yield "nodes", list(_more_nodes(plan, inputs))
    if network_levels(inputs.cluster):
        faster = inputs.replace(cluster=with_network(inputs.cluster, NETWORK_FACTOR))
        yield "network", [Outside(faster, f"network x{NETWORK_FACTOR:g}", {})]


def _of_job(inputs: Inputs, field: str, before: str, after: str) -> Iterator[tuple[str, list[Outside]]]:
    def changed() -> Inputs:
        return inputs.replace(job=inputs.job.replace(**{field: after}))

    yield field, _possible(changed, f"{field} {before} -> {after}")


def _switches(inputs: Inputs) -> Iterator[tuple[str, list[Outside]]]:
    runtime = inputs.runtime
    shares = {name: getattr(runtime.overlap, name) for name in Overlap.model_fields}
    best = max(shares.values())
    for name, share in shares.items():
        other = 0.0 if share else best
        if other != share:
            overlap = runtime.overlap.replace(**{name: other})
            yield _of_runtime(inputs, f"overlap.{name}", f"{share:g}", f"{other:g}", overlap=overlap)
    for name in runtime.cross_entropies:
        if name != runtime.kernels.cross_entropy:
            yield _of_runtime(inputs, "cross_entropy", runtime.kernels.cross_entropy, name, cross_entropy=name)
    for name in get_args(Communication.model_fields["dispatcher"].annotation) if inputs.model.is_moe else ():
        if name != runtime.communication.dispatcher:
            yield _of_runtime(inputs, "dispatcher", runtime.communication.dispatcher, name, dispatcher=name)


def _of_runtime(inputs: Inputs, key: str, before: str, after: str, **fields: Any) -> tuple[str, list[Outside]]:
    def changed() -> Inputs:
        return inputs.replace(runtime=inputs.runtime.replace(**fields))

    return key, _possible(changed, f"{key} {before} -> {after}")


def _more_nodes(plan: Plan, inputs: Inputs) -> Iterator[Outside]:
    """The next numbers of nodes, up to twice as many, of which dp can use every rank on whole micro-batches."""
    cluster, replica = inputs.cluster, plan.tp * plan.cp * plan.pp
    for nodes in range(cluster.num_nodes + 1, 2 * cluster.num_nodes + 1):
        dp, rest = divmod(nodes * cluster.gpus_per_node, replica)
        if not rest and inputs.job.global_batch % (dp * plan.micro_batch) == 0:

            def changed(nodes: int = nodes) -> Inputs:
                return inputs.replace(cluster=with_nodes(cluster, nodes))

            yield from _possible(changed, f"nodes {cluster.num_nodes} -> {nodes}", dp=dp)


def _possible(changed: Callable[[], Inputs], told: str, **changes: int) -> list[Outside]:
    """The change, if it makes a question."""
    try:
        return [Outside(changed(), told, changes)]
    except InvalidSpec:
        return []
