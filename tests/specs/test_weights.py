"""Weights by part: they add up, and a token passes through no more than all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.specs.model import Attention, Experts, LatentAttention, LayerKind, Mlp, Model
from meshwright.specs.weights import (
    active_parameter_count,
    head_weights,
    layer_weights,
    parameter_count,
    parameters_by_part,
)

SMALL = st.integers(1, 64)
FLAG = st.booleans()


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    """Plain or latent attention of any shape."""
    kv_heads, group, head_dim = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(2, 64))
    rank = draw(st.none() | SMALL)
    latent = draw(
        st.none() | st.builds(LatentAttention, query_rank=st.just(rank), kv_rank=SMALL, rope_head_dim=st.just(1))
    )
    return Attention(
        heads=kv_heads * group,
        kv_heads=kv_heads * group if latent else kv_heads,
        head_dim=head_dim,
        value_head_dim=draw(SMALL),
        qkv_bias=draw(FLAG),
        output_bias=draw(FLAG),
        qk_norm=draw(st.sampled_from(["none", "head", "width"])),
        sinks=draw(FLAG),
        latent=latent,
    )


@st.composite
def experts(draw: st.DrawFn) -> Experts:
    """A mixture of any shape."""
    count = draw(st.integers(1, 16))
    flags: dict[str, Any] = {name: draw(FLAG) for name in ("gated", "bias", "router_bias", "shared_gate")}
    active = draw(st.integers(1, count))
    return Experts(count=count, active=active, ffn_size=draw(SMALL), shared_ffn_size=draw(st.integers(0, 64)), **flags)


BLOCKS = st.builds(Mlp, ffn_size=SMALL, gated=FLAG, bias=FLAG) | experts()
KINDS = st.builds(LayerKind, name=st.just("kind"), attention=attentions(), feed_forward=BLOCKS, norms=st.integers(1, 4))


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A model of any layer kinds in any order."""
    kinds = draw(st.lists(KINDS, min_size=1, max_size=3))
    pattern = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=6))
    return Model(
        name="any",
        family="native",
        hidden_size=draw(SMALL),
        vocab_size=draw(SMALL),
        layer_kinds=tuple(kinds),
        layer_pattern=tuple(pattern),
        tied_embeddings=draw(FLAG),
        head_bias=draw(FLAG),
        norm=draw(st.sampled_from(["rms", "layer"])),
        learned_positions=draw(st.integers(0, 8)),
    )


@settings(deadline=None, max_examples=50)
@given(models())
def test_parts_add_up_to_all_parameters(model: Model) -> None:
    assert sum(parameters_by_part(model).values()) == parameter_count(model)


@settings(deadline=None, max_examples=50)
@given(models())
def test_active_parameters_are_at_most_all(model: Model) -> None:
    assert 0 < active_parameter_count(model) <= parameter_count(model)
    if not any(model.layer_kinds[index].is_moe for index in model.layer_pattern):
        assert active_parameter_count(model) == parameter_count(model)


@settings(deadline=None, max_examples=50)
@given(models())
def test_an_untied_head_adds_one_embedding(model: Model) -> None:
    tied, untied = model.replace(tied_embeddings=True), model.replace(tied_embeddings=False)
    assert parameter_count(untied) - parameter_count(tied) == model.vocab_size * model.hidden_size


@settings(deadline=None, max_examples=50)
@given(models(), st.data())
def test_layers_add_up_one_by_one(model: Model, data: st.DataObject) -> None:
    kind = data.draw(st.integers(0, len(model.layer_kinds) - 1))
    longer = model.replace(layer_pattern=(*model.layer_pattern, kind))
    one = sum(weight.elements for weight in layer_weights(model, model.layer_kinds[kind]))
    assert parameter_count(longer) - parameter_count(model) == one


@settings(deadline=None, max_examples=50)
@given(models())
def test_a_norm_of_layers_has_a_bias_more(model: Model) -> None:
    rms, layer = (parameters_by_part(model.replace(norm=norm))["norms"] for norm in ("rms", "layer"))
    assert layer == 2 * rms


def test_the_smallest_dense_model_by_hand() -> None:
    kind = LayerKind(
        name="dense",
        attention=Attention(heads=2, kv_heads=1, head_dim=3, value_head_dim=3),
        feed_forward=Mlp(ffn_size=5),
    )
    model = Model(
        name="tiny", family="native", hidden_size=4, vocab_size=7, layer_kinds=(kind,), layer_pattern=(0, 0, 0)
    )
    assert parameters_by_part(model) == {
        "embedding": 28,
        "norms": 4 + 3 * 8,
        "head": 28,
        "attention": 3 * (4 * 6 + 2 * 4 * 3 + 6 * 4),
        "mlp": 3 * (3 * 4 * 5),
    }


@pytest.mark.parametrize(("tied", "names"), [(True, ["final norm"]), (False, ["final norm", "output head"])])
def test_a_tied_head_has_no_matrix(tied: bool, names: list[str]) -> None:
    kind = LayerKind(
        name="dense",
        attention=Attention(heads=1, kv_heads=1, head_dim=1, value_head_dim=1),
        feed_forward=Mlp(ffn_size=1),
    )
    model = Model(
        name="tiny",
        family="native",
        hidden_size=1,
        vocab_size=1,
        layer_kinds=(kind,),
        layer_pattern=(0,),
        tied_embeddings=tied,
    )
    assert [weight.name for weight in head_weights(model)] == names
