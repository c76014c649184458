"""Tables of measured runs for tests: shipped rows, one row with changes, and outcomes without a prediction behind."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from unittest import mock

from meshwright.validation.outcomes import Outcome, Pair, outcomes_of
from meshwright.validation.rows.configurations import Configuration, configurations
from meshwright.validation.rows.reading import Case, read_case
from meshwright.validation.rows.table import COLUMNS, Row, read_rows


@cache
def shipped() -> tuple[Row, ...]:
    """Every row of the project's own table."""
    return tuple(read_rows())


def llama(**changes: str) -> Row:
    """Llama 2 7B on 8 H100, in a table that nobody published."""
    sizes = {"layers": "32", "hidden": "4096", "ffn_hidden": "11008", "heads": "32", "kv_heads": "32"}
    sizes |= {"vocab": "32000", "seq_len": "4096", "params_b": "6.74"}
    plan = {"tp": "2", "pp": "1", "dp": "4", "micro_batch_size": "1", "global_batch_size": "32", "recompute": "none"}
    said = {"id": "mine-1", "dataset": "mine", "runtime": "megatron-core", "model": "Llama-2-7B", "gpu": "h100"}
    measured = {"step_time_s": "2.5", "memory_gib": "40", "memory_kind": "allocated"}
    where = {"num_gpus": "8", "gpus_per_node": "8", "precision": "bf16"}
    return dict.fromkeys(COLUMNS, "") | said | sizes | where | plan | measured | changes


def outcome_of_row(row: Row) -> Outcome:
    """What becomes of a table of one row."""
    (outcome,) = outcomes_of(configurations([row]))
    return outcome


@cache
def _case() -> Case:
    return read_case(llama())


def outcome(
    step_time: tuple[float, float] | None = None, memory: tuple[float, float] | None = None, **changes: str
) -> Outcome:
    """An outcome whose measured and predicted figures are these, seconds and GiB; changes: columns of its row."""
    pairs = [Pair(*pair) if pair else None for pair in (step_time, memory)]
    return Outcome(Configuration((llama(**changes),)), _case(), None, pairs[0], pairs[1])


def judged(verdict: object, **changes: str) -> Outcome:
    """An outcome of which only the verdict is known."""
    return Outcome(Configuration((llama(**changes),)), estimate=mock.Mock(verdict=verdict))


def written(path: Path, rows: Iterable[Row]) -> Path:
    """A table as a CSV file; columns that no row has filled are left out."""
    given = list(rows)
    columns = [column for column in COLUMNS if any(row[column] for row in given)] or list(COLUMNS)
    lines = [",".join(columns), *(",".join(_cell(row[column]) for column in columns) for row in given)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
