"""What a row does not print, and the predictor assumes: the one place that fills blanks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from meshwright.errors import InvalidInput, NotModelled
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.read_accelerator import read_accelerator
from meshwright.specs.runtime import read_runtime
from meshwright.validation.rows.frameworks import LIKE, StandIn
from meshwright.validation.rows.table import Row


class Blank(NamedTuple):
    """A column that may be blank, and what is then assumed."""

    column: str
    value: Callable[[Row], str]
    said: str
    matters: Callable[[Row], bool] = lambda _: True
    """Whether the assumption has any bearing on that row."""


UNNAMED_ACCELERATOR = "a100-sxm-80gb"
"""What stands for an accelerator that a row does not name."""


def _runs(runtime: str) -> Callable[[Row], bool]:
    return lambda row: row["runtime"] == runtime


def _several_nodes(row: Row) -> bool:
    return int(row["num_gpus"]) > int(row["gpus_per_node"])


def _experts_of_bridge(row: Row) -> bool:
    return int(row["ep"]) > 1 and "Megatron-Bridge" in row["runtime_detail"]


def _pipelined(row: Row) -> bool:
    return int(row["pp"]) > 1


def _split_tensors(row: Row) -> bool:
    return int(row["tp"]) > 1


def _is_interleaved(row: Row) -> bool:
    return int(row["pp"] or 1) > 1 and row["schedule"] == SCHEDULE_NAMES[Schedule.INTERLEAVED]


def _ranks(row: Row) -> str:
    """Accelerators that the printed degrees make; nothing where none is printed."""
    degrees = [int(row[name] or 1) for name in ("tp", "pp", "cp", "dp")]
    return str(degrees[0] * degrees[1] * degrees[2] * degrees[3]) if row["dp"] else ""


def _usual_node(row: Row) -> str:
    try:
        per_node = read_accelerator(row["gpu"]).node_size
    except InvalidInput:
        per_node = 8
    return str(min(per_node, int(row["num_gpus"])))


def _usual_zero(row: Row) -> str:
    """0 where the framework is not known, which is refused later."""
    stands = LIKE.get(row["runtime"], StandIn(row["runtime"])).runtime
    try:
        stages = read_runtime(stands).plans.zero_stages
    except InvalidInput:
        return "0"
    return str(1 if 1 in stages else stages[-1])


def _replicas(row: Row) -> str:
    return str(max(int(row["num_gpus"]) // (int(row["tp"]) * int(row["pp"]) * int(row["cp"])), 1))


def _one_each(row: Row) -> str:
    return str(int(row["dp"]) * int(row["micro_batch_size"] or 1) * int(row["pp"]))


def _usual_ffn(row: Row) -> str:
    return str(4 * int(row["hidden"]))


def _recipe_of_bridge(row: Row, table: dict[tuple[str, str, str], str]) -> str:
    """What the first matching entry says, by how the names of model, accelerator and precision begin; else nothing."""
    given = row["model"], row["gpu"], row["precision"]
    entries = table.items() if "Megatron-Bridge" in row["runtime_detail"] else ()
    return next((said for keys, said in entries if all(map(str.startswith, given, keys))), "")


def _modules(row: Row) -> str:
    return _recipe_of_bridge(row, RECOMPUTED)


def _offloaded(row: Row) -> str:
    return _recipe_of_bridge(row, OFFLOADED) if row["zero_stage"] == "3" else ""


def _named_offloading(row: Row) -> str:
    """Layers whose activations wait on the host: as many as the notes say, 0, or nothing where a recipe fills it."""
    named = re.search(r"cpu_offloading_num_layers=(\d{1,5})\b", row["notes"])
    return named[1] if named else "" if _offloaded(row) else "0"


RECOMPUTED = {
    ("DeepSeek-V3", "H100", ""): "mla_up_proj+mlp",
    ("DeepSeek-V3", "", ""): "mla_up_proj",
    ("Kimi-K2", "", ""): "mla_up_proj",
    ("GPT-OSS-120B", "GB200", "bf16"): "layernorm+moe_act",
    ("GPT-OSS-120B", "B200", "bf16"): "layernorm+moe_act",
    ("GPT-OSS-120B", "H100", "bf16"): "layernorm+moe_act",
}
"""Modules that most recipes of Megatron-Bridge recompute, by model, accelerator and precision (scripts/performance/
configs: deepseek_llm_pretrain.py@01328424, kimi_workload_base_configs.py@013180a7 and
gpt_oss_workload_base_configs.py@07eea52d)."""
OFFLOADED = {
    ("Llama3-70B", "GB300", "fp8"): "20",
    ("Llama3-70B", "GB200", "fp8"): "40",
    ("Llama3.1-405B", "GB200", "fp8"): "95",
}
"""Layers whose activations fully sharded recipes of Megatron-Bridge keep on the host (scripts/performance/configs,
llama3 and llama31, workload_base_configs.py@0fa501ac)."""
REQUIRED = {
    "model": "the model is not named",
    "layers": "the number of layers is not printed",
    "hidden": "the hidden size is not printed",
    "heads": "the number of attention heads is not printed",
    "seq_len": "the sequence length is not printed",
    "runtime": "the framework is not named",
    "num_gpus": "neither the number of accelerators nor the degrees that make it are printed",
}
"""Columns without a default, and what to say where they are blank."""
RANKS = Blank("num_gpus", _ranks, "as many accelerators as the degrees make")
BLANKS = (
    Blank("gpu", lambda _: UNNAMED_ACCELERATOR, f"{UNNAMED_ACCELERATOR}, as no accelerator is named: no step time"),
    Blank("gpus_per_node", _usual_node, "nodes of the accelerator's usual size"),
    *(Blank(axis, lambda _: "1", f"no {axis}") for axis in ("tp", "pp", "cp", "ep")),
    Blank("dp", _replicas, "all accelerators that other axes leave are data-parallel"),
    Blank("sp", lambda _: "True", "sequence parallelism beside tp", _split_tensors),
    Blank("global_batch_size", _one_each, "one micro-batch on every rank of a pipeline for each replica"),
    Blank("ffn_hidden", _usual_ffn, "an FFN size of four times the hidden size"),
    Blank("precision", lambda _: "bf16", "the data type is bf16"),
    Blank("kv_heads", lambda row: row["heads"], "as many key-value heads as heads"),
    Blank("vocab", lambda _: "50257", "the vocabulary of GPT-2"),
    Blank("zero_stage", _usual_zero, "ZeRO 1 where the framework has it, else its last stage"),
    Blank(
        "etp", lambda _: "1", "experts are not split over tensor-parallel ranks (Megatron-Bridge)", _experts_of_bridge
    ),
    Blank("attention_kernel", lambda _: "", "attention by the runtime's own kernels"),
    Blank("vpp", lambda _: "2", "two chunks of layers on each rank of an interleaved pipeline", _is_interleaved),
    Blank("vpp", lambda _: "1", "one chunk of layers on each pipeline rank"),
    Blank(
        "recompute",
        lambda _: "full",
        "full recomputation, with which the printed FLOP/s are consistent",
        lambda row: "consistent with full recompute" in row["notes"],
    ),
    Blank(
        "recompute",
        lambda _: "selective",
        "selective recomputation, as in torchtitan's own training configurations",
        _runs("torchtitan"),
    ),
    Blank(
        "recompute_modules",
        _modules,
        "what the model's recipes of Megatron-Bridge recompute, as most of them do (scripts/performance/configs)",
        lambda row: not row["recompute"] and bool(_modules(row)),
    ),
    Blank("recompute", lambda _: "selective", "selective recomputation", lambda row: bool(row["recompute_modules"])),
    Blank("recompute", lambda _: "none", "no recomputation", lambda row: row["runtime"] != "torchtitan"),
    Blank(
        "schedule",
        lambda row: "interleaved" if int(row["vpp"]) > 1 else "1f1b",
        "the schedule is 1F1B, interleaved with more than one chunk",
        _pipelined,
    ),
    Blank(
        "offloaded_layers",
        _offloaded,
        "activations of some layers wait on the host, as in the recipe (Megatron-Bridge, `cpu_offloading_num_layers`); "
        "their way there and back is priced as hidden",
    ),
    Blank("compiled", lambda _: "", "compiled or not as the runtime's own default", _runs("torchtitan")),
    Blank("inter_node_GBps_per_gpu", lambda _: "", "the network of the accelerator's usual node", _several_nodes),
)


STAYS_GATHERED = "weights stay gathered under a pipeline, as torchtitan has it unless told otherwise"
"""torchtitan: `reshard_after_forward_policy` `default`, and before it had policies (2024) always, in apply_fsdp; rows
write every run of FSDP2 as ZeRO 3."""


def completed(row: Row) -> tuple[Row, tuple[str, ...]]:
    """The row without the blanks that have a default, and what was assumed; raises `NotModelled` for other blanks.

    A blank micro-batch size stays: what is assumed for it has to be priced.
    """
    filled, ranks = _filled(row | {"offloaded_layers": _named_offloading(row)}, [RANKS])
    for column in (each for each in REQUIRED if not filled[each]):
        raise NotModelled(REQUIRED[column])
    if _is_interleaved(filled) and filled["vpp"] == "1":
        filled["vpp"] = ""
    filled, assumed = _filled(filled, BLANKS)
    if filled["runtime"] == "torchtitan" and int(filled["pp"]) > 1 and filled["zero_stage"] == "3":
        filled, assumed = filled | {"zero_stage": "2"}, [*assumed, STAYS_GATHERED]
    return filled, (*ranks, *assumed)


def _filled(row: Row, blanks: Iterable[Blank]) -> tuple[Row, list[str]]:
    filled, assumed = dict(row), []
    for blank in blanks:
        if not filled[blank.column] and blank.matters(filled):
            filled[blank.column] = blank.value(filled)
            assumed.append(blank.said)
    return filled, assumed
