"""Predicted against measured step time and memory of published dense Megatron runs; nothing here is tuned to them."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from meshwright.errors import InvalidInput, NotModelled
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan, Recompute, Schedule
from meshwright.layout.plans import Plans
from meshwright.cost.step import estimate_plans
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Attention, LayerKind, Mlp, Model
from meshwright.specs.read_cluster import read_cluster
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.units import GIB

RUNS = Path(__file__).parent / "data" / "dense_megatron_runs.csv"
# What a row does not print, and its source does.
FEED_FORWARD = {
    "Llama": {"gated": True, "activation": "silu"},
    "Nemotron4": {"gated": False, "activation": "relu2"},
    "GPT": {"gated": False, "activation": "gelu", "bias": True},
}


def main() -> None:
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    print(f"{'run':14} {'model':16} {'plan':44} {'measured s':>10} {'predicted':>9} {'error':>7}"
          f" {'GiB':>7} {'predicted':>9} {'error':>7}")
    skipped: dict[str, list[str]] = defaultdict(list)
    for rows in distinct_configurations(csv.DictReader(RUNS.open(encoding="utf-8"))):
        row = rows[0]
        try:
            plan, inputs = plan_of(row), inputs_of(row)
            require_legal(plan, inputs)
        except InvalidInput as reason:
            skipped[str(reason)] += [each["id"] for each in rows]
            continue
        estimates = estimate_plans(Plans.of([plan]), inputs)
        seconds = statistics.median(float(each["step_time_s"]) for each in rows)
        predicted = float(estimates.step_time_s[0])
        errors[row["dataset"], "time"].append(predicted / seconds - 1)
        line = f"{row['id']:14} {row['model']:16} {plan!s:44} {seconds:10.3f} {predicted:9.3f} {predicted / seconds - 1:+7.1%}"
        if row["memory_gib"]:
            measured = float(row["memory_gib"])
            allocated = float(estimates.memory.rows(estimates.worst).allocated[0]) / GIB
            errors[row["dataset"], "allocated memory"].append(allocated / measured - 1)
            line += f" {measured:7.2f} {allocated:9.2f} {allocated / measured - 1:+7.1%}"
        print(line)
    print_summary(errors, skipped)


def print_summary(errors: dict[tuple[str, str], list[float]], skipped: dict[str, list[str]]) -> None:
    print()
    for (dataset, quantity), values in sorted(errors.items()):
        mean = statistics.mean(map(abs, values))
        print(f"{dataset:13} {quantity:17} n {len(values):3}  mean error {mean:6.1%}  bias {statistics.mean(values):+6.1%}"
              f"  worst {max(values, key=abs):+6.1%}")
    for quantity in ("time", "allocated memory"):
        means = [statistics.mean(map(abs, values)) for (_, kind), values in errors.items() if kind == quantity]
        print(f"{'all':13} {quantity:17} mean of the datasets' means {statistics.mean(means):6.1%}")
    for reason, runs in skipped.items():
        print(f"not represented ({len(runs)} runs): {' '.join(reason.split())}")


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
    family = row["model"].split("-")[0].rstrip("0123456789.") if not row["model"].startswith("Nemotron4") else "Nemotron4"
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
    return read_cluster(f"{int(row['num_gpus']) // per_node}x{per_node}:{row['gpu']}")


def runtime_of(row: dict[str, str]) -> Runtime:
    runtime = read_runtime(row["runtime"])
    notes = row["notes"]
    if "fused cross entropy" in notes:
        runtime = runtime.replace(cross_entropy="fused")
    return runtime


if __name__ == "__main__":
    main()
