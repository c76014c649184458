"""The one entry for models: a file, a folder, a mapping or a name of the catalogue."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from meshwright.arguments import checked
from meshwright.errors import Fault, InvalidInput, InvalidSpec, UnknownName, quoted
from meshwright.specs import catalog
from meshwright.specs.model import Model
from meshwright.specs.reading.huggingface.files import config_path, model_text, name_of, read_json
from meshwright.specs.reading.huggingface.reader import model_of_config
from meshwright.specs.reading.huggingface.refusals import refuse_name
from meshwright.specs.reading.model_names import model_id
from meshwright.specs.reading.native_model import model_of_native
from meshwright.text_files import unreadable

_ABOUT = {"aliases", "source"}


@checked
def read_model(source: str | Path | Mapping[str, Any], *, text_only: bool = False) -> Model:
    """The model behind a source.

    `source` is a `config.json`, a folder that holds one, a native TOML file
    (`meshwright.specs.reading.native_model`), the mapping of either, or a name of the catalogue such as
    `llama-3.1-70b`. A file or a folder with a `config.json` goes before a catalogue name that is spelled the
    same. `text_only` takes the language model of a multimodal config.json alone.

    Raises `InvalidInput` for what cannot be read, `InvalidSpec` with every fault of a file, `NotModelled` for an
    architecture that is not priced, `UnknownName` for what is neither a file nor in the catalogue.

    >>> read_model("llama-3.1-8b").hidden_size
    4096
    >>> model = read_model({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    ...                     "vocab_size": 50257})
    >>> model.num_layers, model.layer_kinds[0].feed_forward.ffn_size, model.tied_embeddings
    (12, 3072, True)
    """
    if isinstance(source, Mapping):
        return _of_mapping(source, text_only)
    if not str(source).strip():
        raise InvalidInput("the model is an empty name: give a config.json, a folder, a TOML file or a catalogue name")
    path = Path(source)
    if isinstance(source, Path) or _holds_model(path):
        return _of_path(path, text_only)
    return _of_name(source, path, text_only)


def _of_mapping(source: Mapping[str, Any], text_only: bool) -> Model:
    if "kinds" in source or "layers" in source:
        return model_of_native(source, subject="the model")
    label = source.get("_name_or_path") or source.get("model_type")
    name = label if isinstance(label, str) else "model"
    return model_of_config(source, name=name, subject="the config", text_only=text_only)


def _of_path(path: Path, text_only: bool) -> Model:
    file = config_path(path)
    if file.suffix.lower() != ".toml":
        return model_of_config(read_json(file), name=name_of(file), subject=str(file), text_only=text_only)
    text = model_text(file)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not TOML: {unreadable(error)}") from None
    return _of_table({"name": name_of(path), **table}, str(path), text_only)


@cache
def catalogued_model(name: str, *, text_only: bool = False) -> Model:
    """The model of the catalogue with that id or alias, whatever files there are; raises `UnknownName`."""
    id_ = model_id(name)
    return _of_table({"name": id_, **catalog.load("models", id_)}, f"catalogue entry {id_}", text_only)


def _of_name(name: str, path: Path, text_only: bool) -> Model:
    try:
        return catalogued_model(name, text_only=text_only)
    except UnknownName as error:
        if path.suffix.lower() in (".json", ".toml") or _exists(path):
            return _of_path(path, text_only)
        refuse_name(name)
        error.args = (
            f"{error}. There is no file or folder {quoted(name)} either; a path to the "
            "config.json of a decoder of plain attention, dense and expert layers works too",
        )
        raise


def _of_table(table: Mapping[str, Any], subject: str, text_only: bool) -> Model:
    fields = {key: value for key, value in table.items() if key not in _ABOUT}
    if "config" not in fields:
        return model_of_native(fields, subject=subject)
    name, config = fields.pop("name"), fields.pop("config")
    faults = [Fault(key, "is not known beside [config]") for key in fields]
    if not isinstance(name, str):
        faults.append(Fault("name", f"must be a string (given: {name!r})"))
    if not isinstance(config, Mapping):
        faults.append(Fault("config", "must be a table with the keys of a config.json"))
    if faults:
        raise InvalidSpec(subject, faults)
    return model_of_config(config, name=name, subject=subject, text_only=text_only)


def _holds_model(path: Path) -> bool:
    try:
        return path.is_file() or (path / "config.json").is_file()
    except (OSError, ValueError):
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
