"""Question knobs: single changes of the model's sizes, the job, the runtime and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

from meshwright.errors import InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.search.changes.padding import paddings
from meshwright.specs.behaviours import position_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime.communication import Communication, Overlap
from meshwright.specs.scale import network_levels, with_network, with_nodes
from meshwright.specs.switches import KERNEL_SWITCHES, forms_on_device, narrower_forms, switched_on, with_kernels_on

NETWORK_FACTOR = 2.0


class FieldChange(NamedTuple):
    """One field with its value before and after."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} -> {self.after}" if self.before else f"{self.name} {self.after}"


class QuestionChange(NamedTuple):
    """One change of the question."""

    inputs: Inputs
    change: FieldChange
    plan_fields: dict[str, Any]
    """Fields of the plan that change with it."""


def question_knobs(plan: Plan, inputs: Inputs) -> Iterator[tuple[str, list[QuestionChange]]]:
    """Every single change of the question: by its name, the ways to make it; none where the question is invalid.

    Padding of the model's sizes that are not aligned; other precisions, gradients, and narrower optimizer states and
    inputs of activations, or states back from the host; switches of the runtime (each share of overlap to nothing, or
    from nothing to what its switch hides, else to what the runtime hides best; cross-entropy; attention; dispatcher and
    products of experts; what modules save back from the host; ranks that are bound to cores); the fewest more nodes;
    the network twice as fast.
    """
    job, runtime = inputs.job, inputs.runtime
    for each in paddings(plan, inputs):
        change = FieldChange(each.field, str(each.size), str(each.padded))
        yield each.field, [QuestionChange(each.inputs, change, {})]
    for precision in runtime.plans.precisions:
        # A job in bf16 gains no more by fp16 than by 2-byte gradients, and would scale its loss again.
        if precision != job.precision and (job.precision, precision) != ("bf16", "fp16"):
            yield _of_job(inputs, "precision", job.precision, precision)
    summed = {2: "half", 4: "fp32"}
    now = summed[inputs.gradient_bytes]
    yield _of_job(inputs, "gradients", now, next(name for name in summed.values() if name != now))
    for option, after in (*narrower_forms(inputs), *forms_on_device(inputs)):
        switch, _, position = option.partition("=")
        field = FieldChange(switch, position_of(inputs.runtime, switch), position)
        yield switch, [QuestionChange(after, field, {})]
    yield from switches(inputs)
    yield "nodes", list(_more_nodes(plan, inputs))
    if network_levels(inputs.cluster):
        faster = inputs.replace(cluster=with_network(inputs.cluster, NETWORK_FACTOR))
        yield "network", [QuestionChange(faster, FieldChange("network", "", f"x{NETWORK_FACTOR:g}"), {})]


def _of_job(inputs: Inputs, field: str, before: str, after: str) -> tuple[str, list[QuestionChange]]:
    change = FieldChange(field, before, after)
    return field, _valid(lambda: inputs.replace(job=inputs.job.replace(**{field: after})), change)


def switches(inputs: Inputs) -> Iterator[tuple[str, list[QuestionChange]]]:
    """Switches of the runtime, as `question_knobs` has them."""
    runtime = inputs.runtime
    shares = {name: getattr(runtime.overlap, name) for name in Overlap.model_fields}
    best = max(shares.values())
    for name, share in shares.items():
        other = 0.0 if share else switched_on(runtime, f"overlap.{name}", best)
        if other != share:
            overlap = runtime.overlap.replace(**{name: other})
            yield _of_runtime(inputs, f"overlap.{name}", f"{share:g}", f"{other:g}", overlap=overlap)
    for name in runtime.kernels.other_cross_entropies:
        if name != runtime.kernels.cross_entropy:
            yield _of_runtime(inputs, "cross_entropy", runtime.kernels.cross_entropy, name, cross_entropy=name)
    for name in get_args(Communication.model_fields["dispatcher"].annotation) if inputs.model.is_moe else ():
        runs = name != "fused" or inputs.cluster.runs_fused_dispatch
        if name != inputs.dispatcher and runs:
            yield _of_runtime(inputs, "dispatcher", inputs.dispatcher, name, dispatcher=name)
    for name in runtime.switches.get("attention", {}):
        if name != inputs.attention_kernel:
            kernels = dict.fromkeys(("attention_kernel", "modified_attention_kernel"), name)
            yield _of_runtime(inputs, "attention", inputs.attention_kernel, name, **kernels)
    for name in KERNEL_SWITCHES:
        if faster := with_kernels_on(inputs, name):
            yield name, [QuestionChange(faster, FieldChange(name, "off", "on"), {})]
    if named := runtime.activations.offloaded_modules:
        yield _of_runtime(inputs, "offloaded_modules", "+".join(named), "[]", offloaded_modules=())
    if runtime.sharding.accumulates_whole:
        yield _of_runtime(inputs, "accumulates_whole", "true", "false", accumulates_whole=False)
    if runtime.sharding.joins_logits(inputs.model):
        yield _of_runtime(inputs, "gathers_logits", "true", "false", gathers_logits=False)
    for name in ("binds_ranks", "runs_ahead"):
        if not getattr(runtime.host, name):
            yield _of_runtime(inputs, name, "false", "true", **{name: True})


def _of_runtime(inputs: Inputs, key: str, before: str, after: str, **fields: Any) -> tuple[str, list[QuestionChange]]:
    change = FieldChange(key, before, after)
    return key, _valid(lambda: inputs.replace(runtime=inputs.runtime.replace(**fields)), change)


def _more_nodes(plan: Plan, inputs: Inputs) -> Iterator[QuestionChange]:
    """The next numbers of nodes, up to twice as many, of which dp can use every rank on whole micro-batches."""
    cluster, replica = inputs.cluster, plan.tp * plan.cp * plan.pp
    for nodes in range(cluster.num_nodes + 1, 2 * cluster.num_nodes + 1):
        dp, rest = divmod(nodes * cluster.gpus_per_node, replica)
        if not rest and inputs.job.global_batch % (dp * plan.micro_batch) == 0:

            def changed(nodes: int = nodes) -> Inputs:
                return inputs.replace(cluster=with_nodes(cluster, nodes))

            yield from _valid(changed, FieldChange("nodes", str(cluster.num_nodes), str(nodes)), dp=dp)


def _valid(changed: Callable[[], Inputs], change: FieldChange, **plan_fields: int) -> list[QuestionChange]:
    """The change, if it makes a valid question."""
    try:
        return [QuestionChange(changed(), change, plan_fields)]
    except InvalidSpec:
        return []
