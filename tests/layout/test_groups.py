"""Groups: where the closed forms put the ranks of an axis, against every group's rank list written out."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.comms.group import axis_group, group
from meshwright.layout.groups import Placement, placement, stride
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.reading.cluster import read_cluster
from strategies import llama_8b, question

DEFAULT = ("tp", "cp", "ep", "dp", "pp")
PIPELINE_INSIDE = ("tp", "cp", "ep", "pp", "dp")
ORDER, AXIS = st.sampled_from([DEFAULT, PIPELINE_INSIDE]), st.sampled_from(["tp", "cp", "dp", "pp"])
DEGREE = st.integers(1, 6)
MESHES = st.fixed_dictionaries(dict.fromkeys(("tp", "cp", "dp", "pp"), DEGREE))


def _groups(degrees: dict[str, int], axis: str, order: tuple[str, ...]) -> list[list[int]]:
    """The ranks of every group of an axis: ranks are counted with the first axis of the order fastest."""
    axes = [each for each in order if each in degrees]
    coordinates = itertools.product(*(range(degrees[each]) for each in reversed(axes)))
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coordinate in enumerate(coordinates):
        others = tuple(at for each, at in zip(reversed(axes), coordinate, strict=True) if each != axis)
        groups.setdefault(others, []).append(rank)
    return list(groups.values())


def _counted(groups: list[list[int]], block: int) -> Placement:
    sizes = [Counter(rank // block for rank in ranks) for ranks in groups]
    return Placement(min(min(size.values()) for size in sizes), max(map(len, sizes)))


@given(MESHES, ORDER, AXIS)
def test_members_of_a_group_are_a_stride_apart(degrees: dict[str, int], order: tuple[str, ...], axis: str) -> None:
    distance = stride(Plan(**degrees), axis, order)
    for ranks in _groups(degrees, axis, order):
        assert ranks == [ranks[0] + distance * index for index in range(degrees[axis])]


@given(
    MESHES, st.sampled_from([DEFAULT, PIPELINE_INSIDE]), st.sampled_from(["tp", "cp", "dp", "pp"]), st.integers(1, 12)
)
def test_placement_counts_every_group_of_a_mesh_of_whole_blocks(
    degrees: dict[str, int], order: tuple[str, ...], axis: str, block: int
) -> None:
    world = math.prod(degrees.values())
    slowest = order[-1]
    degrees = degrees | {slowest: degrees[slowest] * (block // math.gcd(world, block))}
    expected = _counted(_groups(degrees, axis, order), block)
    assert (
        placement(degrees[axis], stride(Plan(**degrees), axis, order), block, math.prod(degrees.values())) == expected
    )


@pytest.mark.parametrize("plan", [Plan(tp=4, dp=19), Plan(tp=2, dp=2, pp=19), Plan(dp=38, pp=2), Plan(dp=19, pp=4)])
def test_a_last_domain_that_is_not_full_has_no_groups_beyond_the_cluster(plan: Plan) -> None:
    """76 accelerators in NVL72 domains: 72 and 4."""
    inputs = question(llama_8b(), "19x4:gb200")
    degrees = {each: getattr(plan, each) for each in ("tp", "dp", "pp")}
    for axis in ("tp", "dp", "pp"):
        expected = [_counted(_groups(degrees, axis, DEFAULT), level.size) for level in inputs.cluster.levels]
        found = axis_group(axis, plan, inputs)
        assert [Placement(*each) for each in zip(found.members, found.blocks, strict=True)] == expected, axis


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 100))
def test_members_and_blocks_hold_the_whole_group(degree: int, distance: int, block: int) -> None:
    members, blocks = placement(degree, distance, block, math.lcm(degree * distance, block))
    assert 1 <= members <= min(degree, block)
    assert 1 <= blocks <= degree
    assert blocks > 1 or members == degree
    assert blocks >= -(-degree // block)


def test_columns_are_placed_row_by_row() -> None:
    degrees, distances = (np.ravel(axis) for axis in np.meshgrid([1, 2, 3, 8, 12], [1, 3, 8, 16]))
    found = placement(degrees, distances, 8, 10**6)
    rows = [
        placement(int(degree), int(distance), 8, 10**6) for degree, distance in zip(degrees, distances, strict=True)
    ]
    assert [*zip(found.members_per_block.tolist(), found.blocks.tolist(), strict=True)] == [tuple(row) for row in rows]


def test_the_default_order_puts_data_parallel_ranks_and_the_other_puts_stages_into_a_node() -> None:
    plan, cluster = Plan(tp=4, dp=4, pp=4), read_cluster("8x8:h100")
    for order, axis in ((DEFAULT, "dp"), (PIPELINE_INSIDE, "pp")):
        assert group(4, stride(plan, axis, order), cluster).members[0] == 2
    for order, axis in ((DEFAULT, "pp"), (PIPELINE_INSIDE, "dp")):
        assert group(4, stride(plan, axis, order), cluster).members[0] == 1


def test_expert_axes_do_not_number_the_dense_grid() -> None:
    assert stride(Plan(tp=2, ep=8, etp=2, dp=16), "dp", DEFAULT) == 2


def test_a_stride_of_columns_is_the_stride_of_each_row() -> None:
    rows = [Plan(tp=2, dp=3, pp=4), Plan(tp=8, cp=2, dp=1, pp=2)]
    assert np.asarray(stride(Plans.of(rows), "pp", DEFAULT)).tolist() == [stride(row, "pp", DEFAULT) for row in rows]
