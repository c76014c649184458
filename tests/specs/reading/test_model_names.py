"""Names of models: as the hub, a fine-tune or a hurried reader writes them."""

from __future__ import annotations

import pytest

from meshwright.errors import UnknownName
from meshwright.specs import catalog
from meshwright.specs.reading.model_names import model_id

WRITTEN = {
    "Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "LLAMA 3.1 8b": "llama-3.1-8b",
    "qwen3-235b": "qwen3-235b-a22b",
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral-8x7b",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek-v3",
    "google/gemma-3-27b-it": "gemma-3-27b",
}


@pytest.mark.parametrize(("written", "id_"), WRITTEN.items())
def test_a_name_of_the_hub_is_the_model_that_it_was_tuned_from(written: str, id_: str) -> None:
    assert model_id(written) == id_


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_id_and_alias_is_itself(name: str) -> None:
    for alias in (name, *catalog.load("models", name).get("aliases", ())):
        assert model_id(alias) == name


@pytest.mark.parametrize("name", ["gpt-oss", "llama-3.1", "mistral-7b-v0.3", "instruct", "", "/"])
def test_what_names_several_models_or_none_is_refused(name: str) -> None:
    with pytest.raises(UnknownName):
        model_id(name)


def test_the_nearest_are_looked_for_among_aliases_too() -> None:
    with pytest.raises(UnknownName, match="nearest: gpt-oss-20b, gpt-oss-120b"):
        model_id("gpt-oss")
    with pytest.raises(UnknownName, match=r"nearest: .*llama-3\.1-70b"):
        model_id("llama-3.3-71b")
