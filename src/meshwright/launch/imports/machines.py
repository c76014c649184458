"""Machines: how many ranks a launch file starts, and the cluster that is meant."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from meshwright.errors import InvalidInput, UnknownName
from meshwright.launch.forms import Fields
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.specs.cluster import Cluster
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster

_NODES = (
    *("--nnodes", "--num_nodes", "--num_machines", "--nodes", "-N", "num_machines", "trainer.num_nodes"),
    *("num_nodes", "executor.nodes"),
)
_PER_NODE = (
    *("--nproc_per_node", "--nproc-per-node", "--num_gpus", "--gpus-per-node", "--npernode", "trainer.devices"),
    *("trainer.num_gpus_per_node", "num_gpus_per_node", "executor.ntasks_per_node"),
)
_INCLUDED, _HOSTFILES = ("--include", "-i"), ("--hostfile", "-H")
"""Options of deepspeed."""
_TASKS = ("--ntasks-per-node",)
_RANKS = ("--num_processes", "num_processes", "-np", "--gpus", "-G")
_OF_A_KIND = ("--gpus-per-node", "--gpus", "-G")
"""Options of Slurm that may name the accelerator before the count, `h100:8`."""
_ALL_TASKS = ("--ntasks", "-n")
_ENVIRONMENT = {"NNODES": "--nnodes", "NPROC_PER_NODE": "--nproc-per-node"}
"""Variables that ms-swift hands to torchrun, and the options that it gives."""


@dataclass(frozen=True)
class Machines:
    """Counts that a file names; None: it does not."""

    nodes: int | None
    gpus_per_node: int | None
    ranks: int | None

    def __str__(self) -> str:
        if self.nodes and self.gpus_per_node:
            return f"{self.nodes} x {self.gpus_per_node} GPUs"
        return f"{self.ranks} GPUs" if self.ranks else "no number of GPUs"


def machines_of(settings: LaunchSettings, notes: list[str]) -> Machines:
    """The nodes, GPUs per node and ranks that a file names: what starts the program goes before its scheduler; notes:
    that there is one node because nothing names more is added.
    """
    found: dict[str, int] = {}
    for each in (*settings.launcher, *settings.settings):
        text = str(each.value)
        if each.key == "--gres" and "gpu:" in text:
            text = text.rpartition(":")[2]
            if (count := whole_number(text)) is not None:
                found.setdefault("--gpus-per-node", count)
        if each.key in _OF_A_KIND:
            text = text.rpartition(":")[2]
        if text.isascii() and text.isdecimal() and 0 < len(text) < 8 and int(text):
            found[each.key] = int(text)
    found |= _included(settings)
    if not found.keys() & {*_NODES, *_PER_NODE, *_TASKS, *_RANKS}:
        found |= _of_the_environment(settings)
    nodes = next((found[name] for name in _NODES if name in found), None)
    per_node = next((found[name] for name in (*_PER_NODE, *_TASKS) if name in found), None)
    ranks = next((found[name] for name in _RANKS if name in found), None)
    if nodes is None and ranks is None and _starts_one_node(settings):
        nodes = 1
        if settings.starter == "deepspeed":
            notes.append(f"deepspeed without a hostfile or --num_nodes starts one node, here of {per_node} GPUs")
    if ranks is None and nodes and per_node:
        ranks = nodes * per_node
    if ranks is None and per_node is None:
        tasks = [whole_number(each.value) for each in settings.launcher if each.key in _ALL_TASKS]
        ranks = tasks[-1] if tasks else None
    return Machines(nodes, per_node, ranks)


def _starts_one_node(settings: LaunchSettings) -> bool:
    """Whether torchrun, or deepspeed without a hostfile, is told how many ranks a node has and not how many nodes: then
    there is one.

    Source: DeepSpeed 0.19.8 launcher/runner.py, main (resources of the local machine where there is no hostfile).
    """
    named = {each.key for each in settings.launcher}
    alone = settings.starter == "deepspeed" and "--num_gpus" in named and not named & {*_HOSTFILES}
    return (alone or bool(named & {"--nproc_per_node", "--nproc-per-node"})) and not named & {*_NODES}


def _included(settings: LaunchSettings) -> dict[str, int]:
    """The counts of the devices that deepspeed is told to use, `worker-0:0,1@worker-1:0,1`, where hosts have as many.

    Source: DeepSpeed 0.19.8 launcher/runner.py, parse_resource_filter.
    """
    named = [str(each.value) for each in settings.launcher if each.key in _INCLUDED]
    if settings.starter != "deepspeed" or not named:
        return {}
    devices = [{*filter(None, host.partition(":")[2].split(","))} for host in named[-1].split("@")]
    size, *others = {len(each) for each in devices}
    return {"--num_nodes": len(devices), "--num_gpus": size} if size and not others else {}


def _of_the_environment(settings: LaunchSettings) -> dict[str, int]:
    """The counts in variables that a launcher reads, one node where they name none."""
    values = {flag: settings.environment.get(name) for name, flag in _ENVIRONMENT.items()}
    counts = {flag: count for flag, value in values.items() if (count := whole_number(value)) is not None}
    one_node = "--nproc-per-node" in counts and values["--nnodes"] is None
    return counts | ({"--nnodes": 1} if one_node else {})


def counted(machines: Machines, fields: Fields) -> Machines:
    """The same, with the product of the degrees where the file names all of them and no number of ranks."""
    shard = fields.get("plan.dp_shard") or 0
    dp = fields.get("plan.dp") or (shard * (fields.get("plan.dp_replicate") or 1) if shard > 0 else 0)
    if machines.ranks or not dp:
        return machines
    return replace(machines, ranks=math.prod((fields.get(f"plan.{name}") or 1) for name in ("tp", "cp", "pp")) * dp)


def cluster_for(machines: Machines, source: str | None) -> Cluster | None:
    """The cluster that a user names, an accelerator alone in the numbers of the file; None where neither says them.

    Raises as `read_cluster` does.
    """
    if source is None:
        return None
    try:
        accelerator = read_accelerator(source)
    except (UnknownName, InvalidInput):
        return read_cluster(source)
    try:
        return read_cluster(source)
    except InvalidInput:
        per_node = machines.gpus_per_node or min(machines.ranks or 0, accelerator.node_size)
        nodes = machines.nodes or (-(-(machines.ranks or 0) // per_node) if per_node else 0)
        return read_cluster(f"{nodes}x{per_node}:{source}") if nodes and per_node else None
