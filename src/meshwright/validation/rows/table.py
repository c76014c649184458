"""Table: rows of measured runs, from the project's own table or from any file of its columns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from meshwright.errors import InvalidInput, NotModelled, quoted

Row = dict[str, str]

PUBLISHED = Path(__file__).parents[1] / "published_runs.csv"
"""The project's own table; each row with its source."""
COUNTS = (
    *("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocab", "seq_len"),
    *("moe_experts", "moe_topk", "moe_ffn", "gpus_per_node", "num_gpus", "tp", "pp", "vpp", "cp", "ep", "etp", "dp"),
    *("ends_layers_less", "zero_stage", "shard_group_size", "micro_batch_size", "global_batch_size"),
)
"""Columns of whole numbers."""
FIGURES = ("params_b", "inter_node_GBps_per_gpu", "step_time_s", "tokens_per_s_per_gpu", "memory_gib")
"""Columns of other numbers."""
WORDS = (
    *("id", "dataset", "config_key", "source", "runtime", "runtime_detail", "model", "gpu", "sp", "schedule"),
    *("precision", "precision_detail", "recompute", "recompute_modules", "attention_kernel", "compiled"),
    *("software_release", "step_time_is", "memory_kind", "fits", "quality", "notes"),
)
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


def read_rows(path: Path = PUBLISHED) -> list[Row]:
    """Every row of a CSV file, columns that it lacks blank; raises `InvalidInput` for a file that is no such table."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{str(path)!r} is no CSV file: it is not text in UTF-8") from None
    try:
        return [*_rows(csv.DictReader(io.StringIO(text), strict=True), path)]
    except csv.Error as error:
        raise InvalidInput(f"{str(path)!r} is no CSV file: {error}") from None


def _rows(reader: csv.DictReader[str], path: Path) -> Iterator[Row]:
    known = [*WORDS, *COUNTS, *FIGURES]
    if not set(reader.fieldnames or ()) & set(known):
        raise InvalidInput(f"{str(path)!r} has none of the columns of measured runs; they are {', '.join(known)}")
    for line, given in enumerate(reader, 1):
        row = {column: (given.get(column) or "").strip() for column in known}
        yield row | {"id": row["id"] or f"row {line}", "dataset": row["dataset"] or path.stem}


def checked(row: Row) -> Row:
    """The row with its numbers written as Python writes them; raises `NotModelled` for a value that is none."""
    done = dict(row)
    for column in (each for each in (*COUNTS, *FIGURES) if row[each]):
        done[column] = _number(column, row[column], whole=column in COUNTS)
    if row["sp"]:
        if row["sp"].lower() not in TRUE + FALSE:
            raise NotModelled(f"sp is {quoted(row['sp'])}; it must be True or False")
        done["sp"] = str(row["sp"].lower() in TRUE)
    return done


def _number(column: str, text: str, *, whole: bool) -> str:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (whole and value != round(value)):
        wanted = "whole number" if whole else "number"
        raise NotModelled(f"{column} is {quoted(text)}; it must be a {wanted}, 0 or more")
    return str(round(value)) if whole else repr(value)
