"""Folder: what a sweep has written, of which every file is whole, and which answers are known from earlier runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from meshwright.answers.files import TEMPORARY, write_whole
from meshwright.answers.sweep.all_plans import SUFFIX
from meshwright.answers.sweep.columns import COLUMNS, Row
from meshwright.answers.sweep.parquet import read_rows, write_rows
from meshwright.errors import InvalidInput

BEST, PAGE, PLANS, PARTS, LOCK = "best.parquet", "sweep.html", "plans", "parts", ".lock"


class SweepFolder:
    """The directory of a sweep."""

    def __init__(self, path: Path) -> None:
        self.best, self.page, self.plans, self._parts = (path / name for name in (BEST, PAGE, PLANS, PARTS))

    def known(self) -> dict[str, Row]:
        """The answers of earlier runs by the key of their question: of a finished sweep, and of one that was ended."""
        rows = {row["question"]: row for row in read_rows(self.best) if row.get("question")}
        for part in sorted(self._parts.glob("*.json")):
            rows |= json.loads(part.read_text("utf-8"))
        return rows

    def has_plans(self, key: str) -> bool:
        """Whether all plans of a question are written; key: of the question."""
        return self._plans_of(key).is_file()

    def keep(self, answers: Mapping[str, Row]) -> None:
        """Write the answers of a batch by the key of their question, until the whole table is written."""
        write_whole(self._parts / f"{next(iter(answers))}.json", json.dumps(answers, allow_nan=False))

    def finish(self, rows: Sequence[Row], page: str, all_plans: bool) -> None:
        """Write the table and the page, and remove what they replace.

        all_plans: whether the plans of these questions were asked for, so that those of others go.
        """
        write_rows(self.best, rows, COLUMNS)
        write_whole(self.page, page)
        wanted = {self._plans_of(row["question"]) for row in rows} if all_plans else set()
        _remove(file for file in self.plans.glob(f"*{SUFFIX}") if all_plans and file not in wanted)
        _remove(self._parts.glob("*.json"))
        self._parts.rmdir()

    def _plans_of(self, key: str) -> Path:
        return self.plans / f"{key}{SUFFIX}"


@contextmanager
def opened(out: str | Path, all_plans: bool) -> Iterator[SweepFolder]:
    """The directory of a sweep, made where it is not there, which no other sweep writes to meanwhile.

    all_plans: whether it gets a folder for them. Raises `InvalidInput` where it cannot be written to, or another sweep
    is at work in it.
    """
    if not str(out).strip():
        raise InvalidInput("--out is an empty name; it must be the path of a directory to write")
    path = Path(os.path.realpath(out))
    try:
        for folder in (path, path / PARTS, *([path / PLANS] if all_plans else [])):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    try:
        with _locked(path):
            _remove(file for folder in (path, path / PARTS, path / PLANS) for file in folder.glob(f".*{TEMPORARY}"))
            yield SweepFolder(path)
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise _unwritable(out, error) from None


def _unwritable(out: str | Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"--out {str(out)!r} cannot be a directory to write to: {error.strerror}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Locks end with the process that holds them, however it ends; where the system has none, nothing is locked."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (path / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(f"another sweep writes to {str(path)!r}; wait for it, or give another --out") from None
        except OSError:
            pass
        yield


def _remove(files: Iterable[Path]) -> None:
    for file in [*files]:
        with suppress(FileNotFoundError):
            file.unlink()
