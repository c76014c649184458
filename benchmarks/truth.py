"""Predicted against measured step time and memory of published dense Megatron runs; nothing here is tuned to them."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput, NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan, Recompute, Schedule
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Attention, LayerKind, Mlp, Model
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.units import GIB

RUNS = Path(__file__).parent / "data" / "dense_megatron_runs.csv"
# How much slower than the catalogue's fit the site's own matrix products run: median over its 401 large products that
# MooreThreads/SimuMax@4dcaae51 measured on its B200s (a 700 W power setting is likely).
SITE_DERATE = {"simumax-part": 1.35}
# What a row does not print, and its source does.
FEED_FORWARD = {
    "Llama": {"gated": True, "activation": "silu"},
    "Nemotron4": {"gated": False, "activation": "relu2"},
    "GPT": {"gated": False, "activation": "gelu", "bias": True},
}


def main() -> None:
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    skipped: dict[str, list[str]] = defaultdict(list)
    verdicts: dict[str, list[str]] = defaultdict(list)
    print(f"{'run':12} {'model':15} {'plan':47} {'measured':>9} {'predicted':>10}  error")
    for rows in distinct_configurations(csv.DictReader(RUNS.read_text("utf-8").splitlines())):
        row = rows[0]
        try:
            plan, inputs = plan_of(row), inputs_of(row)
            require_legal(plan, inputs)
        except InvalidInput as reason:
            skipped[" ".join(str(reason).split())] += [each["id"] for each in rows]
            continue
        estimate = estimate_each([plan], inputs)[0]
        verdicts[str(estimate.verdict)].append(row["id"])
        seconds = statistics.median(float(each["step_time_s"]) for each in rows)
        pairs = [("time", "s", seconds, estimate.step_time_s)]
        if row["dataset"] in SITE_DERATE:
            cluster = inputs.cluster.replace(site_derate=SITE_DERATE[row["dataset"]])
            slower = estimate_each([plan], inputs.replace(cluster=cluster))[0]
            pairs.append(("time at the site's kernel speed", "s", seconds, slower.step_time_s))
        if row["memory_gib"]:
            pairs.append(("allocated memory", "GiB", float(row["memory_gib"]), estimate.memory.allocated / GIB))
        for quantity, unit, measured, predicted in pairs:
            error = predicted / measured - 1
            errors[quantity, row["dataset"]].append(error)
            figures = f"{measured:7.3f} {unit:3} {predicted:7.3f} {unit:3} {error:+6.1%}"
            print(f"{row['id']:12} {row['model']:15} {plan!s:47} {figures}")
    print_summary(errors, skipped)
    for verdict, runs in verdicts.items():
        print(f"of the configurations above, which all fitted, called {verdict}: {len(runs)} ({', '.join(runs)})")


def print_summary(errors: dict[tuple[str, str], list[float]], skipped: dict[str, list[str]]) -> None:
    print()
    for quantity in dict.fromkeys(quantity for quantity, _ in errors):
        means = []
        for (kind, dataset), values in errors.items():
            if kind == quantity:
                means.append(statistics.mean(map(abs, values)))
                bias, worst = statistics.mean(values), max(values, key=abs)
                print(
                    f"{quantity:32} {dataset:13} {len(values):3} configurations, mean error {means[-1]:5.1%}, "
                    f"bias {bias:+6.1%}, worst {worst:+6.1%}"
                )
        print(f"{quantity:32} mean of the datasets' means {statistics.mean(means):5.1%}")
    for reason, runs in skipped.items():
        print(f"not represented, {len(runs)} runs: {reason}")


def distinct_configurations(rows: Iterable[dict[str, str]]) -> list[list[dict[str, str]]]:
    """Rows grouped by configuration: the same one measured again counts once, by its median."""
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["config_key"]].append(row)
    return list(groups.values())


def plan_of(row: dict[str, str]) -> Plan:
    degrees = {name: int(row[name] or 1) for name in ("tp", "cp", "pp", "vpp", "dp", "ep")}
    micro_batch = int(row["micro_batch_size"])
    return Plan(
        **degrees,
        sp=row["sp"] == "True",
        zero=int(row["zero_stage"]),
        micro_batch=micro_batch,
        num_microbatches=int(row["global_batch_size"]) // (micro_batch * degrees["dp"]),
        recompute=Recompute[(row["recompute"] or "none").upper()],
        schedule=Schedule.INTERLEAVED if degrees["vpp"] > 1 else Schedule.ONE_F_ONE_B,
    )


def inputs_of(row: dict[str, str]) -> Inputs:
    if row["precision"] not in ("bf16", "fp16"):
        raise NotModelled(f"precision {row['precision']} is not modelled yet")
    job = Job(
        sequence_length=int(row["seq_len"]), global_batch=int(row["global_batch_size"]), precision=row["precision"]
    )
    return Inputs(model=model_of(row), cluster=cluster_of(row), job=job, runtime=runtime_of(row))


def model_of(row: dict[str, str]) -> Model:
    if row["moe_experts"]:
        raise NotModelled("mixture-of-experts models are not planned yet")
    family = (
        row["model"].split("-")[0].rstrip("0123456789.") if not row["model"].startswith("Nemotron4") else "Nemotron4"
    )
    heads, hidden = int(row["heads"]), int(row["hidden"])
    head_dim = int(row["head_dim"] or hidden // heads)
    attention = Attention(heads=heads, kv_heads=int(row["kv_heads"]), head_dim=head_dim, value_head_dim=head_dim)
    block = Mlp(ffn_size=int(row["ffn_hidden"]), **FEED_FORWARD[family])
    return Model(
        name=row["model"],
        family="native",
        hidden_size=hidden,
        vocab_size=int(row["vocab"]),
        layer_kinds=(LayerKind(name="dense", attention=attention, feed_forward=block),),
        layer_pattern=(0,) * int(row["layers"]),
        tied_embeddings=family == "GPT",
        norm="layer" if family == "GPT" else "rms",
        learned_positions=int(row["seq_len"]) if family == "GPT" else 0,
    )


def cluster_of(row: dict[str, str]) -> Cluster:
    per_node = int(row["gpus_per_node"])
    network = {"nics_per_node": per_node, "nic_bandwidth": f"{row['inter_node_GBps_per_gpu']}GB/s"}
    nodes = int(row["num_gpus"]) // per_node
    return read_cluster({"accelerator": row["gpu"], "nodes": nodes, "gpus_per_node": per_node, **network})


def runtime_of(row: dict[str, str]) -> Runtime:
    switches: dict[str, Any] = {}
    if "fused cross entropy" in row["notes"]:
        switches["cross_entropy"] = "fused"
    if "grad_sync_dtype bf16" in row["notes"]:
        switches["gradient_bytes"] = 2
    return read_runtime(row["runtime"]).replace(**switches)


if __name__ == "__main__":
    main()
