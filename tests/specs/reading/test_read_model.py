"""The one entry for models: what it accepts, and what it says of everything else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec, UnknownName
from meshwright.specs import catalog
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count

GPT2 = {
    "model_type": "gpt2",
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 8,
    "vocab_size": 100,
    "tie_word_embeddings": True,
}
NATIVE = {
    "name": "tiny",
    "hidden_size": 64,
    "vocab_size": 100,
    "layers": 2,
    "kinds": {"dense": {"attention": {"heads": 4}, "mlp": {"ffn_size": 96}}},
}
NATIVE_TOML = """
name = "tiny"
hidden_size = 64
vocab_size = 100
layers = 2

[kinds.dense]
attention = { heads = 4 }
mlp = { ffn_size = 96 }
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(source: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_model(source)
    return str(caught.value)


def test_a_file_a_folder_and_a_mapping_are_one_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-gpt"
    folder.mkdir()
    path = written(folder, "config.json", json.dumps(GPT2))
    models = [read_model(source) for source in (path, str(path), folder, str(folder))]
    assert [model.name for model in models] == ["my-gpt"] * 4
    assert {model.replace(name="gpt2") for model in models} == {read_model(GPT2)}


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    assert read_model(written(tmp_path, "bom.json", b"\xef\xbb\xbf" + json.dumps(GPT2).encode())).num_layers == 2


def test_a_native_file_and_its_mapping_are_one_model(tmp_path: Path) -> None:
    assert read_model(written(tmp_path, "tiny.toml", NATIVE_TOML)) == read_model(NATIVE)


def test_a_native_file_without_a_name_is_called_by_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, "other.toml", NATIVE_TOML.replace('name = "tiny"', 'source = "none"'))
    assert read_model(path).name == "other"


def test_a_toml_file_may_hold_a_config_table(tmp_path: Path) -> None:
    table = "[config]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in GPT2.items())
    assert read_model(written(tmp_path, "gpt2.toml", table)) == read_model(GPT2)


@pytest.mark.parametrize(
    ("text", "where"),
    [("layers = 2\n[config]\nmodel_type = 'gpt2'", "layers"), ("config = 3", "config"), ("name = 3\n[config]", "name")],
)
def test_a_config_table_stands_alone(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        read_model(written(tmp_path, "bad.toml", text))
    assert [fault.where for fault in caught.value.faults] == [where]


@pytest.mark.parametrize("name", ["llama-3.1-8b", "LLAMA_3.1_8B", "llama3.1-8b", "meta-llama/Llama-3.1-8B"])
def test_a_catalogue_name(name: str) -> None:
    model = read_model(name)
    assert (model.name, parameter_count(model)) == ("llama-3.1-8b", 8_030_261_248)


def test_a_local_model_goes_before_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert read_model("gpt2").num_layers == 12
    written(tmp_path / "gpt2", "config.json", json.dumps(GPT2))
    assert read_model("gpt2").num_layers == 2


def test_a_name_that_is_nowhere() -> None:
    with pytest.raises(UnknownName) as caught:
        read_model("llama-3.1-80b")
    assert "unknown model 'llama-3.1-80b'; nearest: llama-3.1-8" in str(caught.value)
    assert "There is no file or folder 'llama-3.1-80b' either" in str(caught.value)


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(UnknownName):
        read_model(name)


def test_an_empty_name() -> None:
    assert "empty name" in refusal("  ")


def test_a_missing_file(tmp_path: Path) -> None:
    for source in (tmp_path / "none.json", str(tmp_path / "none.json"), str(tmp_path / "none.toml")):
        assert f"{source} does not exist" in refusal(source)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    for source in (tmp_path, str(tmp_path)):
        assert "is a folder without a config.json" in refusal(source)


@pytest.mark.parametrize("name", ["config.json", "model.toml"])
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b" \n\t ", "is empty"),
        (b"\x80\x03}q\x00", "is not UTF-8 text (line 1, byte 0)"),
        ('{"a": 1'.encode("utf-16"), "is not UTF-8 text (line 1, byte 0)"),
    ],
)
def test_a_file_without_text(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = written(tmp_path, name, content)
    assert re.search(rf"{re.escape(str(path))}'? {re.escape(what)}", refusal(path))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{\n  "hidden_size": 1,\n}', "at line 3, column 1"),
        ('{"hidden_size": ', "at line 1, column 17"),
        ("PK\x03\x04 junk", "at line 1, column 1"),
        ("[1, 2]", "holds a JSON list: a config.json is an object"),
        ("null", "holds a JSON NoneType"),
        ("[" * 100_000, "is not a config.json"),
        ('{"a": 1' + "0" * 5000 + "}", "is not a config.json"),
    ],
)
def test_json_that_is_no_config(tmp_path: Path, text: str, what: str) -> None:
    path = written(tmp_path, "config.json", text)
    message = refusal(path)
    assert what in message
    assert str(path) in message


def test_malformed_toml(tmp_path: Path) -> None:
    assert "is not TOML: " in refusal(written(tmp_path, "model.toml", "name = \n"))
    assert "line 1" in refusal(written(tmp_path, "model.toml", "name = \n"))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, "config.json", "{}")
    monkeypatch.setattr(Path, "open", denied)
    assert f"cannot read the model file '{path}': Permission denied" in refusal(path)


def test_a_config_without_a_type(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "config.json", '{"hidden_size": 64}'))
    assert "model_type: is missing" in message


@pytest.mark.parametrize("name", catalog.names("models"))
def test_a_catalogue_entry_is_a_model_with_a_source(name: str) -> None:
    assert read_model(name).name == name
    assert "http" in catalog.load("models", name)["source"] or "arXiv" in catalog.load("models", name)["source"]


def test_no_alias_stands_for_two_models() -> None:
    entries = {name: catalog.load("models", name).get("aliases", []) for name in catalog.names("models")}
    spelled = [alias.lower().replace("_", "-") for name, aliases in entries.items() for alias in (name, *aliases)]
    assert len(spelled) == len(set(spelled))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt-3-175b", 174_604_259_328),
        ("deepseek-v2-lite", 15_706_484_224),
        ("moonlight-16b-a3b", 15_960_108_544),
        ("llama-2-70b", 68_976_648_192),
        ("mistral-7b", 7_241_732_096),
        ("qwen2.5-72b", 72_706_203_648),
        ("gemma-2-27b", 27_227_128_320),
        ("gpt2-xl", 1_557_611_200),
        ("gpt-neox-20b", 20_554_567_680),
        ("falcon-7b", 6_921_720_704),
        ("phi-4", 14_659_507_200),
    ],
)
def test_a_catalogue_entry_has_the_published_parameters(name: str, parameters: int) -> None:
    assert parameter_count(read_model(name)) == parameters
