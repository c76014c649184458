"""A row of published runs as a plan and the inputs it ran with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput, NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.layout.recompute_modules import modules_of
from meshwright.schedules.records import Schedule
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import job_of
from meshwright.specs.model import Model
from meshwright.specs.read_accelerator import read_accelerator
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.topology import segment_assumptions
from meshwright.validation.rows.architecture import model_of
from meshwright.validation.rows.blanks import completed
from meshwright.validation.rows.frameworks import (
    CUDNN_EVERYWHERE,
    CUDNN_ON_BLACKWELL,
    EARLIER_TORCHTITAN,
    FRAMEWORKS,
    LIKE,
    RECIPES,
    StandIn,
)
from meshwright.validation.rows.table import Row, checked
from meshwright.validation.rows.words import (
    COMPILED,
    ENDS_AS_LAYERS,
    JOBS,
    LEFT_OUT,
    NOT_MODELLED,
    OVERLAPS,
    OWN_SELECTION,
    PART_OF_THE_LAYERS,
    SITES,
    SWITCHES,
    Said,
)

PULL_REQUEST = re.compile(r"\(#(\d+)\)")
MICRO_BATCHES = tuple(2**power for power in range(8))
"""Sizes that are tried where a row prints none."""


class Case(NamedTuple):
    """A row as the predictor takes it."""

    plan: Plan
    inputs: Inputs
    assumed: tuple[str, ...]
    """What the row does not print, what its notes change in the runtime, and what they say that is left out."""
    timed: bool
    """Its accelerator is named, so that its step time means something."""


def read_case(row: Row) -> Case:
    """The legal plan and the inputs of a row; raises `InvalidInput` with the reason where it cannot be represented."""
    named = bool(row["gpu"])
    row, blanks = completed(checked(row))
    for reason in _meanings(NOT_MODELLED, row):
        raise NotModelled(reason)
    model, structure = model_of(row)
    inputs = inputs_of(row, model)
    plan, micro_batch = _plan_and_batch(row, inputs)
    meanings = (each for table in (SWITCHES, OVERLAPS, JOBS, SITES, LEFT_OUT) for each in _meanings(table, row))
    assumed = (*blanks, *structure, *micro_batch, *_stand_in(row), *_recomputed_part(row), *meanings)
    where = inputs.cluster
    racks = segment_assumptions(where.accelerator, where.gpus_per_node, where.levels)
    return Case(plan, inputs, (*assumed, *racks), timed=named)


def _plan_and_batch(row: Row, inputs: Inputs) -> tuple[Plan, list[str]]:
    """The legal plan; of a row without a micro-batch size the fastest that fits, and that it was assumed."""
    if row["micro_batch_size"]:
        plan = plan_of(row)
        require_legal(plan, inputs)
        return plan, []
    local = max(int(row["global_batch_size"]) // int(row["dp"]), 1)
    sizes = [size for size in MICRO_BATCHES if local % size == 0]
    plans = [plan_of(row | {"micro_batch_size": str(size)}) for size in sizes]
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
    stands = LIKE.get(row["runtime"])
    return [f"{row['runtime']} is priced as {stands.runtime} {stands.told}".rstrip()] if stands else []


def _recomputed_part(row: Row) -> list[str]:
    part = row["recompute"] == "selective" and row["recompute_modules"] in PART_OF_THE_LAYERS
    return [f"recomputation of {row['recompute_modules']}: half of the layers, as a whole"] if part else []


def recipe_of(row: Row) -> tuple[str, ...]:
    """What a row's words change in what is priced: rows that differ in it, though one `config_key` names them (recipes
    change between releases), are different configurations."""
    return tuple(said.word for table in (SWITCHES, OVERLAPS, JOBS) for said in table if _holds(said, row))


def plan_of(row: Row) -> Plan:
    """The layout of a row without blanks; raises `InvalidInput` for a schedule or recomputation that no plan has.

    A schedule of two chunks has them on every rank, which rows do not print.
    """
    degrees: dict[str, Any] = {name: int(row[name] or 1) for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp")}
    if any(row["schedule"] == each.record.name and each.record.chunks == 2 for each in Schedule):
        degrees["vpp"] = 2
    micro_batch, dp, ends = int(row["micro_batch_size"]), degrees["dp"], _ends_are_layers(row)
    group = min(int(row["shard_group_size"] or dp), dp)
    if dp % group:
        raise NotModelled(f"{dp} data-parallel ranks do not divide into sharding groups of {group}")
    return Plan(
        **degrees,
        dp_replicate=dp // group,
        sp=row["sp"] == "True" and degrees["tp"] > 1,
        zero=int(row["zero_stage"]),
        micro_batch=micro_batch,
        num_microbatches=int(row["global_batch_size"]) // (micro_batch * dp),
        embedding_as_layer=ends,
        head_as_layer=ends,
        **_recomputed(row),
        schedule=row["schedule"] or "1f1b",  # type: ignore[arg-type]
    )


def inputs_of(row: Row, model: Model) -> Inputs:
    """Model, cluster, job and runtime of a row without blanks."""
    precision = RECIPES.get(row["precision_detail"], row["precision"])
    job = job_of(int(row["seq_len"]), int(row["global_batch_size"]), precision=precision)
    job = job.replace(**_switches(JOBS, row))
    return Inputs(model=model, cluster=cluster_of(row), job=job, runtime=runtime_of(row))


def cluster_of(row: Row) -> Cluster:
    """The accelerators and their network; fewer of them than a node holds are one node."""
    ranks = int(row["num_gpus"])
    per_node = min(int(row["gpus_per_node"]), ranks)
    if ranks % per_node:
        raise NotModelled(f"{ranks} accelerators do not fill nodes of {per_node}")
    accelerator = read_accelerator(row["gpu"]).id
    given: dict[str, Any] = {"accelerator": accelerator, "nodes": ranks // per_node, "gpus_per_node": per_node}
    given |= _switches(SITES, row)
    if row["inter_node_GBps_per_gpu"]:
        given |= {"nics_per_node": per_node, "nic_bandwidth": f"{row['inter_node_GBps_per_gpu']}GB/s"}
    return read_cluster(given)


def runtime_of(row: Row) -> Runtime:
    """The catalogue's runtime, with what the row says differently."""
    named = (runtime for word, runtime in FRAMEWORKS.items() if word in row["runtime_detail"])
    stands = LIKE.get(row["runtime"], StandIn(row["runtime"]))
    runtime = read_runtime(next(named, stands.runtime)).replace(**stands.changes)
    without = (*stands.without, *(["no_recompute_layers"] if row["recompute_modules"] in PART_OF_THE_LAYERS else []))
    if without:
        runtime = runtime.replace(rules=tuple(rule for rule in runtime.rules if rule.name not in without))
    offloaded = {"offloaded_layers": int(row["offloaded_layers"])}
    changes = _attention(row, runtime) | COMPILED[row["compiled"]] | _switches(SWITCHES, row) | offloaded
    overlap, memory = runtime.overlap.replace(**_switches(OVERLAPS, row)), runtime.memory.replace(**stands.memory)
    return runtime.replace(**changes, overlap=overlap, memory=memory)


def _attention(row: Row, runtime: Runtime) -> dict[str, Any]:
    """What a row says of its attention kernel where the runtime's own is of the other sort, or of a later release."""
    eager = runtime.kernels.attention_kernel == "eager"
    if row["attention_kernel"] != "eager" and row["runtime"] == "torchtitan" and _before_cudnn(row):
        return {"attention_kernel": "flash-2"}
    if row["attention_kernel"] == "eager" and not eager:
        return {"attention_kernel": "eager"}
    return {"attention_kernel": "flash-2"} if row["attention_kernel"] == "flash" and eager else {}


def _before_cudnn(row: Row) -> bool:
    """Whether torchtitan still took FlashAttention-2 on the accelerator of a row, by the pull request or the words of
    its source.
    """
    named = PULL_REQUEST.search(row["source"])
    first = CUDNN_ON_BLACKWELL if read_accelerator(row["gpu"]).peak_flops.get("nvfp4") else CUDNN_EVERYWHERE
    return int(named[1]) < first if named else any(word in row["source"] for word in EARLIER_TORCHTITAN)


def _recomputed(row: Row) -> dict[str, Any]:
    """The recomputation of a row: modules named with plus signs between, the runtime's own choice, or whole layers."""
    if row["recompute"] != "selective" or row["recompute_modules"] in OWN_SELECTION:
        return {"recompute": row["recompute"]}
    if row["recompute_modules"] in PART_OF_THE_LAYERS:
        chunks = int(row["pp"]) * int(row["vpp"])
        return {"recompute": "full", "recompute_layers": max(int(row["layers"]) // (2 * chunks), 1)}
    try:
        return {"recompute": "selective", "recompute_modules": modules_of(row["recompute_modules"].split("+"))}
    except KeyError:
        raise NotModelled(f"selective recomputation of {row['recompute_modules']} is not modelled yet") from None


def _ends_are_layers(row: Row) -> bool:
    """Whether the embedding and the head count as layers: each end of the pipeline holds one layer less."""
    counted = (
        row["model"].startswith(begins) and each in row["runtime_detail"] for begins, each in ENDS_AS_LAYERS.items()
    )
    usual = runtime_of(row).plans.ends_as_layers[0]
    return int(row["pp"]) > 1 and (usual or row["ends_layers_less"] == "1" or any(counted))


def _switches(table: Mapping[Said, dict[str, Any]], row: Row) -> dict[str, Any]:
    """What the entries of a table that hold for a row change, later ones over earlier ones."""
    return {key: value for said, changes in table.items() if _holds(said, row) for key, value in changes.items()}


def _meanings(table: Iterable[Said], row: Row) -> list[str]:
    return list(dict.fromkeys(said.meaning for said in table if _holds(said, row)))


def _holds(said: Said, row: Row) -> bool:
    words = _words(row)
    columns = all(row[column] == value for column, value in said.columns)
    return columns and said.word in words and not any(word in words for word in said.unless)


def _words(row: Row) -> str:
    """What a row says in words, in lower case."""
    columns = "model", "notes", "precision_detail", "source", "runtime_detail"
    return " ".join(row[column] for column in columns).lower()
