"""Jobs of a sweep: every combination of the values of a table, each as the options of `plan` take it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from meshwright.errors import Fault, InvalidInput, InvalidSpec
from meshwright.specs.job import Job, job_of
from meshwright.specs.job_options import READERS
from meshwright.specs.sweep.faults import Faults, Where


def read_jobs(given: Any, faults: Faults) -> tuple[Job, ...]:
    """The jobs of a table, or of several; a `Job` stands for itself; given: None where the file has none."""
    if given is None:
        return ()
    jobs: dict[Job, None] = {}
    for place, table in faults.list_of(("jobs",), given):
        if isinstance(table, Job):
            jobs[table] = None
            continue
        fields = faults.table_of(place, table, READERS)
        if "seq_len" not in fields and fields:
            faults.add(place, "says no seq_len")
        values = [[*_values((*place, name), fields[name], faults)] for name in fields if name in READERS]
        for chosen in product(*values):
            job = _job(place, dict(chosen), faults) if any(name == "seq_len" for name, _ in chosen) else None
            if job is not None:
                jobs[job] = None
    return tuple(jobs)


def _values(where: Where, given: Any, faults: Faults) -> Iterator[tuple[str, Any]]:
    """The name of a key with each of its values that can be read."""
    name = str(where[-1])
    for place, value in faults.list_of(where, given):
        read = faults.read(place, lambda value=value: READERS[name](value))  # type: ignore[misc]
        if read is not None:
            yield name, read


def _job(where: Where, fields: dict[str, Any], faults: Faults) -> Job | None:
    """A job, or None with what is wrong with it under the keys of the file."""
    try:
        return job_of(fields.pop("seq_len"), **fields)
    except InvalidSpec as refusal:
        named = [Fault(fault.where.replace("sequence_length", "seq_len"), fault.what) for fault in refusal.faults]
        faults.refused(where, InvalidSpec(refusal.subject, named))
    except InvalidInput as refusal:
        faults.refused(
            where,
            InvalidInput(
                str(refusal)
                .replace("--global-batch-tokens", "global_batch_tokens")
                .replace("--global-batch", "global_batch")
            ),
        )
    return None
