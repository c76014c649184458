"""Node-limited routing: the ranks and nodes that a token reaches when its experts lie in some groups alone."""

from __future__ import annotations

import numpy as np
import pytest

from exchange_times import token_times
from meshwright.cost.comms.experts import fused_traffic
from meshwright.cost.comms.group import all_to_all_traffic, axis_group
from meshwright.cost.routing import reached_blocks
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind
from meshwright.specs.reading.model import read_model
from strategies import mixture, question

V3 = Experts(count=256, active=8, ffn_size=2048, groups=8, active_groups=4)
V2 = Experts(count=160, active=6, ffn_size=1536, groups=8, active_groups=3)
GATES = {"V3": (V3, 2), "V2": (V2, 1)}
"""Experts, and how many of a group's best scores make the group's own (arXiv:2412.19437; arXiv:2405.04434)."""


def _chosen(experts: Experts, best: int, tokens: int = 4000) -> np.ndarray:
    """The experts that the gate gives every token, of independent scores, shape (tokens, active)."""
    scores = np.random.default_rng(1).standard_normal((tokens, experts.groups, experts.count // experts.groups))
    groups = np.sort(scores, axis=2)[:, :, -best:].sum(axis=2).argsort(axis=1)[:, : -experts.active_groups]
    np.put_along_axis(scores, groups[:, :, None], -np.inf, axis=1)
    return scores.reshape(tokens, -1).argsort(axis=1)[:, -experts.active :]


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 16, 32])
def test_a_token_reaches_as_many_blocks_as_its_gate_chooses(gate: str, blocks: int) -> None:
    experts, best = GATES[gate]
    visited = _chosen(experts, best) * blocks // experts.count
    counted = np.mean([len(set(row)) for row in visited.tolist()])
    assert reached_blocks(experts, blocks) == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize("active_groups", range(1, 9))
@pytest.mark.parametrize("blocks", [4, 8, 32])
def test_any_other_number_of_groups_is_near_what_a_gate_chooses(active_groups: int, blocks: int) -> None:
    experts = V3.replace(active_groups=active_groups)
    visited = _chosen(experts, 8 // active_groups) * blocks // experts.count
    counted = np.mean([len(set(row)) for row in visited.tolist()])
    assert reached_blocks(experts, blocks) == pytest.approx(counted, rel=0.05)


@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_as_many_groups_as_there_are_limit_nothing(groups: int) -> None:
    free = V3.replace(groups=1, active_groups=1)
    blocks = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])
    limited = V3.replace(groups=groups, active_groups=groups)
    np.testing.assert_allclose(reached_blocks(limited, blocks), reached_blocks(free, blocks), rtol=1e-12)


def test_blocks_that_hold_whole_groups_are_no_more_than_the_active_ones() -> None:
    for active in range(1, 8):
        experts = V3.replace(active_groups=active)
        assert all(reached_blocks(experts, blocks) <= min(active, blocks) + 1e-9 for blocks in (1, 2, 3, 4, 8))


def test_fewer_groups_never_reach_more() -> None:
    blocks = np.array([1, 2, 3, 5, 8, 12, 16, 64, 256])
    reached = np.array([reached_blocks(V3.replace(active_groups=active), blocks) for active in range(1, 8)])
    assert (np.diff(reached, axis=0) >= -1e-9).all()
    assert (reached <= 8 + 1e-9).all()


def _asked(experts: Experts, dispatcher: str) -> tuple[Inputs, LayerKind]:
    kind = mixture().layer_kinds[0].replace(feed_forward=experts)
    inputs = question(mixture().replace(layer_kinds=(kind,)), "8x8:h100")
    return inputs.replace(runtime=inputs.runtime.replace(dispatcher=dispatcher)), kind


def test_a_fused_dispatch_over_8_nodes_leaves_the_node_for_4_of_them_at_most() -> None:
    """Experts 32 i to 32 i + 31 are a group and lie on one node of 8 ranks."""
    plan, free = Plan(dp=64, ep=64), V3.replace(groups=1, active_groups=1)
    (limited, kind), (wide, other) = _asked(V3, "fused"), _asked(free, "fused")
    bytes_each = 2.0 * limited.model.hidden_size
    assert fused_traffic(plan, limited, kind, 1, 2).across[0] == pytest.approx(bytes_each * 4 * 7 / 8)
    assert fused_traffic(plan, wide, other, 1, 2).across[0] == pytest.approx(bytes_each * 5.2947 * 7 / 8, rel=1e-4)
    times = [token_times(plan, inputs, each, 65536, 2) for inputs, each in ((limited, kind), (wide, other))]
    assert times[0].dispatch < 0.8 * times[1].dispatch


def test_an_all_to_all_sends_every_copy_whatever_the_groups() -> None:
    plan, free = Plan(dp=64, ep=64), V3.replace(groups=1, active_groups=1)
    (limited, kind), (wide, other) = _asked(V3, "all_to_all"), _asked(free, "all_to_all")
    times = [token_times(plan, inputs, each, 4096, 2) for inputs, each in ((limited, kind), (wide, other))]
    assert times[0] == times[1]
    traffic = all_to_all_traffic(2.0 * 8, axis_group("ep", plan, limited))
    assert traffic.across[0] == 2.0 * 8 * 7 / 8


@pytest.mark.parametrize(
    ("name", "groups"),
    [("deepseek-v3", (8, 4)), ("deepseek-v2", (8, 3)), ("deepseek-v2-lite", (1, 1)), ("kimi-k2", (1, 1))],
)
def test_catalogued_models_have_the_groups_of_their_routers(name: str, groups: tuple[int, int]) -> None:
    blocks = [kind.feed_forward for kind in read_model(name).layer_kinds if isinstance(kind.feed_forward, Experts)]
    assert {(block.groups, block.active_groups) for block in blocks} == {groups}
