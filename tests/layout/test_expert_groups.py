"""Groups of experts: the closed forms against the rank lists of both grids, written out as a launcher numbers them."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meshwright.cost.comms.group import axis_group
from meshwright.layout.groups import Placement, expert_data_ranks, expert_stride, placement, stride
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from strategies import llama_8b, question

DEFAULT = ("tp", "cp", "ep", "dp", "pp")
PIPELINE_INSIDE = ("tp", "cp", "ep", "pp", "dp")
ORDERS = st.sampled_from([DEFAULT, PIPELINE_INSIDE, ("ep", "tp", "cp", "dp", "pp"), ("dp", "tp", "cp", "ep", "pp")])
SMALL = st.sampled_from([1, 1, 2, 3, 4, 5, 6])
AXES = ("tp", "ep", "dp", "pp")


@st.composite
def meshes(draw: st.DrawFn) -> Plan:
    """A plan whose expert axes divide the ranks of one stage in some way, also by 3, 5 and 6."""
    tp, cp, dp, pp = (draw(SMALL) for _ in range(4))
    of_a_stage = tp * cp * dp
    etp = draw(st.sampled_from([each for each in range(1, of_a_stage + 1) if of_a_stage % each == 0]))
    ep = draw(st.sampled_from([each for each in range(1, of_a_stage // etp + 1) if of_a_stage // etp % each == 0]))
    return Plan(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp)


def _grids(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """The degrees of the dense and of the expert grid."""
    experts = {
        "tp": plan.etp,
        "cp": 1,
        "ep": plan.ep,
        "dp": plan.num_gpus // (plan.etp * plan.ep * plan.pp),
        "pp": plan.pp,
    }
    return {"tp": plan.tp, "cp": plan.cp, "ep": 1, "dp": plan.dp, "pp": plan.pp}, experts


def _groups(degrees: dict[str, int], axes: tuple[str, ...], order: tuple[str, ...]) -> list[list[int]]:
    """The ranks of every group of some axes together, the first axis of the order fastest."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, reverse in enumerate(itertools.product(*(range(degrees[each]) for each in reversed(order)))):
        at = dict(zip(reversed(order), reverse, strict=True))
        groups.setdefault(tuple(at[each] for each in order if each not in axes), []).append(rank)
    return list(groups.values())


def _counted(groups: list[list[int]], block: int) -> Placement:
    sizes = [Counter(rank // block for rank in ranks) for ranks in groups]
    return Placement(min(min(size.values()) for size in sizes), max(map(len, sizes)))


@given(meshes(), ORDERS, st.sampled_from(AXES))
def test_members_of_an_expert_group_are_a_stride_apart(plan: Plan, order: tuple[str, ...], axis: str) -> None:
    degrees = _grids(plan)[1]
    distance = expert_stride(plan, axis, order)
    for ranks in _groups(degrees, (axis,), order):
        assert ranks == [ranks[0] + distance * index for index in range(degrees[axis])]


@given(meshes())
def test_both_grids_number_the_same_ranks_and_stages(plan: Plan) -> None:
    dense, experts = _grids(plan)
    assert math.prod(dense.values()) == math.prod(experts.values()) == plan.num_gpus
    assert experts["dp"] == expert_data_ranks(plan)
    assert _groups(dense, ("pp",), DEFAULT) == _groups(experts, ("pp",), DEFAULT)
    assert expert_stride(plan, "pp", DEFAULT) == stride(plan, "pp", DEFAULT)


@given(meshes(), ORDERS, st.sampled_from(AXES), st.integers(1, 12))
def test_expert_groups_are_counted_on_blocks_that_their_degrees_need_not_divide(
    plan: Plan, order: tuple[str, ...], axis: str, block: int
) -> None:
    degrees = _grids(plan)[1]
    world = math.prod(degrees.values())
    slowest = order[-1]
    degrees = degrees | {slowest: degrees[slowest] * (block // math.gcd(world, block))}
    assume(math.prod(degrees.values()) <= 20_000)
    found = placement(degrees[axis], expert_stride(plan, axis, order), block, math.prod(degrees.values()))
    assert found == _counted(_groups(degrees, (axis,), order), block)


@pytest.mark.parametrize("order", [DEFAULT, PIPELINE_INSIDE])
@pytest.mark.parametrize("cluster", ["3x8:h100", "4x6:h100", "19x4:gb200"])
@given(data=st.data())
def test_every_expert_group_of_a_cluster_is_placed(order: tuple[str, ...], cluster: str, data: st.DataObject) -> None:
    inputs = question(llama_8b(), cluster)
    inputs = inputs.replace(runtime=inputs.runtime.replace(rank_order=order))
    ranks = inputs.cluster.num_gpus
    ways = [each for each in range(1, ranks + 1) if ranks % each == 0]
    pp = data.draw(st.sampled_from(ways))
    ep = data.draw(st.sampled_from([each for each in ways if ranks // pp % each == 0]))
    etp = data.draw(st.sampled_from([each for each in ways if ranks // pp // ep % each == 0]))
    plan = Plan(dp=ranks // pp, pp=pp, ep=ep, etp=etp)
    degrees = _grids(plan)[1]
    for axis, axes in (("ep", ("ep",)), ("etp", ("tp",)), ("edp", ("dp",)), ("ep_etp", ("tp", "ep"))):
        groups = _groups(degrees, axes, order)
        found = axis_group(axis, plan, inputs)
        assert found.ranks == len(groups[0])
        assert [*map(Placement, found.members, found.blocks)] == [
            _counted(groups, level.size) for level in inputs.cluster.levels
        ], axes


def test_megatrons_folded_groups_of_deepseek_v3() -> None:
    """tp 1, ep 64, pp 16 on 2048 accelerators: experts over 8 nodes, each held twice."""
    inputs = question(llama_8b(), "256x8:h100")
    plan = Plan(dp=128, pp=16, ep=64)
    assert axis_group("ep", plan, inputs) == (64, (8, 64), (8, 1))
    assert axis_group("edp", plan, inputs) == (2, (1, 2), (2, 1))
    assert axis_group("etp", plan, inputs).ranks == 1


def test_expert_groups_of_columns_are_those_of_each_row() -> None:
    inputs = question(llama_8b(), "4x8:h100")
    rows = [Plan(tp=2, dp=16, ep=ep, etp=etp) for ep, etp in ((1, 1), (8, 1), (4, 2), (16, 2))]
    for axis in ("ep", "etp", "ep_etp", "edp"):
        many, alone = axis_group(axis, Plans.of(rows), inputs), [axis_group(axis, row, inputs) for row in rows]
        for level in range(2):
            np.testing.assert_array_equal(many.members[level], [each.members[level] for each in alone])
            np.testing.assert_array_equal(many.blocks[level], [each.blocks[level] for each in alone])
