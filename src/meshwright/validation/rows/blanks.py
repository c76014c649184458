"""What a row does not print, and the predictor assumes: the one place that fills blanks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from meshwright.errors import InvalidInput, NotModelled
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.validation.rows.architecture import architectures, catalogue_model, differences, sizes_of
from meshwright.validation.rows.clusters import with_cluster
from meshwright.validation.rows.settings import base_runtime
from meshwright.validation.rows.table import Row


class Blank(NamedTuple):
    """A column that may be blank, and what is then assumed."""

    column: str
    value: Callable[[Row], str]
    what: str
    matters: Callable[[Row], bool] = lambda _: True
    """Whether the assumption has any bearing on that row."""


UNNAMED_ACCELERATOR = "a100-sxm-80gb"
"""What stands for an accelerator that a row does not name."""
ENDS = 2
"""The embedding and the head."""
CHUNKED = {schedule.record.name for schedule in Schedule if schedule.record.chunks != 1}
"""Schedules whose ranks hold two chunks or more."""


def _several_nodes(row: Row) -> bool:
    return int(row["num_gpus"]) > int(row["gpus_per_node"])


def _is_over_1(column: str) -> Callable[[Row], bool]:
    return lambda row: int(row[column] or 1) > 1


def _has_chunks(row: Row) -> bool:
    return int(row["pp"] or 1) > 1 and row["schedule"] in CHUNKED


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
    stages = base_runtime(row["runtime"]).plans.zero_stages
    return str(1 if 1 in stages else stages[-1])


def _expert_tensor(row: Row) -> str:
    """Source: Megatron-LM@ba773259d core/transformer/moe/experts.py L55-L64; since 7f22e210cd (2024-11)
    training/arguments.py: --expert-tensor-parallel-size is tensor_model_parallel_size where it is left out;
    ms-swift 4 megatron/arguments/megatron_args.py: expert_tensor_parallel_size is 1.
    """
    as_tp = row["runtime"].partition("@")[0] in ("megatron-core", "megatron-lm")
    return row["tp"] if as_tp and "swift" not in row["runtime_detail"].lower() else "1"


def _replicas(row: Row) -> str:
    return str(max(int(row["num_gpus"]) // (int(row["tp"]) * int(row["pp"]) * int(row["cp"])), 1))


def _one_each(row: Row) -> str:
    return str(int(row["dp"]) * int(row["micro_batch_size"] or 1) * int(row["pp"]))


def _usual_schedule(row: Row) -> str:
    return SCHEDULE_NAMES[Schedule.INTERLEAVED if int(row["vpp"]) > 1 else Schedule.ONE_F_ONE_B]


def _only_ends_fill_chunks(row: Row) -> bool:
    """Whether chunks of layers are alike with the embedding and the head as layers, and not without."""
    chunks, layers = int(row["pp"]) * int(row["vpp"]), int(row["layers"])
    takes_ends = True in base_runtime(row["runtime"]).plans.ends_as_layers
    return chunks > 1 and takes_ends and not row["plan"] and layers % chunks > 0 and (layers + ENDS) % chunks == 0


REQUIRED = {
    "model": "the model is not named",
    "layers": "the number of layers is not given, and the model is not one of the catalogue",
    "hidden": "the hidden size is not given, and the model is not one of the catalogue",
    "heads": "the number of attention heads is not given, and the model is not one of the catalogue",
    "seq_len": "the sequence length is not printed",
    "runtime": "the framework is not named",
    "num_gpus": "neither the number of accelerators nor the degrees or the cluster that make it are printed",
}
"""Columns without a default, and what to say where they are blank."""
RANKS = Blank("num_gpus", _ranks, "the product of the degrees as the number of accelerators")
BLANKS = (
    Blank(
        "gpu",
        lambda _: UNNAMED_ACCELERATOR,
        f"{UNNAMED_ACCELERATOR}, as none is named; its step time is not scored",
    ),
    Blank("gpus_per_node", _usual_node, "the accelerator's usual number per node"),
    *(Blank(axis, lambda _: "1", f"{axis} 1") for axis in ("tp", "pp", "cp", "ep")),
    Blank("dp", _replicas, "data parallelism over all accelerators that the other axes leave"),
    Blank(column="sp", value=lambda _: "True", what="sequence parallelism with tp", matters=_is_over_1("tp")),
    Blank("global_batch_size", _one_each, "pp micro-batches for each data-parallel rank"),
    Blank(
        column="ffn_hidden",
        value=lambda row: str(4 * int(row["hidden"])),
        what="an FFN size of four times the hidden size",
        matters=lambda row: not (row["moe_experts"] and row["moe_ffn"]),
    ),
    Blank("precision", lambda _: "bf16", "bf16"),
    Blank("kv_heads", lambda row: row["heads"], "as many key-value heads as heads"),
    Blank("vocab", lambda _: "50257", "the vocabulary of GPT-2"),
    Blank("zero_stage", _usual_zero, "ZeRO 1 if the framework has it, else its highest stage"),
    Blank(
        column="etp",
        value=_expert_tensor,
        what="etp 1, or tp under Megatron-LM, which divides experts too unless it is told otherwise",
        matters=_is_over_1("ep"),
    ),
    Blank("attention_kernel", lambda _: "", "attention by the runtime's own kernels"),
    Blank(
        column="vpp",
        value=lambda _: "2",
        what="two chunks of layers per rank, as the schedule needs",
        matters=_has_chunks,
    ),
    Blank("vpp", lambda _: "1", "one chunk of layers per pipeline rank"),
    Blank(
        column="recompute",
        value=lambda _: "selective",
        what="selective recomputation",
        matters=lambda row: bool(row["recompute_modules"]),
    ),
    Blank("recompute", lambda _: "none", "no recomputation"),
    Blank(
        column="schedule",
        value=_usual_schedule,
        what="1F1B, interleaved with more than one chunk per rank",
        matters=_is_over_1("pp"),
    ),
    Blank(
        column="ends_layers_less",
        value=lambda _: "1",
        what="the embedding and the head as layers, without which chunks are not alike",
        matters=_only_ends_fill_chunks,
    ),
    Blank(
        column="inter_node_GBps_per_gpu",
        value=lambda _: "",
        what="the network of the accelerator's usual node",
        matters=_several_nodes,
    ),
)


def fill_blanks(row: Row) -> tuple[Row, tuple[str, ...]]:
    """The row without the blanks that have a default, and what was assumed; raises `NotModelled` for other blanks.

    A blank micro-batch size stays: what is assumed for it has to be priced.
    """
    filled, sizes = _with_catalogued_sizes(with_cluster(row))
    filled, ranks = _fill(filled, [RANKS])
    for column in (each for each in REQUIRED if not filled[each]):
        raise NotModelled(REQUIRED[column])
    if _has_chunks(filled) and filled["vpp"] == "1":
        filled["vpp"] = ""
    filled, assumed = _fill(filled, BLANKS)
    return filled, (*sizes, *ranks, *assumed)


def _with_catalogued_sizes(row: Row) -> tuple[Row, list[str]]:
    """With the blank sizes of a model of the catalogue that the row names and does not contradict."""
    known = None if row["architecture"] in architectures() else catalogue_model(row)
    if not known or differences(row, known):
        return row, []
    blank = {column: size for column, size in sizes_of(known).items() if not row[column]}
    return row | blank, [f"{', '.join(blank)} of the catalogue's {known.name}"] if blank else []


def _fill(row: Row, blanks: Iterable[Blank]) -> tuple[Row, list[str]]:
    filled, assumed = dict(row), []
    for blank in blanks:
        if not filled[blank.column] and blank.matters(filled):
            filled[blank.column] = blank.value(filled)
            assumed.append(blank.what)
    return filled, assumed
