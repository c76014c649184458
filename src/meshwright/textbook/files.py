"""Files: JSON objects read with clear errors."""

from __future__ import annotations

import json
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidInput(f"the key {key!r} stands there twice; it must stand once")
    return dict(pairs)
