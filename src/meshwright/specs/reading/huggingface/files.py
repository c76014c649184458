"""Reading a config.json from disk, and saying what is wrong with it in the user's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meshwright.errors import InvalidInput
from meshwright.text_files import or_launch_file, read_text, unreadable


def config_path(path: Path) -> Path:
    """The config.json behind a path: the file itself, or the one in a folder; raises `InvalidInput`."""
    try:
        if not path.is_dir():
            path.stat()
            return path
        inside = path / "config.json"
        if inside.is_file():
            return inside
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"{path} does not exist: give a config.json or a folder that holds one") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error}") from None
    raise InvalidInput(f"{path} is a folder without a config.json: give the file, or a folder that holds one")


def name_of(path: Path) -> str:
    """What a model is called by its file: the folder of a `config.json`, else the file without its ending."""
    return path.resolve().parent.name if path.name == "config.json" else path.stem


def model_text(path: Path) -> str:
    """The text of a file about a model; raises `InvalidInput` if it cannot be read, is empty or is not UTF-8."""
    text = read_text(path, "model file")
    if not text.strip():
        raise InvalidInput(f"{path} is empty")
    return text


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; raises `InvalidInput` with line and column of what is malformed."""
    text = model_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"{path} is not JSON: {where}{or_launch_file(path)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not a config.json: {unreadable(error)}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} holds a JSON {type(value).__name__}: a config.json is an object, {{...}}")
    return value
