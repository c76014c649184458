"""Meshwright's own form of a model: one-to-one with `Model`, and every fault at once."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LatentAttention, LayerKind, Mlp, Model
from meshwright.specs.reading.native_model import model_of_native

MIXED = """
name = "mixed"
hidden_size = 64
vocab_size = 100
tied_embeddings = true
head_bias = true
head_softcap = true
norm = "layer"
learned_positions = 8
layers = ["1 dense", "2 moe dense"]
assumptions = ["as drawn"]

[kinds.dense]
attention = { heads = 4, kv_heads = 2, window = 8, qkv_bias = true, qk_norm = "head" }
mlp = { ffn_size = 96, gated = false, bias = true, activation = "gelu" }
norms = 1
parallel_residual = true

[kinds.moe]
attention = { heads = 4, head_dim = 24, value_head_dim = 10, latent = { kv_rank = 16, rope_head_dim = 4 } }
experts = { count = 8, active = 2, ffn_size = 24, shared_ffn_size = 12, shared_gate = true }
"""
TINY: dict[str, Any] = {
    "name": "tiny",
    "hidden_size": 64,
    "vocab_size": 100,
    "layers": 2,
    "kinds": {"dense": {"attention": {"heads": 4}, "mlp": {"ffn_size": 96}}},
}


def faults(table: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        model_of_native(table, subject="the model")
    return {fault.where: fault.what for fault in caught.value.faults}


def test_a_file_maps_onto_the_model_one_to_one() -> None:
    attention = {"heads": 4, "kv_heads": 2, "head_dim": 16, "value_head_dim": 16, "window": 8}
    latent = LatentAttention(query_rank=None, kv_rank=16, rope_head_dim=4)
    dense = LayerKind(
        name="dense",
        attention=Attention(**attention, qkv_bias=True, qk_norm="head"),
        feed_forward=Mlp(ffn_size=96, gated=False, bias=True, activation="gelu"),
        norms=1,
        parallel_residual=True,
    )
    moe = LayerKind(
        name="moe",
        attention=Attention(heads=4, kv_heads=4, head_dim=24, value_head_dim=10, latent=latent),
        feed_forward=Experts(count=8, active=2, ffn_size=24, shared_ffn_size=12, shared_gate=True),
    )
    assert model_of_native(tomllib.loads(MIXED), subject="the model") == Model(
        name="mixed",
        family="native",
        hidden_size=64,
        vocab_size=100,
        layer_kinds=(dense, moe),
        layer_pattern=(0, 1, 0, 1, 0),
        tied_embeddings=True,
        head_bias=True,
        head_softcap=True,
        norm="layer",
        learned_positions=8,
        assumptions=("as drawn",),
    )


def test_heads_left_out_follow_from_the_rest() -> None:
    attention = model_of_native(TINY, subject="the model").layer_kinds[0].attention
    assert (attention.kv_heads, attention.head_dim, attention.value_head_dim) == (4, 16, 16)


def test_all_faults_are_told_at_once() -> None:
    table = {
        "hidden_size": -1,
        "vocab_size": True,
        "layers": ["3 sparse", "many"],
        "colour": "blue",
        "kinds": {"dense": {"attention": {"heads": "4", "speed": 1}}},
    }
    assert set(faults(table)) == {
        "name",
        "hidden_size",
        "vocab_size",
        "layers[0]",
        "layers[1]",
        "colour",
        "kinds.dense.attention.heads",
        "kinds.dense.attention.kv_heads",
        "kinds.dense.attention.head_dim",
        "kinds.dense.attention.value_head_dim",
        "kinds.dense.attention.speed",
    }


@pytest.mark.parametrize("key", ["name", "hidden_size", "vocab_size", "layers", "kinds"])
def test_a_missing_field_is_named(key: str) -> None:
    assert faults({name: value for name, value in TINY.items() if name != key})[key] == "is missing"


@pytest.mark.parametrize(
    ("layers", "where", "what"),
    [
        (0, "layers", f"must be from 1 to {MAX_LAYERS} (given: 0)"),
        (2_001, "layers", "must be from 1 to 2000 (given: 2001)"),
        (True, "layers", "not True"),
        ("3 dense", "layers", "not '3 dense'"),
        ([], "layers", "not []"),
        (["dense"], "layers[0]", "such as \"3 dense\", not 'dense'"),
        (["0 dense"], "layers[0]", "not '0 dense'"),
        (["-1 dense"], "layers[0]", "not '-1 dense'"),
        ([3], "layers[0]", "not 3"),
        (["3 sparse"], "layers[0]", "names sparse; the kinds are dense"),
        (["1 dense", "999999999999 dense"], "layers", "make more than 2000 layers"),
        (["9" * 5000 + " dense"], "layers[0]", 'such as "3 dense"'),
    ],
)
def test_layers_that_make_no_sense(layers: object, where: str, what: str) -> None:
    assert what in faults(TINY | {"layers": layers})[where]


def test_several_kinds_need_an_order() -> None:
    kinds = {"dense": TINY["kinds"]["dense"], "other": TINY["kinds"]["dense"]}
    assert 'such as ["2 dense"]' in faults(TINY | {"kinds": kinds})["layers"]
    assert faults(TINY | {"kinds": kinds, "layers": ["2 dense"]}) == {"kinds.other": "stands in no layer"}


@pytest.mark.parametrize(
    ("kind", "where", "what"),
    [
        ({}, "kinds.dense", "needs exactly one of mlp and experts, and has neither"),
        (
            {"mlp": {"ffn_size": 96}, "experts": {"count": 2, "active": 1, "ffn_size": 8}},
            "kinds.dense",
            "needs exactly one of mlp and experts, and has both",
        ),
        ({"experts": {"count": 2, "active": 3, "ffn_size": 8}}, "kinds.dense.experts", "active 3 experts per token"),
        ({"mlp": {"ffn_size": 96.5}}, "kinds.dense.mlp.ffn_size", "given: 96.5"),
        ({"mlp": {"ffn_size": 96, "gated": 1}}, "kinds.dense.mlp.gated", "given: 1"),
        ({"mlp": {"ffn_size": 96, "activation": "mish"}}, "kinds.dense.mlp.activation", "given: 'mish'"),
        ({"mlp": {"ffn_size": 96}, "attention": {"heads": 4, "kv_heads": 3}}, "kinds.dense.attention", "kv_heads 3"),
        ({"mlp": {"ffn_size": 96}, "attention": {"heads": 6}}, "kinds.dense.attention.head_dim", "is missing"),
        ({"mlp": {"ffn_size": 96}, "attention": 3}, "kinds.dense.attention", "must be a table"),
    ],
)
def test_a_kind_that_contradicts_itself(kind: dict[str, Any], where: str, what: str) -> None:
    assert what in faults(TINY | {"kinds": {"dense": {"attention": {"heads": 4}} | kind}})[where]


def test_latent_attention_has_no_grouped_keys() -> None:
    latent = {"kv_rank": 8, "rope_head_dim": 4}
    kind = {"attention": {"heads": 4, "kv_heads": 2, "latent": latent}, "mlp": {"ffn_size": 96}}
    found = faults(TINY | {"kinds": {"dense": kind}})["kinds.dense.attention"]
    assert "as many kv_heads (2) as heads (4)" in found


@pytest.mark.parametrize("kinds", [3, [], "dense", {}])
def test_kinds_are_tables(kinds: object) -> None:
    assert "kinds" in faults(TINY | {"kinds": kinds})


def test_a_kind_is_a_table() -> None:
    assert "kinds.dense" in faults(TINY | {"kinds": {"dense": 3}})
