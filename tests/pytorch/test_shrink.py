"""Plans shrunken to a few processes: what stays of them, and what cannot be run."""

from __future__ import annotations

import pytest

from meshwright.errors import CannotVerify
from meshwright.layout.legality import require_legal
from meshwright.layout.plan import Plan
from meshwright.layout.splits import layers_of_chunks
from meshwright.pytorch.planned.spans import names_of_groups, ranks_of_axes
from meshwright.pytorch.real_world.shrink import shrunken
from meshwright.schedules.records import Schedule
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts
from strategies import dense_model, latent, llama_8b, llama_70b, mixture, question, questions, some_legal_plans


def _asked(model: object = None) -> Inputs:
    return question(model or llama_70b(), "8x8:h100", "torchtitan")  # type: ignore[arg-type]


BIG = Plan(tp=8, sp=True, pp=4, dp=2, zero=3, num_microbatches=16, micro_batch=4, recompute="full")


def test_axes_get_two_ranks_each_in_their_order() -> None:
    small = shrunken(BIG, _asked(), 4)
    assert (small.plan.pp, small.plan.tp, small.plan.dp, small.plan.num_gpus) == (2, 2, 1, 4)
    assert small.plan.sp
    assert small.left_out == ("dp 2: not run with 4 processes",)
    assert shrunken(BIG, _asked(), 2).left_out == (
        "tp 8: not run with 2 processes",
        "dp 2: not run with 2 processes",
    )


def test_what_is_no_degree_stays() -> None:
    plan = shrunken(BIG, _asked(), 2).plan
    assert (plan.recompute, plan.zero, plan.micro_batch, plan.num_microbatches) == (Recompute.FULL, 3, 2, 4)
    interleaved = Plan(pp=4, vpp=4, dp=16, zero=2, schedule="interleaved", num_microbatches=8)
    plan = shrunken(interleaved, _asked(), 4).plan
    assert (plan.schedule, plan.vpp, plan.zero) == (Schedule.INTERLEAVED, 2, 2)
    assert shrunken(interleaved, _asked(), 3).plan.pp == 3


def test_one_axis_alone_gets_four() -> None:
    for axis in ("tp", "cp", "pp", "dp"):
        plan = Plan(zero=3, num_microbatches=8, context_exchange="all_gather", **{axis: 64})
        assert getattr(shrunken(plan, _asked(), 4).plan, axis) == 4
    replicated = shrunken(Plan(dp=64, dp_replicate=8, zero=3), _asked(), 4).plan
    assert (replicated.dp, replicated.dp_replicate) == (4, 2)


def test_experts_take_their_ranks_from_other_axes() -> None:
    asked = _asked(mixture())
    small = shrunken(Plan(dp=64, ep=8, zero=3), asked, 2)
    (kind,) = small.inputs.model.layer_kinds
    assert small.plan.ep == 2
    assert isinstance(kind.feed_forward, Experts)
    assert (kind.feed_forward.count, kind.feed_forward.active) == (4, 2)
    assert shrunken(Plan(dp=64, ep=8, zero=3), asked, 3).left_out == ("ep 8: not run with 3 processes",)


def test_a_small_model_keeps_the_kinds_of_its_layers() -> None:
    model = dense_model(qk_norm="head", tied_embeddings=True, qkv_bias=True, activation="gelu", kv_heads=16)
    small = shrunken(Plan(dp=64, zero=3), _asked(model), 2).inputs.model
    (kind,) = small.layer_kinds
    attention = kind.attention
    assert small.tied_embeddings
    assert (attention.qk_norm, attention.qkv_bias, attention.heads) == ("head", True, attention.kv_heads)
    assert kind.feed_forward.activation == "gelu"
    assert shrunken(Plan(dp=64, zero=3), _asked(latent()), 2).inputs.model.layer_pattern == (0, 1, 1, 1)


def _fills(plan: Plan, processes: int) -> bool:
    """Whether one axis is that long, or two are split."""
    degrees = [plan.pp, plan.dp // plan.dp_replicate, plan.dp_replicate]
    if processes == 3:
        return max(degrees) >= 3
    degrees += [plan.tp, plan.cp]
    return max(degrees) >= processes or sum(degree > 1 for degree in degrees) > 1


@pytest.mark.parametrize("name", ["llama on h100, torchtitan", "mixtral-like on h100, torchtitan"])
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_shrunken_plans_are_legal_and_fill_every_chunk(name: str, processes: int) -> None:
    inputs = questions()[name]
    for plan in some_legal_plans(name, 60):
        if not _fills(plan, processes):
            with pytest.raises(CannotVerify, match=f"--real {processes}"):
                shrunken(plan, inputs, processes)
            continue
        small = shrunken(plan, inputs, processes)
        require_legal(small.plan, small.inputs)
        assert small.plan.num_gpus == processes == small.inputs.cluster.num_gpus
        assert layers_of_chunks(small.inputs, small.plan).min() >= 1


@pytest.mark.parametrize(
    ("plan", "processes", "told"),
    [
        (Plan(dp=64, zero=3), 5, "trained with 2 to 4 processes"),
        (Plan(dp=64, zero=3), 1, "trained with 2 to 4 processes"),
        (Plan(), 2, "one rank: there is nothing to compare"),
        (Plan(tp=2, sp=True), 4, "tp 2, which fills 2 processes; use --real 2"),
        (Plan(tp=8, cp=8), 3, "needs pp or dp of 3 or more, but the plan has tp 8 and cp 8"),
    ],
)
def test_what_cannot_be_run_is_said(plan: Plan, processes: int, told: str) -> None:
    with pytest.raises(CannotVerify, match=told):
        shrunken(plan, _asked(llama_8b()), processes)


def test_axes_over_the_same_ranks_go_by_one_name() -> None:
    assert names_of_groups(Plan(dp=2, ep=2)) == {"dp": "dp/ep", "ep": "dp/ep"}
    plan = Plan(pp=2, dp=4, dp_replicate=2, cp=2, tp=2, ep=4)
    for rank in range(plan.num_gpus):
        spans = ranks_of_axes(plan, rank)
        assert all(rank in ranks for ranks in spans.values())
        assert {axis: len(ranks) for axis, ranks in spans.items()} == {
            "pp": 2,
            "dp_replicate": 2,
            "dp": 4,
            "tp": 2,
            "cp": 2,
            "edp": 2,
            "ep": 4,
        }
        assert names_of_groups(plan, rank) == names_of_groups(plan)
