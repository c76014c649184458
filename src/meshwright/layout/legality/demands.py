"""Demands of the frameworks beside Megatron on a launch, and what a runtime's data file lists of all."""

from __future__ import annotations

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.layout.legality import demands_axes, demands_megatron, demands_pipeline, demands_switches
from meshwright.layout.legality.demand import Demand
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs


def demands_of(inputs: Inputs) -> list[Demand]:
    """What the runtime demands of launches, in its order; raises `InvalidSpec` for a demand that nobody has written."""
    listed = inputs.runtime.demands
    unknown = [
        Fault(f"runtime.demands[{index}].name", f"{quoted(each.name)} is no demand; known: {', '.join(DEMANDS)}")
        for index, each in enumerate(listed)
        if each.name not in DEMANDS
    ]
    if unknown:
        raise InvalidSpec(f"runtime {quoted(inputs.runtime.id)}", unknown)
    return [DEMANDS[each.name] for each in listed]


def _pipeline(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1


def _graphs_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"training.disable_cuda_graphs True: CUDA graphs are on by default and refuse pp {plan.pp}"


def _microbatches_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"parallelism.num_pp_microbatches {plan.num_microbatches}: left out, it is 1, for pp {plan.pp}"


def _engine(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1 and plan.schedule.record.framework_names.get("nanotron", "afab") != "afab"


def _engine_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    name = plan.schedule.record.framework_names["nanotron"]
    return f"parallelism.pp_engine {name}: left out, pp {plan.pp} runs all forwards before all backwards (afab)"


def _schedule(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1 and plan.schedule.record.framework_names.get("torch", "1F1B") != "1F1B"


def _schedule_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    name = plan.schedule.record.framework_names["torch"]
    return f"parallelism.pipeline_parallel_schedule {name}: left out, it is 1F1B"


def _flex_attention(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.cp > 1


def _flex_attention_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"Flex attention and spmd_types: cp {plan.cp} works with no other attention or backend"


def _stage_modules(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1 and (plan.vpp > 2 or bool(plan.chunk_layers))


def _stage_modules_text(plan: Plan, inputs: Inputs) -> str:
    stages = plan.pp * plan.vpp
    layers = inputs.model.num_layers + plan.embedding_as_layer + plan.head_as_layer
    per_stage = -(-layers // stages)
    if plan.chunk_layers:
        sizes = ", ".join(map(str, plan.chunk_layers))
        return f"parallelism.module_fqns_per_model_part: the layers of {stages} stages, {sizes}"
    if -(-layers // per_stage) != stages:
        return f"parallelism.module_fqns_per_model_part: no layers per stage cut {layers} into {stages} stages"
    return (
        f"parallelism.pipeline_parallel_layers_per_stage {per_stage}: it cuts {layers} layers, the ends that "
        f"count among them, into {stages} stages; left out, there are 2 on each rank"
    )


def _less_layers(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.pp > 1 and not plan.chunk_layers and not (plan.embedding_as_layer and plan.head_as_layer)


def _less_layers_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    ends = {"first": plan.embedding_as_layer, "last": plan.head_as_layer}
    zero = [f"parallelism.pipeline_parallel_{end}_stage_less_layers 0" for end, counts in ends.items() if not counts]
    return f"{' and '.join(zero)}: left out, it is 1, for pp {plan.pp}"


def _sequence_parallel(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.sp


def _reduce_scatter_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"parallelism.tp_mode REDUCE_SCATTER: left out, tp {plan.tp} runs without sp (ALL_REDUCE)"


def _split_mode_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return (
        f"parallel.tensor.mode msp or fsp, with use_flash_attn: left out, it is mtp, which runs tp {plan.tp} without sp"
    )


def _sharded_or_split(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.zero > 1 or plan.tp > 1 or plan.cp > 1


def _second_version_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"fsdp_config.fsdp_version 2: left out, FSDP 1 refuses tp {plan.tp} and cp {plan.cp} in parallelism_config"


def _always(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return True


def _batch_triple_text(plan: Plan, inputs: Inputs) -> str:
    return (
        f"train_batch_size {inputs.job.global_batch}, train_micro_batch_size_per_gpu {plan.micro_batch} and "
        f"gradient_accumulation_steps {plan.num_microbatches}, whose product with dp {plan.dp} must agree"
    )


def _interleaved(plan: Plan, inputs: Inputs) -> bool:  # noqa: ARG001
    return plan.vpp > 1


def _interleaved_text(plan: Plan, inputs: Inputs) -> str:  # noqa: ARG001
    return f"parallel.pipeline.interleaved_overlap True: vpp {plan.vpp} runs only with it"


DEMANDS = {
    demand.name: demand
    for demand in (
        *demands_megatron.DEMANDS,
        *demands_axes.DEMANDS,
        *demands_pipeline.DEMANDS,
        *demands_switches.DEMANDS,
        Demand("pipeline_without_graphs", _pipeline, _graphs_text),
        Demand("pipeline_microbatches", _pipeline, _microbatches_text),
        Demand("pipeline_schedule", _schedule, _schedule_text),
        Demand("pipeline_engine", _engine, _engine_text),
        Demand("flex_attention", _flex_attention, _flex_attention_text),
        Demand("layers_of_stages", _stage_modules, _stage_modules_text),
        Demand("less_layers", _less_layers, _less_layers_text),
        Demand("reduce_scatter_mode", _sequence_parallel, _reduce_scatter_text),
        Demand("sequence_parallel_mode", _sequence_parallel, _split_mode_text),
        Demand("fully_sharded_version", _sharded_or_split, _second_version_text),
        Demand("batch_triple", _always, _batch_triple_text),
        Demand("interleaved_overlap", _interleaved, _interleaved_text),
    )
}
