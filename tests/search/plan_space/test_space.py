"""Space: every plan that could be legal is in it, once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from meshwright.cost.compute.layer import layer_time
from meshwright.cost.memory.activations import layer_memory
from meshwright.layout.groups import context_split
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import COLUMNS, Plans
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.search.plan_space.modules import module_sets
from meshwright.search.plan_space.space import SHORTEST_SLICE, size, space
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import RecomputeModules, names_of
from strategies import dense_model, gpt_like, inputs, latent, legal_plans, llama_8b, mixture, question, questions

SMALL = {
    "8 ranks": question(dense_model(layers=6, heads=8, kv_heads=4), "1x8:h100", global_batch=6, sequence_length=8192),
    "6 ranks": question(dense_model(layers=6, heads=12, kv_heads=6), "2x3:h100", global_batch=12, sequence_length=513),
    "megatron-lm": question(gpt_like().replace(layer_pattern=(0,) * 4), "1x8:v100", "megatron-lm", global_batch=8),
    "odd batch": question(dense_model(layers=4, heads=4, kv_heads=2), "1x4:h100", global_batch=6, sequence_length=512),
}


def _rows(plans: Plans) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(plans, name).tolist() for name in COLUMNS), strict=True))


def _everything(given: Inputs) -> Plans:
    """Every plan of a small world that uses what the runtime has, legal or not, field by field."""
    world, batch, layers = given.cluster.num_gpus, given.job.global_batch, given.model.num_layers
    degrees = [split for split in itertools.product(range(1, world + 1), repeat=4) if np.prod(split) == world]
    degrees = [split for split in degrees if split[1] == 1 or split[1] * SHORTEST_SLICE <= given.job.sequence_length]
    exchanges = given.runtime.plans.context_exchanges or ("ring",)
    recompute = [each for each in Recompute if each.name.lower() in given.runtime.plans.recompute]
    flags = (False, True) if given.runtime.plans.sequence_parallel else (False,)
    ends = given.runtime.plans.ends_as_layers
    counts = range(1, batch + 1)
    known = [code for code, name in SCHEDULE_NAMES.items() if name in given.runtime.plans.schedules]
    choices = itertools.product(degrees, range(1, layers + 2), counts, counts, recompute, flags, known, ends, ends)
    names = ("vpp", "micro_batch", "num_microbatches", "recompute", "sp", "schedule")
    names += ("embedding_as_layer", "head_as_layer")
    return Plans.of(
        Plan(
            tp=tp,
            cp=cp,
            context_exchange=exchange,
            pp=pp,
            dp=dp,
            zero=zero,
            dp_replicate=replicas,
            recompute_modules=_modules(given, chosen[3]),
            microbatch_group=group,
            **dict(zip(names, chosen, strict=True)),
        )
        for (tp, cp, pp, dp), *chosen in choices
        if chosen[1] * chosen[2] * dp == batch and _least_for_its_chunk(layers + sum(chosen[-2:]), pp, chosen[0])
        for exchange in (exchanges if cp > 1 else exchanges[:1])
        if cp == 1 or exchange != "hierarchical" or 1 < _inside(given, tp, cp) < cp
        for zero in (given.runtime.plans.zero_stages if dp * cp > 1 or given.runtime.plans.shards_one_rank else (0,))
        for replicas in (range(1, dp + 1) if zero and given.runtime.plans.hybrid_sharding else (1,))
        for group in _groups(given, pp, chosen[0], chosen[2])
        if dp % replicas == 0 and (replicas == 1 or _ends_with_a_level(given, tp, dp * cp // replicas))
    )


def _groups(given: Inputs, pp: int, vpp: int, count: int) -> list[int]:
    """The least group in which interleaving can work on a number of micro-batches; 0 where pp itself is one."""
    if vpp == 1 or pp == 1 or count % pp == 0 or given.runtime.id != "megatron-core":
        return [0]
    return [size for size in range(pp, count + 1) if all(last >= pp for last in _parts(count, size))][:1] or [0]


def _parts(count: int, size: int) -> list[int]:
    return [min(size, count - start) for start in range(0, count, size)]


def _least_for_its_chunk(layers: int, pp: int, vpp: int) -> bool:
    """Whether all chunks are alike, or fewer would make the largest one larger and no end counted makes them alike."""
    if layers % pp == 0:
        return layers // pp % vpp == 0
    if pp > 1 and any((layers + ends) % pp == 0 for ends in (1, 2)):
        return False
    return vpp == 1 or -(-layers // (pp * vpp)) < -(-layers // (pp * (vpp - 1)))


def _modules(given: Inputs, recompute: Recompute) -> RecomputeModules:
    """Of a dense model: the attention core where its scores are in memory, else the block."""
    fused = given.runtime.kernels.attention_kernel != "eager"
    chosen = fused and recompute == Recompute.SELECTIVE
    return RecomputeModules.MLP if chosen else RecomputeModules.CORE_ATTENTION


def _inside(given: Inputs, tp: int, cp: int) -> int:
    """Context-parallel ranks of one group that share a scale-up domain, where every domain has as many."""
    return context_split(Plan(tp=tp, cp=cp, context_exchange="hierarchical"), given).heads


def _ends_with_a_level(given: Inputs, tp: int, ranks: int) -> bool:
    """Whether a sharding group of two or more ranks fills a block of some level of links."""
    return ranks > 1 and tp * ranks in {level.size for level in given.cluster.levels}


@pytest.mark.parametrize("name", SMALL)
def test_every_legal_plan_of_a_small_world_is_in_the_space(name: str) -> None:
    given = SMALL[name]
    everything = _everything(given)
    legal = everything.take(check(everything, given).legal)
    assert set(_rows(legal)) == set(_rows(legal_plans(given)))


@settings(max_examples=60)
@given(inputs())
def test_no_plan_is_in_the_space_twice_and_all_multiply_to_the_world(given: Inputs) -> None:
    rows = _rows(Plans.join(space(given)))
    assert len(rows) == len(set(rows)) == size(given)
    plans = Plans.join(space(given))
    assert (plans.tp * plans.cp * plans.pp * plans.dp == given.cluster.num_gpus).all()
    assert all((getattr(plans, name) >= 1).all() for name in ("micro_batch", "num_microbatches", "vpp"))


@pytest.mark.parametrize("name", questions())
def test_the_space_uses_only_what_the_runtime_has(name: str) -> None:
    given = questions()[name]
    plans, runtime = Plans.join(space(given)), given.runtime
    assert set(plans.zero) <= {*runtime.plans.zero_stages, 0}
    assert runtime.plans.sequence_parallel or not plans.sp.any()
    assert set(plans.recompute) == {code for code in Recompute if code.name.lower() in runtime.plans.recompute}
    plain = plans.recompute_modules == RecomputeModules.CORE_ATTENTION
    assert (plain | (plans.recompute == Recompute.SELECTIVE)).all()
    assert runtime.plans.recompute_modules or plain.all()
    only_plain = given.replace(runtime=runtime.replace(schedules=("1f1b",)))
    assert all((table.vpp == 1).all() for table in space(only_plain))


def looped(given: Inputs) -> Inputs:
    """The question with experts that run one after the other."""
    return given.replace(runtime=with_behaviours(given.runtime, ["grouped_experts=off"]))


EXPERTS, DENSE = mixture(), llama_8b()
CHEAP, EXPANDED = "layernorm moe_act", "layernorm moe_act mla_up_proj"
SETS: dict[str, tuple[Inputs, list[str]]] = {
    "dense": (question(DENSE, "2x8:h100"), ["mlp"]),
    "dense, eager": (question(gpt_like(), "4x8:v100", "megatron-lm"), ["core_attn"]),
    "dense, of its own": (question(DENSE, "2x8:h100", "torchtitan"), ["core_attn"]),
    "experts": (question(EXPERTS, "2x8:h100"), [CHEAP, "layernorm moe"]),
    "experts, one after the other": (looped(question(EXPERTS, "2x8:h100")), ["layernorm", "layernorm moe"]),
    "experts, delayed scaling": (question(EXPERTS, "2x8:h100", precision="fp8-delayed"), ["moe"]),
    "latent": (
        question(latent(), "2x8:h100"),
        [CHEAP, EXPANDED, f"{EXPANDED} mlp shared_experts", "layernorm mla_up_proj mlp moe"],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_the_sets_of_modules_are_a_ladder_of_what_the_model_has(name: str) -> None:
    given, expected = SETS[name]
    assert [" ".join(names_of(modules)) for modules in module_sets(given)] == expected


@pytest.mark.parametrize("name", SETS)
def test_every_rung_keeps_less_and_computes_more(name: str) -> None:
    given = SETS[name][0]
    for kind in given.model.layer_kinds[-1:]:
        plans = [Plan(recompute=Recompute.SELECTIVE, recompute_modules=modules) for modules in module_sets(given)]
        saved = [layer_memory(plan, given, kind).saved for plan in plans]
        again = [layer_time(plan, given, kind).recompute.total for plan in plans]
        assert (np.diff(saved) < 0).all()
        assert (np.diff(again) > 0).all()
