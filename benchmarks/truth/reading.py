"""A row of published runs as a plan and the inputs it ran with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from meshwright.errors import NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import SCHEDULE_NAMES, Plan, Schedule
from meshwright.layout.recompute_modules import RecomputeModules, modules_of
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import job_of
from meshwright.specs.model import Attention, LayerKind, Mlp, Model
from meshwright.specs.read_accelerator import read_accelerator
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.read_model import read_model
from meshwright.specs.runtime import Runtime, read_runtime

from .blanks import Row, completed
from .facts import (
    CATALOGUED,
    COMPILED,
    ENDS_AS_LAYERS,
    FAMILIES,
    FRAMEWORKS,
    JOBS,
    LEFT_OUT,
    NOT_MODELLED,
    OVERLAPS,
    OWN_SELECTION,
    RECIPES,
    SEGMENTED,
    SITE_DERATE,
    SWITCHES,
    Family,
    Said,
)


class Case(NamedTuple):
    """A row as the predictor takes it."""

    plan: Plan
    inputs: Inputs
    site_derate: float
    """How much slower than the catalogue the site's kernels run; 1 where nobody measured it."""
    assumed: tuple[str, ...]
    """What the row does not print, what its notes change in the runtime, and what they say that is left out."""


def read_case(row: Row) -> Case:
    """The legal plan and the inputs of a row; raises `InvalidInput` with the reason where it cannot be represented."""
    row, blanks = completed(row)
    for reason in _meanings(NOT_MODELLED, row):
        raise NotModelled(reason)
    plan, inputs = plan_of(row), inputs_of(row)
    require_legal(plan, inputs)
    meanings = (each for table in (SWITCHES, OVERLAPS, JOBS, LEFT_OUT) for each in _meanings(table, row))
    assumed = (*blanks, *meanings, *_segments(inputs.cluster))
    return Case(plan, inputs, SITE_DERATE.get(row["dataset"], 1.0), assumed)


def recipe_of(row: Row) -> tuple[str, ...]:
    """What a row's words change in what is priced: rows that differ in it, though one `config_key` names them (recipes
    change between releases), are different configurations."""
    return tuple(said.word for table in (SWITCHES, OVERLAPS, JOBS) for said in table if _holds(said, row))


def plan_of(row: Row) -> Plan:
    """The layout of a row without blanks; raises `InvalidInput` for a schedule or recomputation that no plan has.

    A V has two chunks on every rank, which rows do not print.
    """
    degrees: dict[str, Any] = {name: int(row[name] or 1) for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp")}
    if row["schedule"] == SCHEDULE_NAMES[Schedule.ZERO_BUBBLE_V]:
        degrees["vpp"] = 2
    micro_batch, dp, ends = int(row["micro_batch_size"]), degrees["dp"], _ends_are_layers(row)
    return Plan(
        **degrees,
        dp_replicate=dp // min(int(row["shard_group_size"] or dp), dp),
        sp=row["sp"] == "True",
        zero=int(row["zero_stage"]),
        micro_batch=micro_batch,
        num_microbatches=int(row["global_batch_size"]) // (micro_batch * dp),
        embedding_as_layer=ends,
        head_as_layer=ends,
        recompute=row["recompute"],  # type: ignore[arg-type]
        recompute_modules=_modules(row),
        schedule=row["schedule"] or "1f1b",  # type: ignore[arg-type]
    )


def inputs_of(row: Row) -> Inputs:
    """Model, cluster, job and runtime of a row without blanks."""
    precision = RECIPES.get(row["precision_detail"], row["precision"])
    job = job_of(int(row["seq_len"]), int(row["global_batch_size"]), precision=precision)
    job = job.replace(**_switches(JOBS, row))
    return Inputs(model=model_of(row), cluster=cluster_of(row), job=job, runtime=runtime_of(row))


def model_of(row: Row) -> Model:
    """The architecture: sizes from the row, the rest from the table of families; or a model of the catalogue."""
    for begins, name in CATALOGUED.items():
        if row["model"].startswith(begins):
            known = read_model(name)
            return known.replace(name=row["model"], layer_pattern=known.layer_pattern[: int(row["layers"])])
    family, hidden, heads = _family(row), int(row["hidden"]), int(row["heads"])
    sizes = {"head_dim": int(row["head_dim"] or hidden // heads)} | family.attention
    attention = Attention(heads=heads, kv_heads=int(row["kv_heads"]), value_head_dim=sizes["head_dim"], **sizes)
    block = Mlp(ffn_size=int(row["ffn_hidden"]), **family.mlp)
    return Model(
        name=row["model"],
        family="native",
        hidden_size=hidden,
        vocab_size=int(row["vocab"]),
        layer_kinds=(LayerKind(name="layer", attention=attention, feed_forward=block),),
        layer_pattern=(0,) * int(row["layers"]),
        learned_positions=int(row["seq_len"]) if family.learned_positions else 0,
        **family.model,
    )


def cluster_of(row: Row) -> Cluster:
    """The accelerators and their network; fewer of them than a node holds are one node."""
    ranks = int(row["num_gpus"])
    per_node = min(int(row["gpus_per_node"]), ranks)
    nodes, accelerator = ranks // per_node, read_accelerator(row["gpu"])
    given: dict[str, Any] = {"accelerator": row["gpu"], "nodes": nodes, "gpus_per_node": per_node}
    if row["inter_node_GBps_per_gpu"]:
        given |= {"nics_per_node": per_node, "nic_bandwidth": f"{row['inter_node_GBps_per_gpu']}GB/s"}
    rack = accelerator.scale_up_domain // per_node
    if SEGMENTED in row["runtime_detail"] and nodes > rack > 1:
        segment = max(count for count in range(1, rack + 1) if nodes % count == 0) * per_node
        bandwidth = accelerator.scale_up_bandwidth
        given["levels"] = [{"name": accelerator.scale_up_name, "size": segment, "bandwidth": bandwidth}]
    return read_cluster(given)


def runtime_of(row: Row) -> Runtime:
    """The catalogue's runtime, with what the row says differently."""
    named = (runtime for word, runtime in FRAMEWORKS.items() if word in row["runtime_detail"])
    runtime = read_runtime(next(named, row["runtime"]))
    changes = COMPILED[row["compiled"]] | _switches(SWITCHES, row) | {"offloaded_layers": int(row["offloaded_layers"])}
    return runtime.replace(**changes, overlap=runtime.overlap.replace(**_switches(OVERLAPS, row)))


def _modules(row: Row) -> RecomputeModules:
    """The modules that a row names with plus signs between; the default where it names the runtime's own choice."""
    if row["recompute"] != "selective" or row["recompute_modules"] in OWN_SELECTION:
        return RecomputeModules.CORE_ATTENTION
    try:
        return modules_of(row["recompute_modules"].split("+"))
    except KeyError:
        raise NotModelled(f"selective recomputation of {row['recompute_modules']} is not modelled yet") from None


def _segments(cluster: Cluster) -> tuple[str, ...]:
    size = cluster.levels[0].size
    filled = size in (cluster.gpus_per_node, cluster.num_gpus, cluster.accelerator.scale_up_domain)
    return () if filled else (f"{size} accelerators in each rack (Megatron-Bridge, executors.py: `--segment`)",)


def _ends_are_layers(row: Row) -> bool:
    """Whether the embedding and the head count as layers: each end of the pipeline holds one layer less."""
    counted = (
        row["model"].startswith(begins) and each in row["runtime_detail"] for begins, each in ENDS_AS_LAYERS.items()
    )
    usual = runtime_of(row).ends_as_layers[0]
    return int(row["pp"]) > 1 and (usual or row["ends_layers_less"] == "1" or any(counted))


def _family(row: Row) -> Family:
    for family in FAMILIES:
        runs = family.runtime in row["runtime_detail"]
        if row["model"].startswith(family.begins) and runs and not row["moe_experts"]:
            return family
    raise NotModelled(f"what {row['model']} consists of is neither printed nor in the table of families")


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
