"""Hugging Face `config.json` to `Model`: one small class per family, exact to the last parameter or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meshwright.specs.huggingface.families import FAMILIES
from meshwright.specs.huggingface.files import config_path, name_of, read_json
from meshwright.specs.huggingface.reader import model_of_config
from meshwright.specs.model import Model

__all__ = ["FAMILIES", "from_huggingface"]


def from_huggingface(source: str | Path | Mapping[str, Any], *, text_only: bool = False) -> Model:
    """The model of a `config.json`: a file, a folder that holds one, or its mapping.

    Raises `InvalidInput` for a file that cannot be read, `InvalidSpec` with all faults of its values, `NotModelled`
    for architectures that are not priced, `UnknownName` for a `model_type` that is not read. With `text_only`, the
    language model of a multimodal file alone.

    >>> model = from_huggingface({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
    ...                           "n_positions": 1024, "vocab_size": 50257})
    >>> model.num_layers, model.layer_kinds[0].feed_forward.ffn_size, model.tied_embeddings
    (12, 3072, True)
    """
    if isinstance(source, Mapping):
        name = source.get("_name_or_path") or source.get("model_type")
        named = name if isinstance(name, str) else "model"
        return model_of_config(source, name=named, subject="the config", text_only=text_only)
    path = config_path(Path(source))
    return model_of_config(read_json(path), name=name_of(path), subject=str(path), text_only=text_only)
