"""Files: JSON objects read with clear errors, and answers written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from meshwright.errors import InvalidInput


def read_object(source: str | Path, what: str) -> dict[str, Any]:
    """The object in a JSON file; `what` names it in errors.

    Raises `InvalidInput` for a file that cannot be read, is not JSON, holds no object or gives one key twice.
    """
    path = Path(source)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"{what} {str(path)!r} cannot be read: {reason}") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except InvalidInput as error:
        raise InvalidInput(f"{what} {str(path)!r}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} {str(path)!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} {str(path)!r} holds a JSON {type(value).__name__}; it must be an object, {{...}}")
    return value


def writable(output_file: str | Path) -> Path:
    """The path that an answer will be written to, links followed.

    Raises `InvalidInput` if its folder does not exist or cannot be written to, or if it is there and no plain file.
    """
    if not str(output_file).strip():
        raise InvalidInput("output_file is an empty name; it must be the path of a file to write")
    try:
        path = Path(os.path.realpath(output_file))
        folder, taken = path.parent.is_dir(), path.exists() and not path.is_file()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"output_file {str(output_file)!r} is not a path: {error}") from None
    if not folder:
        raise InvalidInput(f"output_file {str(output_file)!r}: the directory {str(path.parent)!r} does not exist")
    if taken:
        raise InvalidInput(f"output_file {str(output_file)!r} is there and is not a plain file; give a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(f"output_file {str(output_file)!r}: the directory {str(path.parent)!r} is not writable")
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all: beside it first, then moved into its place.

    path: as `writable` returned it. Raises `InvalidInput` if the disk refuses; the old file is then untouched.
    """
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InvalidInput(f"output_file {str(path)!r} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidInput(f"the key {key!r} stands there twice; it must stand once")
    return dict(pairs)
