"""Runtimes: every catalogued one loads, names rules that exist, and contradictions are refused."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec
from meshwright.layout.legality import RULES
from meshwright.layout.legality.demands import DEMANDS
from meshwright.specs import catalog
from meshwright.specs.runtime import read_runtime


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_every_runtime_loads_with_its_sources_and_known_rules(name: str) -> None:
    runtime = read_runtime(name)
    assert runtime.id == name
    assert runtime.sources
    assert {reference.name for reference in runtime.rules} <= set(RULES)
    assert {reference.name for reference in runtime.demands} <= set(DEMANDS)
    assert all(reference.source for reference in (*runtime.rules, *runtime.demands))


def test_every_rule_and_every_demand_is_some_runtimes() -> None:
    runtimes = [read_runtime(name) for name in catalog.names("runtimes")]
    assert {reference.name for runtime in runtimes for reference in runtime.rules} == set(RULES)
    assert {reference.name for runtime in runtimes for reference in runtime.demands} == set(DEMANDS)


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_a_runtime_lists_a_rule_or_a_demand_once(name: str) -> None:
    runtime = read_runtime(name)
    for listed in (runtime.rules, runtime.demands):
        assert len({reference.name for reference in listed}) == len(listed)


def test_no_alias_means_two_runtimes() -> None:
    names = [alias for name in catalog.names("runtimes") for alias in (name, *read_runtime(name).aliases)]
    assert len(names) == len(set(names))


def test_a_runtime_like_another_keeps_what_it_does_not_say() -> None:
    early, core = read_runtime("megatron-lm"), read_runtime("megatron-core")
    assert early.attention_kernel == "eager"
    assert early.memory == core.memory


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cross_entropy": "nope"}, "'nope' is not among cross_entropies: unfused, fused"),
        ({"rank_order": ("tp", "tp")}, "must hold each of tp, cp, ep, dp, pp once"),
        ({"zero_stages": ()}, "zero_stages"),
        ({"weights": "full"}, r"\[0, 1\] must be of \[0, 2, 3\] where weights is full"),
        ({"elementwise": "nope"}, "'nope' is not among elementwise_kernels: fused, eager, transformers"),
        ({"host_s_per_layer": float("inf")}, "host_s_per_layer"),
        ({"weight_gradient_slowdown": 0.5}, "weight_gradient_slowdown"),
        ({"gradient_bytes": 3}, "gradient_bytes"),
    ],
)
def test_a_contradictory_runtime_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        read_runtime("megatron-core").replace(**changes)
