"""Text files: those of users, read whole up to a limit, tables of the package, and CSV that spreadsheets open."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from meshwright.errors import InvalidInput

MOST_BYTES = 64 * 2**20
"""Far more than any configuration, plan file or table of runs holds."""

FORMULA = re.compile(r"[=+@\t\r-](?![\d.]*(?:e[+-]?\d+)?$)", re.IGNORECASE)
"""How a field begins that a spreadsheet would compute; numbers with a sign are none."""

_TOO_MANY_DIGITS = re.compile(r"Exceeds the limit \((\d+) digits\)")


def packaged_table(package: str, path: str) -> dict[str, Any]:
    """A TOML file of this package. package: the folder that it stands in, as it is imported; path: from there."""
    return tomllib.loads(resources.files(package).joinpath(path).read_text("utf-8"))


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as CSV; a field that a spreadsheet would take as a formula stands behind an apostrophe.

    >>> csv_text(["a", "b"], [{"a": "=1+1", "b": -0.5}])
    "a,b\\n'=1+1,-0.5\\n"
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return written.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def read_text(path: Path, what: str, missing: str = "", most: int = MOST_BYTES) -> str:
    """The text of a file of at most so many bytes, however long it is.

    what: what errors call it; missing: what they add where there is no such file. Raises `InvalidInput` if there is
    none, or if it cannot be read, is larger or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise InvalidInput(f"no {what} {str(path)!r}{missing}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"cannot read the {what} {str(path)!r}: {reason}") from None
    return decoded(data, f"the {what} {str(path)!r}", most)


def or_launch_file(path: Path) -> str:
    """What errors add about a file that should hold JSON and by its name is something else.

    >>> or_launch_file(Path("run.sh")), or_launch_file(Path("config.json"))
    ('; a launch file is read with --from run.sh', '')
    """
    return "" if path.suffix.lower() in ("", ".json") else f"; a launch file is read with --from {path}"


def decoded(data: bytes, subject: str, most: int = MOST_BYTES) -> str:
    """The text in bytes, of which one more than the most shows that there are more; subject: what errors call it."""
    if len(data) > most:
        raise InvalidInput(f"{subject} is larger than {most:,} bytes: is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = f"line {line}, byte {error.start}"
        raise InvalidInput(f"{subject} is not UTF-8 text ({place}): is it the right file?") from None


def unreadable(error: ValueError | RecursionError) -> str:
    """Why a parser of Python took no text, for a message, without its advice to programmers."""
    if isinstance(error, RecursionError):
        return "it nests too deep"
    digits = _TOO_MANY_DIGITS.match(str(error))
    return f"it holds a number of more than {int(digits[1]):,} digits" if digits else str(error)
