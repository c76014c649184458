"""Selective recomputation by module: what each one frees and repeats, written down a second time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from exchange_times import pass_times
from meshwright.cost.comms.exchange import total_seconds
from meshwright.cost.comms.expert_counts import count_messages
from meshwright.cost.comms.experts import expert_exchanges
from meshwright.cost.comms.tensor import layer_collectives, layer_tensor_exchanges
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.compute.linear import linear_time
from meshwright.cost.compute.slowdown import slowdown
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.unit import unit_times
from meshwright.errors import InvalidInput
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.recompute_modules import (
    RECOMPUTE_MODULE_NAMES,
    RecomputeModules,
    modules_of,
    names_of,
    read_modules,
)
from strategies import dense_model, latent, llama_8b, llama_70b, mixture, question

TOKENS, MODULES = 4096, tuple(RECOMPUTE_MODULE_NAMES.values())
EVERY_SET = range(1, 2 ** len(MODULES))
ASKED = {
    "llama": question(llama_70b(), "8x8:h100", precision="bf16"),
    "mixture": question(mixture(), "8x8:h100", precision="bf16"),
    "latent": question(latent(), "8x8:h100", precision="bf16"),
    "latent in fp8": question(latent(), "8x8:h100", precision="fp8"),
    "falcon": question(dense_model(parallel_residual=True, norms=1, gated=False), "8x8:h100", precision="bf16"),
}


def _plan(names: Iterable[str], tp: int = 1) -> Plan:
    return Plan(tp=tp, sp=tp > 1, recompute=Recompute.SELECTIVE, recompute_modules=modules_of(names))


def _kinds() -> list[tuple[Inputs, LayerKind]]:
    return [(inputs, kind) for inputs in ASKED.values() for kind in inputs.model.layer_kinds]


def _freed(name: str, inputs: Inputs, kind: LayerKind, tp: int = 1) -> float:
    plan = _plan([name], tp)
    none = layer_memory(replace(plan, recompute=Recompute.NONE), inputs, kind).saved
    return float(none - layer_memory(plan, inputs, kind).saved)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_without_its_block_a_llama_layer_keeps_10_and_4k_over_a_times_sbh_over_t(tp: int) -> None:
    inputs = question(llama_8b(), "8x8:h100")
    (kind,) = inputs.model.layer_kinds
    attention, hidden = kind.attention, inputs.model.hidden_size
    factor = 12 + 4 * attention.kv_heads / attention.heads - 2
    log_sum_exp = 4 * TOKENS * attention.heads / tp
    saved = layer_memory(_plan(["mlp"], tp), inputs, kind).saved
    assert saved == pytest.approx(factor * TOKENS * hidden / tp + log_sum_exp, rel=1e-12)


@pytest.mark.parametrize("tp", [1, 2])
def test_each_module_frees_what_it_computes_again(tp: int) -> None:
    layers = {
        "llama": ASKED["llama"].model.layer_kinds[0],
        "mixture": ASKED["mixture"].model.layer_kinds[0],
        "latent dense": ASKED["latent"].model.layer_kinds[0],
        "latent experts": ASKED["latent"].model.layer_kinds[1],
    }
    expanded = 2 * (16 * 192 + 16 * 192 + 16 * 128) + 2 * (768 + 512)
    routed = {"mixture": 8 * 9 + 2 * 12 + 2 * (2 * 2048 + 6 * 4096)}
    routed["latent experts"] = 64 * 9 + 6 * 12 + 6 * (2 * 2048 + 6 * 1408)
    per_token = {
        "llama": {"core_attn": 4 * 64, "mlp": 6 * 28672 + 2 * 8192},
        "mixture": {"core_attn": 4 * 16, "layernorm": 2 * 2048, "moe_act": 2 * 2 * 4096, "moe": routed["mixture"]},
        "latent dense": {
            "core_attn": 4 * 16,
            "layernorm": 2 * 2048,
            "mla_up_proj": expanded,
            "mlp": 6 * 8192 + 2 * 2048,
        },
        "latent experts": {
            "core_attn": 4 * 16,
            "layernorm": 2 * 2 * 2048,
            "moe_act": 6 * 2 * 1408,
            "mla_up_proj": expanded,
            "moe": routed["latent experts"] + 6 * 2816,
            "shared_experts": 6 * 2816,
        },
    }
    for layer, kind in layers.items():
        freed = {name: _freed(name, ASKED[layer.split()[0]], kind, tp) for name in MODULES}
        wanted = dict.fromkeys(MODULES, 0) | per_token[layer]
        assert freed == pytest.approx({name: size * TOKENS / tp for name, size in wanted.items()}, rel=1e-9), layer


@pytest.mark.parametrize(("precision", "scaled"), [("fp8", 0), ("fp8-delayed", 1)])
def test_in_fp8_modules_free_operands_of_one_byte(precision: str, scaled: int) -> None:
    """Both products that compress keep their input. The shared expert keeps its own with delayed scaling alone: else it
    holds what the router reads, in 2 bytes (Megatron-core 0.16.1, moe/shared_experts.py).
    """
    inputs = question(latent(), "8x8:h100", precision=precision)
    assert inputs.recipe.saved_bytes == 1
    per_token = {
        "core_attn": 4 * 16 + 2 * 16 * 128,
        "layernorm": 2 * 2048 + 2 * 2048 + scaled * 2048,
        "moe_act": 6 * 1408,
        "mla_up_proj": 2 * (16 * 192 + 16 * 192 + 16 * 128) + 768 + 512,
        "shared_experts": 5 * 2816 + scaled * 2048,
    }
    freed = {name: _freed(name, inputs, inputs.model.layer_kinds[1]) for name in per_token}
    assert freed == pytest.approx({name: size * TOKENS for name, size in per_token.items()}, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("attention", ["core_attn"]),
        ("core_attention", ["core_attn"]),
        ("norm", ["layernorm"]),
        ("moe_layer", ["moe"]),
        ("shared_expert", ["shared_experts"]),
        ("layernorm+moe_act+moe", ["layernorm", "moe_act", "moe"]),
        ("Moe-Act, MLP mla-up-proj", ["moe_act", "mla_up_proj", "mlp"]),
        ("norm,layernorm", ["layernorm"]),
    ],
)
def test_modules_are_read_by_every_name_of_theirs(text: str, names: list[str]) -> None:
    assert set(names_of(read_modules(text))) == set(names)


@pytest.mark.parametrize("text", ["mhc", "mlp+gdn_norm_out", " , "])
def test_what_is_no_module_is_refused_with_those_that_are_known(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"core_attn, layernorm, .* shared_experts; also attention for core_attn"):
        read_modules(text)


def test_a_block_runs_its_norm_both_products_and_its_activation_again() -> None:
    inputs = ASKED["llama"]
    (kind,) = inputs.model.layer_kinds
    again = layer_time(_plan(["mlp"], 8), inputs, kind).recompute
    shapes = [(TOKENS, 2 * 28672 // 8, 8192), (TOKENS, 8192, 28672 // 8)]
    moved = 4 * 8192 * TOKENS / 8 + 6 * TOKENS * 28672 / 8
    assert again.gemm == pytest.approx(slowdown(inputs) * sum(linear_time(*shape, inputs).forward for shape in shapes))
    assert again.elementwise == pytest.approx(slowdown(inputs) * elementwise_time(moved, inputs.cluster.accelerator))
    assert again.attention == 0


def test_norms_and_activations_cost_their_traffic_alone() -> None:
    inputs = ASKED["latent"]
    kind = inputs.model.layer_kinds[1]
    again = layer_time(_plan(["layernorm", "moe_act"]), inputs, kind).recompute
    moved = TOKENS * (4 * 2 * 2048 + 6 * 6 * 1408)
    assert again.elementwise == pytest.approx(slowdown(inputs) * elementwise_time(moved, inputs.cluster.accelerator))
    assert again.gemm == again.attention == 0


def test_latent_attention_expands_its_compressed_widths_again() -> None:
    inputs = ASKED["latent"]
    kind, plan = inputs.model.layer_kinds[0], _plan(["mla_up_proj"], 2)
    again = layer_time(plan, inputs, kind).recompute
    shapes = [(TOKENS, 8 * 192, 768), (TOKENS, 8 * (128 + 128), 512)]
    moved = 4 * (768 + 512) * TOKENS / 2 + 4 * TOKENS * 8 * (192 + 192)
    assert again.gemm == pytest.approx(slowdown(inputs) * sum(linear_time(*shape, inputs).forward for shape in shapes))
    assert again.elementwise == pytest.approx(slowdown(inputs) * elementwise_time(moved, inputs.cluster.accelerator))
    counts = layer_collectives(plan, inputs, kind)
    assert (tuple(counts.recompute), counts.expansions) == ((0, 0), 1)


@pytest.mark.parametrize(
    ("layer", "names", "times"),
    [(0, ["mlp"], 1), (1, ["shared_experts"], 1), (1, ["moe"], 1), (1, ["moe", "shared_experts"], 2), (1, ["mlp"], 0)],
)
def test_a_repeated_block_is_entered_and_left_again(layer: int, names: list[str], times: int) -> None:
    inputs = ASKED["latent"]
    kind = inputs.model.layer_kinds[layer]
    for sp in (True, False):
        plan = replace(_plan(names, 2), sp=sp)
        assert tuple(layer_collectives(plan, inputs, kind).recompute) == (times * sp, times)
        compute = layer_time(plan, inputs, kind)
        none, again = (
            pass_times(layer_tensor_exchanges(replace(plan, recompute=each), inputs, kind, compute), inputs).backward
            for each in (0, 1)
        )
        assert (again > none) == (times > 0)


def test_only_the_whole_mixture_exchanges_its_tokens_again() -> None:
    inputs = ASKED["mixture"]
    (kind,) = inputs.model.layer_kinds
    for name in MODULES:
        plan = replace(_plan([name]), dp=8, ep=8)
        time = pass_times(expert_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind)), inputs)
        # What comes again is all of forward; gradients need no counts of tokens.
        counted = total_seconds(count_messages(plan, inputs, kind))
        assert counted > 0
        assert time.backward == pytest.approx(time.forward * (2 if name == "moe" else 1) - counted)


@pytest.mark.parametrize("given", _kinds(), ids=lambda given: f"{given[0].model.name}, {given[1].name}")
def test_one_more_module_never_keeps_more_and_never_computes_less(given: tuple[Inputs, LayerKind]) -> None:
    inputs, kind = given
    plans = Plans.of(replace(_plan([], 2), recompute_modules=RecomputeModules(bits)) for bits in EVERY_SET)
    memory, again = layer_memory(plans, inputs, kind), layer_time(plans, inputs, kind).recompute.total
    none, full = (layer_memory(Plan(tp=2, sp=True, recompute=each), inputs, kind) for each in (0, 2))
    assert (memory.saved >= full.saved).all()
    np.testing.assert_allclose(memory.saved + memory.again, none.saved + none.again)
    for bits in EVERY_SET:
        for module in RecomputeModules:
            fewer = bits & ~module
            less = none.saved if fewer == 0 else memory.saved[fewer - 1]
            assert memory.saved[bits - 1] <= less * (1 + 1e-12)
            assert again[bits - 1] >= (again[fewer - 1] if fewer else 0)


@pytest.mark.parametrize("name", ASKED)
def test_every_set_costs_the_same_alone_and_among_all(name: str) -> None:
    inputs = ASKED[name]
    rows = [replace(_plan([], 2), recompute_modules=RecomputeModules(bits)) for bits in EVERY_SET]
    many = unit_times(Plans.of(rows), inputs, some_not_recomputed=False)
    for index, plan in enumerate(rows):
        for kind, layer in zip(inputs.model.layer_kinds, many.layers, strict=True):
            memory = layer_memory(Plans.of(rows), inputs, kind)
            assert layer_memory(plan, inputs, kind).saved == pytest.approx(memory.saved[index], rel=1e-12)
            alone = layer_time(plan, inputs, kind)
            together = layer.backward.total[index]
            assert alone.recompute.plus(alone.backward).total == pytest.approx(together, rel=1e-12)


def test_without_selective_recomputation_modules_mean_nothing() -> None:
    for inputs, kind in _kinds():
        for recompute in (Recompute.NONE, Recompute.FULL):
            plain = Plan(tp=2, sp=True, recompute=recompute)
            named = replace(plain, recompute_modules=modules_of(MODULES))
            assert layer_memory(named, inputs, kind) == layer_memory(plain, inputs, kind)
            assert layer_time(named, inputs, kind) == layer_time(plain, inputs, kind)
