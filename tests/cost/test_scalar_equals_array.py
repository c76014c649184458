"""A formula is written once: element i of what it says of many plans is what it says of plan i.

The public functions are found by walking the packages; arguments are found by their name. A function with an argument
of a new name fails here until `ARGUMENTS` says what such an argument is.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshwright.cost
import meshwright.schedules
from meshwright.cost.comms.context import context_exchanges
from meshwright.cost.comms.data import data_exchange, shard_messages
from meshwright.cost.comms.exchange import exposed_seconds
from meshwright.cost.comms.group import AXES, all_to_all_traffic, axis_group
from meshwright.cost.comms.sharded import Windows, gathers_per_step
from meshwright.cost.comms.tensor import layer_tensor_exchanges, tensor_region
from meshwright.cost.compute.alignment import UnalignedSlowdown
from meshwright.cost.compute.ends import head_time
from meshwright.cost.compute.experts import expert_shard
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import Linear, linear_time, projections
from meshwright.cost.compute.slowdown import sustained_slowdown
from meshwright.cost.estimate import Estimates
from meshwright.cost.memory.saved import Saved
from meshwright.cost.memory.stage_parameters import stage_parameters
from meshwright.cost.memory.states import stage_states
from meshwright.cost.repeated import repeated_parts
from meshwright.cost.shapes import pipelines_of
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.cost.unit import micro_batch_shapes, unit_times
from meshwright.layout import groups
from meshwright.layout.microbatches import microbatch_group
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.pipeline import PassTimes, PipelineShape, PipelineTimes
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts
from meshwright.specs.weights import head_weights
from strategies import llama_8b, question, questions, some_legal_plans, split_stages

ROWS = 30
ACCELERATE = question(llama_8b(), "1x8:h100", "accelerate")
OFFLOADED = ACCELERATE.replace(runtime=with_behaviours(ACCELERATE.runtime, ["optimizer_states=offloaded"]))
ALONE = 3
"""Of so many rows of a whole table one is priced by itself too; the plans are in random order."""
QUESTIONS = tuple(questions())
TABLES = {
    "shapes.alone",
    "step.stage_costs",
    "step.estimate_plans",
    "step.estimate_each",
    "step.estimates_of",
    "step.least_step_time",
    "footprint.footprints_of",
    "footprint.first_largest",
    "shapes.pipelines_of",
    "shapes.distinct_shapes",
    "unit.micro_batch_shapes",
    "unit.unit_times",
    "weights.once_a_step",
    "weights.layer_by_layer",
    "stage_parameters.stage_parameters",
    "states.stage_states",
    "stage.stage_memory",
    "in_flight.in_flight_bytes",
    "in_flight.is_pipelined",
    "in_flight.loss_waiting",
    "unit_in_flight.unit_in_flight_bytes",
    "stage_parameters.stage_adapters",
    "stage_parameters.stage_units",
    "stage_parameters.parted_embedding",
    "stage_parameters.largest_layer",
    "unsharded.stage_chunks",
    "unit_states.stored_states",
    "sharded_step.sharded_step",
    "sharded_step.last_forward",
    "sharded_step.replicated_step",
    "frozen_step.frozen_step",
    "unfused_update.unfused_update",
    "pipelined_step.pipelined_step",
    "pipelined_step.last_forward",
    "pipelined_reduction.reduction",
    "chunk_turns.of_last_chunk",
    "chunk_turns.of_first_chunk",
    "chunk_turns.last_chunk_size",
    "chunk_turns.other_chunk_size",
    "chunk_turns.chunk_sizes",
    "chunk_turns.chunks_beside_forward",
    "chunk_turns.first_passed",
    "chunk_turns.chunks_passed",
    "chunk_turns.waiting_embedding",
    "chunk_turns.other_chunks",
    "split_step.split_step",
    "kept_outputs.kept_outputs",
    "kept_outputs.joined_outputs",
    "states.half_weights_step",
    "stage.stage_steps",
    "forward.forward_memory",
    "timeline.most_held",
    "timeline.peaks",
    "unit_states.pooled_bytes",
    "unit_states.reduced_unit",
    "dummy_gradients.dummy_gradient_bytes",
    "gradient_queue.waiting_gradients",
}
"""They take a table of plans; held to "many rows equal each row alone" below."""
OF_ONE_SCHEDULE = {
    "action.play",
    "v_shaped.numbered",
    "dualpipe_v.rank_actions",
    "peak.in_flight",
    "peak.chunks_at_peak",
    "gathered.chunk_gathers",
    "split_walk.walked_micro_batches",
    "interleaved.forward_order",
    "records.blocks",
    "records.copies",
    "records.by_code",
    "records.true_by_code",
    "records.usual_schedule",
}
"""They list or play the actions of one pipeline; see tests/schedules."""
OF_ONE_PLAN = {f"messages.{name}_messages" for name in ("step", "pass", "layer", "weight")}
"""They list the messages of one plan; see test_messages.py."""
OF_ONE_PLAN |= {"fit.fit_of", "fit.fit_probability", "fit.verdict", "fit.safe_bytes"}
"""The verdict that an answer shows of one plan, and what follows from `fit.bounds`: held here by the columns of
`Estimates`."""
OF_THE_QUESTION = {
    "footprint.step_events",
    "shapes.on_shapes",
    "elementwise.norm_passes",
    "routing.routed_experts",
    "flops.model_flops_per_step",
    "attention.attended_pairs",
    "attention.generation_constants",
    "attention.computed_pairs",
    "attention.measured_widths",
    "attention.backward_over_forward",
    "attention.computed_head",
    "shard.dense_block",
    "shard.compressed_width",
    "saved.product_bytes",
    "slowdown.constants_of",
    "slowdown.sustained_attention_slowdown",
    "slowdown.slowest_rank",
    "experts.exchange_constants",
    "kept_products.kept_products",
}
"""They take no plan and no column, or tell of one plan alone."""


class Case(NamedTuple):
    """What the arguments of one call are made of."""

    inputs: Inputs
    plan: Plan | Plans
    columns: Mapping[str, Any]
    """Random numbers, by the name of the argument."""
    made: dict[str, Any]
    """Arguments that follow from the above, by their name in `GIVEN`, once some call has asked for them."""


def _kind(case: Case) -> Any:
    return case.inputs.model.layer_kinds[-1]


def _expert_plan(plan: Plan | Plans) -> Any:
    """The same plan with its ranks folded into expert axes."""
    ranks = plan.tp * plan.cp * plan.dp
    ep = np.gcd(ranks, 12)
    return replace(plan, ep=ep, etp=np.gcd(ranks // ep, 2))


def _with_modules_on_host(inputs: Inputs) -> Inputs:
    """The same question with every module on the host that its runtime offloads one by one."""
    modules = [name for name in inputs.runtime.plans.offload_modules if name != "fused_group_mlp"]
    if not modules or inputs.freezes_weights:
        return inputs
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"offloaded_modules={'+'.join(modules)}"]))


LIMITED = Experts(count=64, active=4, ffn_size=512, groups=8, active_groups=2)
GIVEN: dict[str, Callable[[Case], Any]] = {
    "sustained": lambda case: sustained_slowdown(case.inputs, "half"),
    "plan": lambda case: case.plan,
    "inputs": lambda case: case.inputs,
    "kind": _kind,
    "accelerator": lambda case: case.inputs.cluster.accelerator,
    "cluster": lambda case: case.inputs.cluster,
    "expert_plan": lambda case: _expert_plan(case.plan),
    "expert_kind": lambda case: _kind(case).replace(feed_forward=LIMITED),
    "row_width": lambda _: 256.0,
    "score_bytes": lambda case: case.inputs.runtime.elementwise_bytes.attention_scores,
    "peak_flops": lambda case: case.inputs.peak_flops,
    "element_bytes": lambda _: 1.0,
    "number_format": lambda case: "fp8" if case.inputs.cluster.accelerator.kernels.low_precision else "half",
    "exchange": lambda case: data_exchange(case.plan, case.inputs, case.columns["parameters"], case.columns["stage"]),
    "shard_messages": lambda case: shard_messages(case.plan, case.inputs, case.columns["parameters"]),
    "exchanges": lambda case: context_exchanges(case.plan, case.inputs, _kind(case), GIVEN["layer"](case)),
    "messages": lambda case: tuple(message for each in GIVEN["exchanges"](case) for message in each.messages),
    "message": lambda case: GIVEN["messages"](case)[0],
    "traffic": lambda case: all_to_all_traffic(case.columns["buffer"], axis_group("dp", case.plan, case.inputs)),
    "content": lambda _: "tokens",
    "last_stage": lambda case: case.plan.pp - 1,
    "times": lambda case: gathers_per_step(case.plan, case.inputs, case.columns["in_flight"], case.plan.pp - 1),
    "passes": lambda case: tuple(case.columns[name] for name in SECONDS[:2]),
    "windows": lambda case: Windows(*(case.columns[name] for name in SECONDS[:3])),
    "group": lambda case: axis_group("dp", case.plan, case.inputs),
    "layer": lambda case: layer_time(case.plan, case.inputs, _kind(case)),
    "shard": lambda case: layer_shard(case.plan, case.inputs, _kind(case)),
    "expert_shard": lambda case: expert_shard(_expert_plan(case.plan), case.inputs, GIVEN["expert_kind"](case)),
    "products": lambda case: (linear_time(8192, 4096, 4096, case.inputs), linear_time(8192, 8192, 4096, case.inputs)),
    "offloaded": lambda _: OFFLOADED,
    "modules_on_host": lambda case: _with_modules_on_host(case.inputs),
    "weights": lambda case: head_weights(case.inputs.model),
    "linears": lambda case: projections(case.inputs, _kind(case), GIVEN["shard"](case)),
    **dict.fromkeys(("layers", "every", "entered", "left"), lambda case: GIVEN["linears"](case).attention),
    "linear": lambda case: Linear(*(case.columns[name] for name in ("rows", "outputs", "features"))),
    "slowdowns": lambda case: UnalignedSlowdown(*(1 + case.columns[name] for name in SECONDS[:3])),
    "region": lambda case: tensor_region(case.plan, case.inputs),
    "tensor_ranks": lambda case: tensor_region(case.plan, case.inputs).ranks,
    "read": lambda _: "core",
    "fused": lambda _: False,
    "repeated": lambda case: repeated_parts(case.plan, _kind(case)),
    "saved": lambda case: Saved(*(case.columns[name] for name in SIZES[:5])),
    "half": lambda _: False,
    "head": lambda case: head_time(case.plan, case.inputs),
    "schedule": lambda case: case.plan.schedule,
    "stages": lambda case: case.plan.pp,
    "delay": lambda _: 2,
    "counts": lambda case: PipelineShape(
        case.plan.pp, case.columns["micro_batches"], case.plan.vpp, microbatch_group(case.plan)
    ),
    "pipeline": lambda case: PipelineTimes(
        PassTimes(*(case.columns[name] / case.plan.pp for name in SECONDS[:3])),
        PassTimes(*(case.columns[name] for name in SECONDS[:3])),
        case.plan.pp,
        case.plan.vpp,
        case.columns["micro_batches"],
        case.columns["unsharded"],
        False,
    ),
    "degree": lambda case: case.plan.dp,
    "block": lambda case: case.inputs.cluster.levels[0].size,
    "world": lambda case: case.inputs.cluster.num_gpus,
    "axis": lambda _: "pp",
    "order": lambda case: case.inputs.runtime.plans.rank_order,
    "operation": lambda _: "all_reduce",
    "share": lambda _: 0.7,
    "candidates": lambda _: 64,
    "experts": lambda _: LIMITED,
    "active": lambda _: 4,
    "groups": lambda _: 8,
    "head_dim": lambda _: 128,
    "value_head_dim": lambda _: 96,
    "width": lambda _: 256,
    "sequence": lambda _: 1000,
    "window": lambda _: 300,
    "slower": lambda _: 1.2,
}
"""Arguments that follow from the question and the plan."""
COUNTS = ["m", "n", "k", "tokens", "outputs", "features", "batch", "heads", "chunks", "micro_batches"]
COUNTS += ["rows", "parameters", "reduced", "owned", "ends", "matrices"]
SMALL = ["parts", "launches", "ranks", "stride", "distance", "stage", "in_block", "blocks"]
SMALL += ["reductions", "in_flight", "chunks_in_flight"]
SIZES = ["gradients", "moved", "buffer", "size", "allocated", "reserved", "communicators"]
SIZES += ["states_and_activations", "routing", "unjoined", "ending"]
SIZES += ["cuda_graphs", "exchange_buffers", "handed_out", "updating", "in_backward"]
SECONDS = ["time", "first_chunk", "forward", "backward", "slowest", "total", "work"]
SPECIAL = {"exchange.exposed_time.window": "work", "states.state_bytes.layer": "parameters"}
SPECIAL |= {"data.data_exchange.experts": "parameters", "sharded.sharded_exchanges.messages": "shard_messages"}
SPECIAL |= {
    f"sharded.{name}exchanges.messages": "shard_messages"
    for name in ("end_", "embedding_unit_", "head_unit_", "ending")
}
SPECIAL |= {"exchange.repeated.times": "stage", "exchange.resized.factor": "forward"}
SPECIAL |= {f"{name}.inputs": "offloaded" for name in ("host_copies.host_copies", "optimizer.host_time")}
SPECIAL |= {"optimizer.host_time.bytes_moved": "moved"}
SPECIAL |= {
    f"{name}.inputs": "modules_on_host"
    for name in ("offloaded.offloaded_bytes", "offloaded_layers.module_copy_time", "offloaded_layers.waits_for_copies")
}
SPECIAL |= {"data.shard_messages.adapters": "ends", "adapters.beside_frozen.blocks": "products"}
SPECIAL |= {"adapters.adapter_exchanges.ranks": "tensor_ranks"}
SPECIAL |= {f"{name}.experts": "ends" for name in ("data.shard_messages", "optimizer.optimizer_time")}
SPECIAL |= {f"sharded.{name}.stage": "last_stage" for name in ("gathers_per_step", "end_gathers")}
SPECIAL |= {"gemm.gemm_time.unaligned": "time", "linear.products_time.unaligned": "slowdowns"}
SPECIAL |= {"gemm.gemm_time.groups": "ranks", "linear.grouped_time.groups": "ranks"}
"""Arguments that mean something else in one function: the column or entry to take there."""
EXPERT_FUNCTIONS = (
    "experts.expert_shard",
    "experts.token_messages",
    "experts.all_to_all_messages",
    "experts.all_gather_messages",
    "experts.fused_message",
)
EXPERT_FUNCTIONS += (
    "experts.fused_traffic",
    "routing.fused_copies",
    "experts.fused_time",
    "routing.routed_rows",
    "routing.hottest_over_mean",
    "routing.busiest_expert_rows",
)
EXPERT_FUNCTIONS += ("saved.weighing_bytes", "graph_pool.expert_rooms", "graph_pool.handed_out_bytes")
EXPERT_FUNCTIONS += ("groups.expert_data_ranks", "groups.expert_stride", "expert_counts.count_messages")
SPECIAL |= {f"{name}.{argument}": f"expert_{argument}" for name in EXPERT_FUNCTIONS for argument in ("plan", "kind")}
SPECIAL |= {"graph_pool.expert_rooms.shard": "expert_shard"}


def _columns() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    counts = {name: random.integers(1, 5000, ROWS) for name in COUNTS}
    small = {name: random.integers(1, 40, ROWS) for name in SMALL}
    sizes = {name: 10 ** random.uniform(0, 11, ROWS) for name in SIZES}
    shares = {"unsharded": random.uniform(0, 1, ROWS)}
    return counts | small | sizes | shares | {name: 10 ** random.uniform(-6, 1, ROWS) for name in SECONDS}


COLUMNS = _columns()


def _public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    rooms = (meshwright.cost, meshwright.schedules)
    found = (module for room in rooms for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."))
    for module in (groups, *(importlib.import_module(module.name) for module in found)):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{module.__name__.rpartition('.')[2]}.{name}", function


FUNCTIONS = dict(_public_functions())
OF_ONE_SCHEDULE |= {name for name in FUNCTIONS if ".actions" in name}
SPECIAL |= {f"{name}.pipeline": "counts" for name in FUNCTIONS if ".in_flight" in name or ".waiting" in name}
NOT_ELEMENTWISE = TABLES | OF_ONE_SCHEDULE | OF_ONE_PLAN | OF_THE_QUESTION
ELEMENTWISE = [name for name in FUNCTIONS if name not in NOT_ELEMENTWISE]


def _argument(function: str, name: str, case: Case) -> Any:
    column = SPECIAL.get(f"{function}.{name}", name)
    if column in case.columns:
        return case.columns[column]
    if column in GIVEN:
        if column not in case.made:
            case.made[column] = GIVEN[column](case)
        return case.made[column]
    raise AssertionError(f"say in GIVEN, COUNTS, SMALL, SIZES or SECONDS what an argument named {name!r} is")


def _call(name: str, case: Case) -> Any:
    return FUNCTIONS[name](**{given: _argument(name, given, case) for given in _arguments(name)})


@cache
def _arguments(name: str) -> tuple[str, ...]:
    return tuple(inspect.signature(FUNCTIONS[name]).parameters)


def _leaves(answer: Any) -> list[Any]:
    """The scalars or columns of an answer whose tuples may nest."""
    if isinstance(answer, tuple):
        return [leaf for part in answer for leaf in _leaves(part)]
    return [] if answer is None or isinstance(answer, str | Cluster) else [answer]


@cache
def _plans(question: str) -> Plans:
    return some_legal_plans(question, ROWS)


@cache
def _cases(question: str) -> tuple[Case, list[Case]]:
    """All plans of a question in columns, and each alone in scalars."""
    inputs, plans = questions()[question], _plans(question)
    columns = {key: column[: len(plans)] for key, column in COLUMNS.items()}
    scalars = ({key: column[row].item() for key, column in columns.items()} for row in range(len(plans)))
    alone = [Case(inputs, plans[row], each, {}) for row, each in enumerate(scalars)]
    return Case(inputs, plans, columns, {}), alone


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_element_i_of_the_array_result_equals_the_scalar_result(name: str) -> None:
    for asked in QUESTIONS:
        together, alone = _cases(asked)
        many, each = _leaves(_call(name, together)), [_leaves(_call(name, case)) for case in alone]
        assert all(len(one) == len(many) for one in each), asked
        for column, scalars in zip(many, zip(*each, strict=True), strict=True):
            assert all(np.ndim(scalar) == 0 for scalar in scalars), asked
            expected = np.broadcast_to(column, len(alone))
            np.testing.assert_allclose(scalars, expected, rtol=1e-12, atol=0, err_msg=asked)


def test_every_function_set_aside_exists() -> None:
    assert not NOT_ELEMENTWISE - set(FUNCTIONS)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("keep_all", [True, False])
def test_many_rows_cost_what_each_row_costs_alone(question: str, keep_all: bool) -> None:
    inputs, plans = questions()[question], _plans(question)
    many = estimate_plans(plans, inputs, keep_all_stages=keep_all)
    for row in range(0, len(plans), ALONE):
        alone = estimate_plans(plans.take(slice(row, row + 1)), inputs, keep_all_stages=keep_all)
        here = many.stages.plan == row
        for one, all_ in zip(_tables(alone), _tables(many), strict=True):
            np.testing.assert_allclose(one, all_[here] if len(all_) == len(here) else all_[row : row + 1], rtol=1e-12)


def _tables(estimates: Estimates) -> list[np.ndarray]:
    stages = estimates.stages
    slowest, worst = stages.stage[estimates.slowest], stages.stage[estimates.worst]
    per_plan = (*estimates.time, *estimates.compute, estimates.step_time_s, estimates.mfu, slowest, worst)
    per_stage = (*_leaves(tuple(estimates.stage_time)), *estimates.memory, stages.layers, stages.in_flight_layers)
    return [*per_plan, estimates.verdict, estimates.probability, *per_stage]


@pytest.mark.parametrize("question", QUESTIONS)
def test_unit_times_and_stage_tables_of_many_plans_equal_those_of_each_plan(question: str) -> None:
    inputs, plans = questions()[question], _plans(question)
    many, start = _unit_and_stage_leaves(plans, inputs)
    for row in range(0, len(plans), ALONE):
        alone, _ = _unit_and_stage_leaves(plans.take(slice(row, row + 1)), inputs)
        for one, all_ in zip(alone, many, strict=True):
            rows = slice(row, row + 1) if len(all_) == len(plans) else slice(start[row], start[row] + len(one))
            np.testing.assert_allclose(one, all_[rows], rtol=1e-12)


def _unit_and_stage_leaves(plans: Plans, inputs: Inputs) -> tuple[list[np.ndarray], np.ndarray]:
    stages = split_stages(inputs, plans, keep_all=True)
    units, parameters = unit_times(plans, inputs, some_not_recomputed=True), stage_parameters(plans, stages, inputs)
    of_units = [np.broadcast_to(leaf, len(plans)) for leaf in _leaves(tuple(units))]
    return [*of_units, *parameters, *stage_states(plans, stages, inputs)], stages.start


@pytest.mark.parametrize(
    "order", [("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp"), ("dp", "tp", "cp", "ep", "pp")]
)
def test_shapes_take_what_the_plans_own_layers_take_whatever_the_rank_order(order: tuple[str, ...]) -> None:
    inputs, plans = questions()[QUESTIONS[0]], _plans(QUESTIONS[0])
    inputs = inputs.replace(runtime=inputs.runtime.replace(rank_order=order))
    kind = inputs.model.layer_kinds[0]
    shapes = micro_batch_shapes(plans, inputs, pipelines_of(plans, inputs, keep_all_stages=False)[0])
    priced = (
        unit_times(shapes.plans, inputs, some_not_recomputed=False).layers[0].exposed_forward.tensor[shapes.of_plan]
    )
    exchanges = layer_tensor_exchanges(plans, inputs, kind, layer_time(plans, inputs, kind))
    itself = exposed_seconds([each for each in exchanges if each.phase == "forward"], inputs)
    np.testing.assert_allclose(priced, itself, rtol=1e-12)


def test_no_plans_cost_nothing() -> None:
    inputs = questions()[QUESTIONS[0]]
    assert len(estimate_plans(Plans.of([]), inputs)) == 0
    assert estimate_each([], inputs) == ()


@pytest.mark.parametrize("axis", AXES)
def test_the_groups_of_columns_are_those_of_each_row(axis: str) -> None:
    question = next(name for name in QUESTIONS if "mixtral" in name)
    inputs, plans = questions()[question], _plans(question)
    many = _leaves(axis_group(axis, plans, inputs))
    for row in range(len(plans)):
        for one, column in zip(_leaves(axis_group(axis, plans[row], inputs)), many, strict=True):
            assert one == np.broadcast_to(column, len(plans))[row]
