"""Answered: what a launch file leaves open and options beside it say, and the batch that follows from both."""

from __future__ import annotations

from collections.abc import Collection

from meshwright.launch.forms import Fields
from meshwright.launch.readers.settings import FileSetting, LaunchSettings
from meshwright.launch.table import LaunchTable

SIZES = ("job.global_batch", "plan.micro_batch")
"""Two of the three that say a batch; the third is the number of micro-batches."""
_COUNT = "plan.num_microbatches"
_TAKEN_AUTO = ("bf16", "dtype", "torch_dtype")
"""Settings of which `auto` is a value of its own."""


def says(setting: FileSetting) -> bool:
    """Whether a setting has a value: a Trainer fills in what is `auto`."""
    filled_in = setting.value == "auto" and setting.key.lstrip("-") not in _TAKEN_AUTO
    return bool(setting.key) and not setting.open and setting.value is not None and not filled_in


def says_batch(fields: Fields) -> bool:
    """Whether fields say how many sequences a step and a micro-batch have."""
    sizes = sum(fields.get(name) is not None for name in SIZES)
    counted = sizes == 1 and fields.get(_COUNT) is not None
    return fields.get("plan.local_batch") is not None or sizes == len(SIZES) or counted


def answered(
    fields: Fields, answers: Fields, read: LaunchSettings, table: LaunchTable, said: Collection[str]
) -> tuple[Fields, tuple[str, ...]]:
    """The fields with the answers to what the file leaves open, and the names of those.

    answers: fields that options say; said: keys with a value, in the file or beside it. A number of micro-batches that
    nothing says follows from the global batch where there is one.
    """
    fields = dict(fields)
    if left_auto(read, table, said):
        fields.pop(_COUNT, None)
    batched = fields.get("plan.micro_batch") is not None or "job.global_batch" not in answers
    if fields.get("job.global_batch") is None and _is_one_micro_batch(table) and batched:
        fields[_COUNT] = 1
    used = []
    for name, value in answers.items():
        if fields.get(name) is None and not (name in SIZES and says_batch(fields)):
            fields[name] = value
            used.append(name)
    row = table.rows.get(_COUNT)
    if row and not {row.key, *row.aliases} & set(said) and fields.get("job.global_batch"):
        fields.pop(_COUNT, None)
    return fields, tuple(used)


def batched(fields: Fields, ranks: int) -> Fields:
    """The fields with the global batch that micro-batches make, where the file counts those."""
    if fields.get("plan.local_batch") is not None:
        return fields
    degrees = [fields.get(f"plan.{name}") or 1 for name in ("tp", "cp", "pp")]
    dp = fields.get("plan.dp") or max(ranks // max(degrees[0] * degrees[1] * degrees[2], 1), 1)
    if fields.get("job.global_batch") is None:
        counts = fields["plan.micro_batch"] * (fields.get("plan.num_microbatches") or 1)
        return fields | {"job.global_batch": counts * dp}
    if fields.get("plan.micro_batch") is None:
        per_rank = fields["job.global_batch"] // (dp * (fields.get("plan.num_microbatches") or 1))
        return fields | {"plan.micro_batch": max(per_rank, 1)}
    return fields


def left_auto(read: LaunchSettings, table: LaunchTable, said: Collection[str]) -> FileSetting | None:
    """The setting of the number of micro-batches that is `auto`; None where it has a value, or is not there."""
    row = table.rows.get(_COUNT)
    keys = {row.key, *row.aliases} - set(said) if row else set[str]()
    return next((each for each in read.settings if each.key in keys and each.value == "auto"), None)


def _is_one_micro_batch(table: LaunchTable) -> bool:
    """Whether a framework makes the global batch of one micro-batch of every replica where a file names none."""
    row = table.rows.get("job.global_batch")
    return row is not None and row.default == "{plan.micro_batch} * {plan.dp}"
