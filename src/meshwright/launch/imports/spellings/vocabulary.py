"""Vocabulary: how many entries the tokenizer has that a launch file names."""

from __future__ import annotations

import re
from functools import cache

from meshwright.errors import UnknownName
from meshwright.specs import catalog
from meshwright.specs.reading.model import read_model
from meshwright.text_files import packaged_table

_TUNED = re.compile(r"(-Instruct|-Base|-Chat|-Thinking|-BF16|-hf|-\d{4}|-v0\.\d)+$", re.IGNORECASE)
"""What follows the sizes in the names of models of one architecture."""


def vocabulary_of(names: list[str]) -> tuple[int, str] | None:
    """Entries of the vocabulary, and the name that says so: a tokenizer's class, its file or its model's name; None:
    no name is known.

    >>> vocabulary_of(["HuggingFaceTokenizer", "deepseek-ai/DeepSeek-V3"])
    (129280, 'deepseek-ai/DeepSeek-V3')
    """
    for name in names:
        for known, size in _vocabularies().items():
            if name == known or name.endswith(f"/{known}"):
                return size, name
        for each in spellings_of(name):
            try:
                return read_model(catalog.resolve("models", each)).vocab_size, name
            except UnknownName:
                continue
    return None


def spellings_of(name: str) -> list[str]:
    """A model's name, and how the catalogue may have it: without its publisher and what it was tuned for, which
    changes no architecture.

    >>> spellings_of("NousResearch/Meta-Llama-3.1-8B-Instruct")[-1]
    'Llama-3.1-8B'
    """
    last = name.rstrip("/").rpartition("/")[2]
    plain = _TUNED.sub("", last.removeprefix("Meta-"))
    return list(dict.fromkeys((name, last, last.removeprefix("Meta-"), plain)))


def model_of_class(name: str) -> str:
    """The model that a class of NeMo or of Megatron-Bridge is called after; the name itself where none is.

    >>> model_of_class("Llama31Config70B"), model_of_class("Qwen25ModelProvider1P5B"), model_of_class("T5Config")
    ('llama-3.1-70b', 'qwen2.5-1.5b', 'T5Config')
    """
    word = _squeezed(re.sub(r"Config|ModelProvider", "", name).replace("P5B", ".5B").replace("P7B", ".7B"))
    return next((each for each in catalog.names("models") if _squeezed(each) == word), name)


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _vocabularies() -> dict[str, int]:
    table: dict[str, int] = packaged_table("meshwright.launch.imports.spellings", "tokenizers.toml")["vocabularies"]
    return table
