"""What a row does not print, and the predictor assumes: the one place that fills blanks."""

from __future__ import annotations

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
    Blank("recompute", lambda _: "none", "no recomputation", lambda row: row["runtime"] != "torchtitan"),
    Blank(
        "schedule",
        lambda row: "interleaved" if int(row["vpp"]) > 1 else "1f1b",
        "the schedule is 1F1B, interleaved with more than one chunk",
        lambda row: int(row["pp"]) > 1,
    ),
    Blank("compiled", lambda _: "", "compiled or not as the runtime's own default", _runs("torchtitan")),
    Blank("inter_node_GBps_per_gpu", lambda _: "", "the network of the accelerator's usual node", _several_nodes),
)


def completed(row: Row) -> tuple[Row, tuple[str, ...]]:
    """The row without the blanks that have a default, and what was assumed; raises `NotModelled` for other blanks."""
    for column, reason in REQUIRED.items():
        if not row[column]:
            raise NotModelled(reason)
    filled, assumed = dict(row), []
    for blank in BLANKS:
        if not filled[blank.column] and blank.matters(filled):
            filled[blank.column] = blank.value(filled)
            assumed.append(blank.said)
    return filled, tuple(assumed)
