"""Table: rows of measured runs, from the project's own table or from any file of its columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import get_args

from meshwright.errors import InvalidInput, NotModelled, UnknownName, quoted
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs.choices import RECOMPUTE_NAMES
from meshwright.specs.job_options import OF_RUNS, WHOLE
from meshwright.specs.runtime.device import AttentionKernel
from meshwright.text_files import FORMULA, read_text

Row = dict[str, str]

PUBLISHED = Path(__file__).parents[1] / "published_runs.csv"
"""The project's own table; each row with its source."""
FREE_TEXT = ("source", "runtime_detail", "precision_detail", "step_time_is", "notes")
"""Columns for people, which no prediction reads; of a table without settings they name releases and
recipes (`released`, `said`)."""


def _of_job(column: str) -> list[str]:
    """The columns that options of a job have, of a kind."""
    return [each.name for each in OF_RUNS if each.kind.column == column]


NAMES = (
    *("id", "dataset", "config_key", "quality", "runtime", "settings", "with", "refused", "model", "architecture"),
    *("cluster", "gpu", "precision", "recompute_modules", "plan", "software_release", "assumed", "known_by"),
    *_of_job("text"),
)
COUNTS = (
    *("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "head_dim", "vocab", "seq_len", *_of_job("count")),
    *("moe_experts", "moe_topk", "moe_ffn", "gpus_per_node", "num_gpus"),
    *("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero_stage", "shard_group_size"),
    *("micro_batch_size", "global_batch_size", "recompute_layers", "memory_rank"),
)
"""Columns of whole numbers."""
FIGURES = (
    *("params_b", *_of_job("number"), "inter_node_GBps_per_gpu", "power_limit_w"),
    *("step_time_s", "tokens_per_s_per_gpu", "memory_gib"),
)
"""Columns of other numbers: 0 stands for one that is not known, as a blank does."""
UNKNOWN = "unknown"
"""A kind of memory of which nothing is scored."""
CHOICES = {
    "schedule": tuple(SCHEDULE_NAMES.values()),
    "recompute": tuple(RECOMPUTE_NAMES.values()),
    "attention_kernel": ("flash", *get_args(AttentionKernel)),
    "memory_kind": ("allocated", "reserved", "device", UNKNOWN),
    "routing": ("even", "neighbours", "natural"),
}
"""Columns that take a few words, and these."""
SYNONYMS = {
    "memory_kind": {"max_memory_allocated": "allocated", "max_memory_reserved": "reserved", "nvidia-smi": "device"}
}
"""Other words for them: PyTorch's counters, and the driver's."""
SWITCHES = {"sp": ("True", "False"), "ends_layers_less": ("1", "0"), "compiled": ("yes", "no"), "fits": ("yes", "no")}
"""Columns that say yes or no, and how they say it in this package."""
COLUMNS = (*NAMES, *FREE_TEXT, *CHOICES, *SWITCHES, *COUNTS, *FIGURES)
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
MAY_BE_0 = {
    *("zero_stage", "moe_experts", "moe_topk", "moe_ffn", "memory_rank"),
    *(each.name for each in OF_RUNS if each.kind is WHOLE),
}
"""Counts that may be 0; a model of 0 experts is one without."""
OTHER_MARKS = {";": "semicolons", "\t": "tabs"}
"""That spreadsheets write between columns in place of commas."""
MOST_ROWS = 100_000
"""A hundred times the runs that were ever published; each is read into half a kilobyte."""
LARGEST_COUNT, LEAST_FIGURE, LARGEST_FIGURE = 10**9, 1e-9, 1e15
"""No run comes near them; beyond, a column holds something else."""


def read_rows(path: Path = PUBLISHED) -> list[Row]:
    """Every row of a CSV file, columns that it lacks blank; raises `InvalidInput` for a file that is no such table."""
    text = read_text(path, "table of runs")
    try:
        return [*_rows(csv.DictReader(io.StringIO(text), strict=True), path)]
    except csv.Error as error:
        raise InvalidInput(f"{str(path)!r} is not a CSV file: {error}") from None


def _rows(reader: csv.DictReader[str], path: Path) -> Iterator[Row]:
    named = [name.strip() for name in reader.fieldnames or ()]
    if not set(named) & set(COLUMNS):
        other = next((mark for mark in OTHER_MARKS if len(named) == 1 and mark in named[0]), "")
        if other:
            raise InvalidInput(f"{str(path)!r} has {OTHER_MARKS[other]} between its columns; write commas")
        raise InvalidInput(f"{str(path)!r} has none of the columns of measured runs; they are {', '.join(COLUMNS)}")
    unknown = [str(UnknownName("column", name, COLUMNS)) for name in named if name not in COLUMNS]
    if unknown:
        raise InvalidInput(f"{str(path)!r} has columns that are not known: {'; '.join(unknown)}")
    twice = [column for column in COLUMNS if named.count(column) > 1]
    if twice:
        raise InvalidInput(f"{str(path)!r} names a column more than once: {', '.join(twice)}")
    reader.fieldnames = named
    for count, record in enumerate(reader, 1):
        if count > MOST_ROWS:
            raise InvalidInput(f"{str(path)!r} has more than {MOST_ROWS:,} rows: is it a table of runs? Split it")
        if None in record:
            raise InvalidInput(f"{str(path)!r}, line {reader.line_num}: there are more values than columns")
        row = dict.fromkeys(COLUMNS, "") | {column: _field(text) for column, text in record.items() if text}
        yield row | {"id": row["id"] or f"row {count}", "dataset": row["dataset"] or path.stem}


def _field(text: str) -> str:
    """A field as it was before `csv_text` kept it from being a formula."""
    plain = text.strip()
    return plain[1:] if plain.startswith("'") and FORMULA.match(plain[1:]) else plain


def split_list(text: str) -> list[str]:
    """The parts of a column that holds several, with semicolons between.

    >>> split_list("deep-ep; expert-overlap")
    ['deep-ep', 'expert-overlap']
    """
    return [part.strip() for part in text.split(";") if part.strip()]


def normalised(row: Row) -> Row:
    """The row with its numbers written as Python writes them, and words as `CHOICES` and `SWITCHES` have them; raises
    `NotModelled` for a value that its column does not take.
    """
    done = dict(row)
    for column in filter(row.__getitem__, COUNTS):
        done[column] = _count(column, row[column])
    for column in filter(row.__getitem__, FIGURES):
        done[column] = _figure(column, row[column])
    for column in filter(row.__getitem__, CHOICES):
        choices, synonyms = CHOICES[column], SYNONYMS.get(column, {})
        done[column] = word = synonyms.get(row[column].lower(), row[column].lower())
        if word not in choices:
            raise NotModelled(
                f"{column} is {quoted(row[column])}; it must be one of {', '.join((*choices, *synonyms))}"
            )
    for column in filter(row.__getitem__, SWITCHES):
        (yes, no), word = SWITCHES[column], row[column].lower()
        if word not in (*TRUE, *FALSE):
            raise NotModelled(f"{column} is {quoted(row[column])}; it must be {yes} or {no}")
        done[column] = yes if word in TRUE else no
    if done["memory_gib"] and not done["memory_kind"]:
        raise NotModelled(f"memory_gib needs a memory_kind, one of {', '.join(CHOICES['memory_kind'])}")
    return done if done["moe_experts"] != "0" else done | dict.fromkeys(("moe_experts", "moe_topk", "moe_ffn"), "")


_DECIMAL_COMMA = re.compile(r",(?!\d{3}(?!\d))")
"""A comma that no three digits follow is none between thousands: 4,3 may mean 4.3."""


def figure(text: str) -> float | None:
    """A number as tables print it, thousands apart or not, in the unit of its column; None: not a finite one.

    >>> figure("1,024"), figure("8k"), figure("4,3")
    (1024.0, None, None)
    """
    try:
        value = math.nan if _DECIMAL_COMMA.search(text) else float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@lru_cache(maxsize=1 << 14)
def _count(column: str, text: str) -> str:
    value, least = figure(text), 0 if column in MAY_BE_0 else 1
    if value is None or value != round(value) or not least <= value <= LARGEST_COUNT:
        raise NotModelled(f"{column} is {quoted(text)}; it must be a whole number from {least} to {LARGEST_COUNT}")
    return str(round(value))


@lru_cache(maxsize=1 << 14)
def _figure(column: str, text: str) -> str:
    value = figure(text)
    if value is None or (value and not LEAST_FIGURE <= value <= LARGEST_FIGURE):
        which = f"a number from {LEAST_FIGURE:g} to {LARGEST_FIGURE:g}, or 0 or blank where it is not known"
        which += ", with a point before its decimals" if "," in text else ""
        raise NotModelled(f"{column} is {quoted(text)}; it must be {which}")
    return repr(value) if value else ""
