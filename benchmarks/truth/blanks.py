"""What a row does not print, and the predictor assumes: the one place that fills blanks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from meshwright.errors import NotModelled

Row = dict[str, str]


class Blank(NamedTuple):
    """A column that may be blank, and what is then assumed."""

    column: str
    value: Callable[[Row], str]
    said: str
    matters: Callable[[Row], bool] = lambda _: True
    """Whether the assumption has any bearing on that row."""


def _runs(runtime: str) -> Callable[[Row], bool]:
    return lambda row: row["runtime"] == runtime


def _several_nodes(row: Row) -> bool:
    return int(row["num_gpus"]) > int(row["gpus_per_node"])


def _experts_of_bridge(row: Row) -> bool:
    return int(row["ep"]) > 1 and "Megatron-Bridge" in row["runtime_detail"]


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
    named = re.search(r"cpu_offloading_num_layers=(\d+)", row["notes"])
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
REQUIRED = {"global_batch_size": "the global batch is not printed", "gpu": "the accelerator is not named"}
"""Columns without a default, and what to say where they are blank."""
BLANKS = (
    Blank("precision", lambda _: "bf16", "the data type is bf16"),
    Blank("kv_heads", lambda row: row["heads"], "as many key-value heads as heads"),
    Blank("vocab", lambda _: "50257", "the vocabulary of GPT-2"),
    Blank("zero_stage", lambda _: "0", "no ZeRO"),
    Blank(
        "etp", lambda _: "1", "experts are not split over tensor-parallel ranks (Megatron-Bridge)", _experts_of_bridge
    ),
    Blank("attention_kernel", lambda _: "", "attention by the runtime's own kernels"),
    Blank("vpp", lambda _: "1", "one chunk of layers on each pipeline rank"),
    Blank("micro_batch_size", lambda _: "1", "micro-batches of one sequence"),
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
        lambda row: int(row["pp"]) > 1,
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


def completed(row: Row) -> tuple[Row, tuple[str, ...]]:
    """The row without the blanks that have a default, and what was assumed; raises `NotModelled` for other blanks."""
    for column, reason in REQUIRED.items():
        if not row[column]:
            raise NotModelled(reason)
    filled, assumed = row | {"offloaded_layers": _named_offloading(row)}, []
    for blank in BLANKS:
        if not filled[blank.column] and blank.matters(filled):
            filled[blank.column] = blank.value(filled)
            assumed.append(blank.said)
    return filled, tuple(assumed)
