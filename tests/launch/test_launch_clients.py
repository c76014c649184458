"""Launch files read back from the frameworks' own objects: degrees, micro-batches, layers, precision."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from launch_read_back import JOBS, agrees, answered, cases_of, drawn, read_back, sharded
from meshwright.answers.launch.files import LaunchFiles, launch_files
from meshwright.launch.framework import Setting
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from strategies import question

MEGATRON = Path(sys.prefix) / "megatron"
"""Where `make test-clients` puts a Megatron-core with its command line, apart from the one that pip takes by itself."""
BRIDGE = Path(sys.prefix) / "megatron-bridge"
"""Where it puts Megatron-Bridge, without what that depends on."""
NEEDS_BRIDGE = pytest.mark.skipif(
    not ((MEGATRON / "megatron").is_dir() and (BRIDGE / "megatron").is_dir()),
    reason="Megatron-Bridge is not installed: make test-clients",
)
FOUNDRY = Path(sys.prefix) / "llm-foundry"
"""Where it puts llm-foundry, likewise."""
MODELS = ("llama-3.1-8b", "llama-2-13b", "mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b")
"""Grouped queries, a query head each, experts, latent attention, norms of queries and keys."""
PRECISIONS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {"gradients": "fp32"},
    "mixtral-8x7b": {"precision": "fp8"},
    "qwen3-30b-a3b": {"precision": "fp8-delayed"},
    "deepseek-v3": {"precision": "fp8-blockwise", "sequence_length": 32768},
    "llama-3.1-70b": {"precision": "mxfp8", "sequence_length": 32768},
    "qwen3-8b": {"precision": "nvfp4"},
}
"""What Megatron-Bridge is asked of a model beside fp16 and bf16; the last two on Blackwell alone."""
ADAPTERS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {"lora_rank": 16},
    "qwen3-8b": {"lora_rank": 32, "lora_modules": ("o_proj", "down_proj")},
}
"""The adapters that it is asked for beside models."""


Read = tuple[list[LaunchFiles], list[dict[str, Any]]]
"""Files, and what a framework's own objects make of them."""


@pytest.fixture(scope="module")
def read_by_deepspeed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    """By the table that they are written from; one process reads all, as it starts slowly."""
    written = {
        "deepspeed": drawn("deepspeed", MODELS, 6),
        "megatron-deepspeed": drawn("megatron-deepspeed", ("llama-3.1-8b", "llama-2-13b", "mixtral-8x7b"), 10),
    }
    told = iter(read_back("objects_deepspeed.py", [*chain(*written.values())], tmp_path_factory.mktemp("deepspeed")))
    return {name: (files, [next(told) for _ in files]) for name, files in written.items()}


@pytest.mark.slow
@pytest.mark.clients("deepspeed")
def test_deepspeed_reads_what_was_planned(read_by_deepspeed: dict[str, Read]) -> None:
    agrees(*read_by_deepspeed["deepspeed"])


@pytest.mark.slow
@pytest.mark.clients("deepspeed")
def test_deepspeed_reads_the_json_of_megatron_deepspeed_as_planned(read_by_deepspeed: dict[str, Read]) -> None:
    written, told = read_by_deepspeed["megatron-deepspeed"]
    agrees(written, sharded(written, told))


@pytest.mark.slow
@pytest.mark.clients("accelerate")
def test_accelerate_reads_what_was_planned(tmp_path: Path) -> None:
    written = [each for each in drawn("accelerate", MODELS, 6) if each.launch.plan.zero]
    answers = read_back("objects_accelerate.py", written, tmp_path)
    for files, told in zip(written, answers, strict=True):
        plan = files.launch.plan
        fastest = [name for name, degree in (("tp", plan.tp), ("cp", plan.cp)) if degree > 1]
        assert told.pop("fastest") == (fastest or ["dp_shard"])[0], plan
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("torch")
@pytest.mark.skipif(
    not (MEGATRON / "megatron").is_dir(), reason="Megatron-core's command line is not installed: make test-clients"
)
def test_megatron_reads_what_was_planned(tmp_path: Path) -> None:
    documents = {"llama-3.1-8b": {"document_length": 512}}
    written = drawn("megatron-lm", (*MODELS, "gpt2-xl"), 5) + drawn("megatron-lm", (*documents,), 5, JOBS | documents)
    agrees(written, sharded(written, read_back("objects_megatron.py", written, tmp_path, (str(MEGATRON),))))


class ReadByBridge(NamedTuple):
    """What Megatron-Bridge makes of recipes, of those with adapters, and of the fields that people are told."""

    recipes: Read
    adapters: Read
    fields: list[dict[str, Any]]


@pytest.fixture(scope="module")
def read_by_bridge(tmp_path_factory: pytest.TempPathFactory) -> ReadByBridge:
    """One process is asked all of it, as it starts slowly; each case has a child of its own."""
    jobs, folders = JOBS | PRECISIONS, [tmp_path_factory.mktemp("bridge") for _ in range(2)]
    recipes = drawn("megatron-bridge", (*MODELS, "gpt2-xl", "deepseek-v3"), 4, jobs)
    recipes += drawn("megatron-bridge", ("llama-3.1-70b", "qwen3-8b"), 4, jobs, ("1x8:b200", "4x8:b200"))
    adapters = drawn("megatron-bridge", (*ADAPTERS,), 10, ADAPTERS)
    cases = [*cases_of(recipes, folders[0]), *cases_of(adapters, folders[1]), {"fields": sorted(_told_fields())}]
    told = answered("objects_bridge.py", cases, folders[0], (str(BRIDGE), str(MEGATRON)))
    first = len(recipes)
    return ReadByBridge((recipes, told[:first]), (adapters, told[first:-1]), told[-1:])


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@NEEDS_BRIDGE
def test_megatron_bridge_makes_of_a_recipe_what_was_planned(read_by_bridge: ReadByBridge) -> None:
    written, told = read_by_bridge.recipes
    agrees(written, sharded(written, told))


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@NEEDS_BRIDGE
def test_megatron_bridge_makes_of_a_recipe_the_adapters_that_were_planned(read_by_bridge: ReadByBridge) -> None:
    written, answers = read_by_bridge.adapters
    modules = {
        "llama-3.1-8b": ["LoRA", "linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"],
        "qwen3-8b": ["LoRA", "linear_proj", "linear_fc2"],
    }
    assert [told.pop("adapters") for told in answers] == [modules[each.launch.inputs.model.name] for each in written]
    agrees(written, sharded(written, answers))


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@NEEDS_BRIDGE
def test_megatron_bridge_has_the_fields_that_people_are_told(read_by_bridge: ReadByBridge) -> None:
    assert len(_told_fields()) > 60
    assert read_by_bridge.fields == [{"unknown": []}]


def _told_fields() -> set[str]:
    table = launch_table("megatron-bridge")
    pairs = {pair for each in table.settings for pair in _pairs(each)}
    return {
        target.partition(" = ")[0]
        for key, value in pairs
        for target in (table.recipe_targets(key, value) if key.startswith("--") else (key,))
        if not target.isupper()
    }


@pytest.mark.clients("torch", "transformers")
@pytest.mark.skipif(not (BRIDGE / "megatron").is_dir(), reason="Megatron-Bridge is not installed: make test-clients")
def test_megatron_bridge_has_the_files_that_build_models_of_its_own() -> None:
    said = " ".join(launch_table("megatron-bridge").own_models.values())
    files = re.findall(r"[a-z]\w+(?:/\w+)+\.py", said)
    assert files
    assert [file for file in files if not (BRIDGE / "megatron" / "bridge" / file).is_file()] == []


def _pairs(setting: Setting) -> Iterator[tuple[str, Any]]:
    """What a setting names, with values where it says any."""
    for values in (setting.set, *setting.choices.values()):
        yield from ((key, value if isinstance(value, str) else None) for key, value in values.items())
    yield from ((key, None) for key in (*setting.tells, *setting.unset, *setting.told))


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@pytest.mark.skipif(not (FOUNDRY / "llmfoundry").is_dir(), reason="llm-foundry is not installed: make test-clients")
def test_llm_foundry_reads_what_was_planned(tmp_path: Path) -> None:
    llama = ("llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b")
    models, clusters = (
        (*llama, "llama-3.2-3b", "phi-4", "qwen2.5-7b", "qwen2.5-72b"),
        ("1x8:h100", "4x8:h100", "16x8:h100"),
    )
    written = drawn("llm-foundry", models, 4, clusters=clusters)
    agrees(written, read_back("objects_foundry.py", written, tmp_path, (str(FOUNDRY),)))


@pytest.mark.slow
@pytest.mark.clients("torchtitan")
def test_torchtitan_reads_what_was_planned(tmp_path: Path) -> None:
    assert find_spec("torchtitan")
    models = ("llama-3.1-8b", "llama-3.2-3b", "deepseek-v2-lite", "qwen3-30b-a3b", "gpt-oss-20b")
    written = drawn("torchtitan", models, 6)
    answers = read_back("objects_torchtitan.py", written, tmp_path)
    for files, told in zip(written, answers, strict=True):
        if files.launch.plan.pp == 1:
            assert told.pop("layers") == []
        assert told.pop("dispatcher") == ("AllToAllTokenDispatcher" if files.launch.plan.ep > 1 else "none")
    agrees(written, answers)


SENT = list(product(("deepseek-v2-lite", "qwen3-30b-a3b"), ("deep_ep", "hybrid_ep")))
"""Models of experts, and the kernels that send their tokens."""


@pytest.fixture(scope="module")
def dispatchers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """What torchtitan makes of each."""
    plan = Plan(dp=8, ep=8, zero=3, micro_batch=2, num_microbatches=4, recompute=Recompute.FULL)
    written = []
    for model, kernels in SENT:
        inputs = question(read_model(model), "1x8:h100", "torchtitan", sequence_length=4096, global_batch=64)
        runtime = with_behaviours(inputs.runtime, ["dispatcher=fused", f"fused_kernels={kernels}"])
        written.append(launch_files(plan, inputs.replace(runtime=runtime), "torchtitan"))
    told = read_back("objects_torchtitan.py", written, tmp_path_factory.mktemp("sent"))
    return {case: each["dispatcher"] for case, each in zip(SENT, told, strict=True)}


@pytest.mark.slow
@pytest.mark.clients("torchtitan")
@pytest.mark.parametrize(("model", "kernels"), SENT)
def test_torchtitan_sends_tokens_as_is_priced(
    model: str, kernels: str, dispatchers: dict[tuple[str, str], str]
) -> None:
    called = {"deep_ep": "DeepEP", "hybrid_ep": "HybridEP"}[kernels]
    assert dispatchers[model, kernels] == f"{called}TokenDispatcher {2 * 4096}"
