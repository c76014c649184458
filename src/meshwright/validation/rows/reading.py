"""A row of published runs as a plan and the inputs it ran with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput, NotModelled, UnknownName, quoted
from meshwright.layout.layout_string import read_layout_string
from meshwright.layout.legality import require_legal
from meshwright.layout.legality.recompute import absent_modules
from meshwright.layout.named import usual_exchange
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import beside_adapters
from meshwright.specs.cluster import Accelerator
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job, job_of
from meshwright.specs.job_options import OF_RUNS
from meshwright.specs.recompute_modules import RecomputeModules, read_modules
from meshwright.specs.topology import segment_assumptions
from meshwright.units import GIB
from meshwright.validation.rows.architecture import model_of, with_neighbouring_experts
from meshwright.validation.rows.blanks import fill_blanks
from meshwright.validation.rows.clusters import cluster_of
from meshwright.validation.rows.released import with_its_recipe
from meshwright.validation.rows.settings import runtime_of, settings_of, stand_ins
from meshwright.validation.rows.table import Row, normalised, split_list

MICRO_BATCHES = tuple(2**power for power in range(8))
"""Sizes that are tried where a row prints none."""
MOST_OF_MEMORY = 1.1
"""Of what an accelerator has, the share from which on a row's memory is no measurement: GB under the name of GiB are
1.074 times as many."""
PER_OPERATOR = "per-op"
"""How torchtitan names its own selective recomputation, in the column of modules."""


class Case(NamedTuple):
    """A row as the predictor takes it."""

    plan: Plan
    inputs: Inputs
    assumed: tuple[str, ...]
    """What the row does not print, and what its framework and its settings change or leave out."""
    timed: bool
    """Its accelerator is named, so that its step time means something."""
    memory_rank: int | None
    """The rank whose memory it prints; None: the worst one."""


def read_case(row: Row) -> Case:
    """The legal plan and the inputs of a row; raises `InvalidInput` with the reason where it cannot be represented."""
    if row["refused"]:
        raise NotModelled(row["refused"])
    named = bool(row["gpu"] or row["cluster"])
    row, released = with_its_recipe(normalised(row))
    row, blanks = fill_blanks(row)
    model, structure = model_of(row)
    model = with_neighbouring_experts(model) if row["routing"] == "neighbours" else model
    # Benchmarks balance the routing by force, or train too briefly for it to become unequal.
    even = model.is_moe and row["routing"] != "natural"
    job, cluster = _job(row, even), cluster_of(row)
    if named:
        _require_possible_memory(row, cluster.accelerator)
    inputs = Inputs(model=model, cluster=cluster, job=job, runtime=beside_adapters(runtime_of(row), job))
    plan, micro_batch = _plan_and_batch(row, inputs)
    taken = [*split_list(row["assumed"]), *released]
    assumed = (*blanks, *structure, *micro_batch, *taken, *_stand_in(row), *map(str, settings_of(row)))
    racks = segment_assumptions(cluster.accelerator, cluster.gpus_per_node, cluster.levels)
    return Case(plan, inputs, (*assumed, *racks), timed=named, memory_rank=_memory_rank(row))


def _job(row: Row, even: bool) -> Job:
    """The job of a row; even: whether experts get the same tokens."""
    options: dict[str, Any] = {
        each.name: each.kind.type(row[each.name].replace("+", ",")) for each in OF_RUNS if row[each.name]
    }
    job = job_of(
        int(row["seq_len"]),
        int(row["global_batch_size"]),
        precision=row["precision"],
        **options,
    )
    return job.replace(expert_imbalance=1.0) if even else job


def _require_possible_memory(row: Row, accelerator: Accelerator) -> None:
    """Raise `NotModelled` for a run that fitted with more memory than its accelerator has."""
    gib, most = float(row["memory_gib"] or 0), accelerator.visible_memory_bytes / GIB
    if row["fits"] != "no" and gib > MOST_OF_MEMORY * most:
        what = "it is what one accelerator held, in GiB"
        raise NotModelled(f"memory_gib is {gib:g}, but {accelerator.id} has {most:.1f} GiB; {what}")


def _memory_rank(row: Row) -> int | None:
    if not row["memory_rank"]:
        return None
    if int(row["memory_rank"]) >= int(row["num_gpus"]):
        raise NotModelled(f"memory_rank is {row['memory_rank']}; it must be from 0 to {int(row['num_gpus']) - 1}")
    return int(row["memory_rank"])


def _plan_and_batch(row: Row, inputs: Inputs) -> tuple[Plan, list[str]]:
    """The legal plan; of a row without a micro-batch size the fastest that fits, and that it was assumed."""
    if row["micro_batch_size"]:
        plan = plan_of(row, inputs)
        require_legal(plan, inputs)
        return plan, []
    local = max(int(row["global_batch_size"]) // int(row["dp"]), 1)
    sizes = [size for size in MICRO_BATCHES if local % size == 0]
    plans = [plan_of(row | {"micro_batch_size": str(size)}, inputs) for size in sizes]
    legal = [plan for plan in plans if _is_legal(plan, inputs)]
    if not legal:
        require_legal(plans[0], inputs)
    priced = estimate_each(legal, inputs)
    fitting = [each for each in priced if each.verdict.fits] or priced[:1]
    chosen = min(fitting, key=lambda each: each.step_time_s).plan
    return chosen, [f"micro-batches of {chosen.micro_batch}, the fastest that fits"]


def _is_legal(plan: Plan, inputs: Inputs) -> bool:
    try:
        require_legal(plan, inputs)
    except InvalidInput:
        return False
    return True


def _stand_in(row: Row) -> list[str]:
    stand_in = stand_ins().get(row["runtime"])
    return [f"{row['runtime']} is priced as {stand_in.runtime} {stand_in}"] if stand_in else []


def plan_of(row: Row, inputs: Inputs) -> Plan:
    """The layout of a row without blanks; raises `InvalidInput` for a recomputation that no plan has."""
    degrees: dict[str, Any] = {name: int(row[name] or 1) for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp")}
    micro_batch, dp = int(row["micro_batch_size"]), degrees["dp"]
    usual = "1" if inputs.runtime.plans.ends_as_layers[0] else "0"
    ends = degrees["pp"] > 1 and (row["ends_layers_less"] or usual) == "1"
    group = min(int(row["shard_group_size"] or dp), dp)
    if dp % group:
        raise NotModelled(f"{dp} data-parallel ranks do not divide into sharding groups of {group}")
    fields = degrees | {
        "dp_replicate": dp // group,
        "context_exchange": usual_exchange(inputs),
        "sp": row["sp"] == "True" and degrees["tp"] > 1,
        "zero": int(row["zero_stage"]),
        "micro_batch": micro_batch,
        "num_microbatches": int(row["global_batch_size"]) // (micro_batch * dp),
        "embedding_as_layer": ends,
        "head_as_layer": ends,
        "schedule": row["schedule"] or "1f1b",
    }
    return Plan.from_dict(fields | _recomputed(row, inputs) | other_fields(row))


OTHER_FIELDS = (
    *("context_exchange", "embedding_as_layer", "head_as_layer", "first_stage_layers", "last_stage_layers"),
    *("chunk_layers", "microbatch_group"),
)
"""Of a plan, which have no column of their own."""
LAYOUT = "layout"
"""In their place, the layers of each chunk as Megatron-LM's `--pipeline-model-parallel-layout` has them."""


def other_fields(row: Row) -> dict[str, Any]:
    """The fields of the plan in the column `plan`; raises `InvalidInput` for what is none."""
    fields: dict[str, Any] = {}
    for text in split_list(row["plan"]):
        name, _, value = (part.strip() for part in text.partition("="))
        if name == LAYOUT:
            fields["chunk_layers"] = [*read_layout_string(value)]
            continue
        if name not in OTHER_FIELDS:
            raise UnknownName("field in the column plan", name, (*OTHER_FIELDS, LAYOUT))
        try:
            fields[name] = json.loads(value)
        except (ValueError, RecursionError):
            raise NotModelled(f"plan has {quoted(text)}; write {name}=VALUE as in a plan file") from None
    return fields


IDLE_MODULES = RecomputeModules.EXPERTS | RecomputeModules.SHARED_EXPERTS
"""Modules that Megatron-core lets a recipe name for any model (transformer_config.py): where no layer has such a part,
they do nothing."""


def _recomputed(row: Row, inputs: Inputs) -> dict[str, Any]:
    """The recomputation of a row: named modules, the runtime's own choice, or whole layers."""
    recompute = {"recompute": row["recompute"], "recompute_layers": int(row["recompute_layers"] or 0)}
    if not row["recompute_modules"]:
        return recompute
    if row["recompute"] != "selective":
        raise NotModelled(f"recompute_modules needs recompute selective; it is {row['recompute']}")
    if row["recompute_modules"] == PER_OPERATOR and inputs.runtime.activations.recomputes_by_product:
        return recompute
    try:
        named = read_modules(row["recompute_modules"])
    except InvalidInput as error:
        raise NotModelled(f"recompute_modules: {error}") from None
    present = named & ~(absent_modules(inputs.model) & IDLE_MODULES)
    return recompute | ({"recompute_modules": present} if present else {"recompute": "none"})
