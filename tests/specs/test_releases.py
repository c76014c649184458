"""Releases of frameworks: versions of a runtime, of which a row or a question may name one."""

from __future__ import annotations

import re

import pytest

from meshwright.errors import InvalidSpec, UnknownName
from meshwright.specs import catalog
from meshwright.specs.residuals import like
from meshwright.specs.runtime import read_runtime, releases
from strategies import llama_8b, question
from tables import shipped

EVERY = [f"{name}@{release}" for name in catalog.names("runtimes") for release in releases(name)]


@pytest.mark.parametrize("name", EVERY)
def test_a_release_says_its_version_and_its_source(name: str) -> None:
    today, release = read_runtime(name.partition("@")[0]), read_runtime(name)
    assert release.id == name
    assert release.version != today.version
    assert release.sources["release"]


def test_a_release_changes_what_its_entry_says_and_nothing_else() -> None:
    today, release = read_runtime("megatron-core"), read_runtime("mcore@nemo-25.04")
    assert (release.storage.gradient_bytes, release.storage.quantised_weights) == (2, ("fp8", "fp8-delayed"))
    assert release.memory.fragmentation_likely == 0.04
    assert release.kernels == today.kernels.replace(attention_library="cudnn-9.13")
    assert release.communication == today.communication.replace(exchanges_scores=False)
    assert release.plans == today.plans.replace(offload_modules=())
    changed = ("plans", "storage", "memory", "kernels", "communication", "sources")
    parts = {name: getattr(today, name) for name in changed}
    same = release.replace(id=today.id, version=today.version, **parts)
    assert same == today


def test_a_release_takes_what_it_leaves_out_from_the_one_that_it_is_like() -> None:
    earlier, later = (read_runtime(f"megatron-core@nemo-24.{month}") for month in ("03", "07"))
    assert later.storage == earlier.storage != read_runtime("megatron-core").storage
    assert later.version != earlier.version


def test_an_unknown_release_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown release of megatron-core 'nemo-25.03'; nearest: .*nemo-25.0"):
        read_runtime("megatron-core@nemo-25.03")
    with pytest.raises(UnknownName, match=r"unknown release of zero-bubble 'nemo-25.04'; none is known$"):
        read_runtime("zero-bubble@nemo-25.04")


def test_a_runtime_has_no_release_of_the_one_that_it_is_like() -> None:
    assert not releases("megatron-bridge").keys() & releases("megatron-core").keys()


def test_a_release_has_the_error_bars_of_its_framework() -> None:
    today, release = (question(llama_8b(), "1x8:h100", name) for name in ("megatron-core", "megatron-core@nemo-25.04"))
    assert like(release) == like(today)


def test_runs_of_a_release_are_priced_as_it() -> None:
    named = {row["runtime"] for row in shipped() if "@" in row["runtime"]}
    assert {"megatron-core@nemo-24.07", "megatron-core@nemo-25.02", "llm-foundry@composer-0.17"} <= named
    assert named <= set(EVERY)


@pytest.mark.parametrize(
    ("runtime", "cluster", "instead"),
    [
        ("pytorch-ddp@torch-1.13", "1x8:a100", ""),
        ("pytorch-ddp@torch-1.13", "1x8:l40s", ""),
        ("pytorch-ddp@torch-1.13", "1x8:h100", "pytorch-ddp"),
        ("pytorch-ddp@torch-1.13", "1x8:mi300x", ""),
        ("pytorch-ddp", "1x8:b200", ""),
        ("llm-foundry", "1x8:h100", ""),
        ("llm-foundry", "1x8:b200", "another runtime (meshwright plan"),
        ("llm-foundry@composer-0.17", "1x8:b200", "another runtime (meshwright plan"),
    ],
)
def test_a_version_older_than_the_accelerator_is_refused(runtime: str, cluster: str, instead: str) -> None:
    """With what runs in its place, which of a framework whose newest version is as old is another."""
    if not instead:
        question(llama_8b(), cluster, runtime)
        return
    said = rf"compute capability \d+, and .* has kernels up to \d\.x; use {re.escape(instead)}"
    with pytest.raises(InvalidSpec, match=said):
        question(llama_8b(), cluster, runtime)


def test_a_release_has_none_of_the_switches_that_it_lacks() -> None:
    assert "compiled" in read_runtime("pytorch-ddp").switches
    assert "compiled" not in read_runtime("pytorch-ddp@torch-1.13").switches


@pytest.mark.parametrize(
    "runtime", ["megatron-lm", "zero-bubble", "megatron-deepspeed", "megatron-deepspeed@bigscience"]
)
def test_older_forks_of_megatron_have_none_of_the_switches_of_megatron_core_for_experts(runtime: str) -> None:
    switches = read_runtime(runtime).switches
    assert "activation_fusion" in switches
    assert switches.keys().isdisjoint(("grouped_experts", "fused_experts", "permute_fusion", "canonical_lora"))
