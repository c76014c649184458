"""Architecture: models that no catalogue has get the structure that their printed parameters point to."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidInput, NotModelled, UnknownName
from meshwright.specs.model import Experts, Mlp, Model
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from meshwright.validation.rows.architecture import architectures, model_of, with_neighbouring_experts
from meshwright.validation.rows.blanks import fill_blanks
from meshwright.validation.rows.table import Row, normalised
from tables import llama, shipped


def _model(row: Row) -> Model:
    return model_of(fill_blanks(normalised(row))[0])[0]


def _block(model: Model) -> Mlp | Experts:
    return model.layer_kinds[0].feed_forward


def _shipped(model: str) -> Row:
    return next(row for row in shipped() if row["model"] == model)


def test_an_unknown_name_of_llamas_sizes_has_gated_blocks() -> None:
    model, assumed = model_of(fill_blanks(llama(model="Foo-7B"))[0])
    assert (_block(model).gated, model.norm, model.tied_embeddings) == (True, "rms", False)
    assert parameter_count(model) == pytest.approx(6.74e9, rel=0.01)
    assert any("the structure of Foo-7B is not printed" in said for said in assumed)


@pytest.mark.parametrize("params", ["printed", ""])
def test_an_unknown_name_of_gpts_sizes_has_plain_blocks(params: str) -> None:
    row = _shipped("GPT-7.5B")
    changes = {} if params else {"params_b": ""}
    model = _model(row | {"model": "Foo-7B", "architecture": ""} | changes)
    assert (_block(model).gated, model.norm) == (False, "layer")
    assert parameter_count(model) == pytest.approx(parameter_count(_model(row)), rel=0.03)


def test_printed_parameters_tell_whether_the_embeddings_are_tied() -> None:
    """32000 x 4096 weights less."""
    tied = [_model(llama(model="Foo-7B", params_b=size)).tied_embeddings for size in ("6.74", "6.61")]
    assert tied == [False, True]


def test_an_unknown_model_with_experts_has_those_that_are_printed() -> None:
    block = _block(_model(llama(model="Foo-8x7B", moe_experts="8", moe_topk="2", moe_ffn="1408", params_b="")))
    assert isinstance(block, Experts)
    assert (block.count, block.active, block.ffn_size, block.shared_ffn_size) == (8, 2, 1408, 0)


def test_printed_parameters_tell_whether_an_expert_is_shared() -> None:
    experts = {"model": "Foo-8x7B", "moe_experts": "8", "moe_topk": "2", "moe_ffn": "11008"}
    without = parameter_count(_model(llama(**experts, params_b="")))
    one_more = without + 32 * 3 * 4096 * 11008
    block = _block(_model(llama(**experts, params_b=str(one_more / 1e9))))
    assert isinstance(block, Experts)
    assert block.shared_ffn_size == 11008


def test_the_name_of_a_catalogued_model_gives_what_the_row_leaves_out() -> None:
    blank = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "params_b"), "")
    row, assumed = fill_blanks(llama(model="Llama-3.1-8B") | blank)
    model, unsaid = model_of(row)
    assert model == read_model("llama-3.1-8b").replace(name="Llama-3.1-8B")
    assert unsaid == ()
    assert "of the catalogue's llama-3.1-8b" in assumed[0]


def test_a_catalogued_name_with_other_sizes_is_another_model() -> None:
    model, assumed = model_of(fill_blanks(normalised(llama(model="Llama-3.1-8B")))[0])
    assert (model.hidden_size, model.vocab_size) == (4096, 32000)
    assert "it is not the catalogue's llama-3.1-8b: vocab is 128256, not 32000" in assumed[0]


def test_the_beginning_of_a_name_is_no_name() -> None:
    """It tells neither a family nor a model of the catalogue."""
    for name in ("DeepSeek-V3-like", "Qwen3-ish", "MPT-mine", "GPT-of-ours"):
        model, assumed = model_of(fill_blanks(llama(model=name))[0])
        assert model == _model(llama(model="Foo-7B")).replace(name=name)
        assert f"the structure of {name} is not printed" in assumed[0]


def test_an_architecture_is_a_structure_or_a_model_of_the_catalogue() -> None:
    assert _model(llama(architecture="mpt")).layer_kinds[0].attention.qkv_bias
    assert _model(llama(architecture="qwen3", head_dim="64")).layer_kinds[0].attention.head_dim == 64
    with pytest.raises(UnknownName, match=r"unknown architecture 'lama'; nearest: llama"):
        _model(llama(architecture="lama"))
    with pytest.raises(NotModelled, match=r"differs from its architecture deepseek-v3: .*hidden is 7168, not 4096"):
        _model(llama(architecture="deepseek-v3"))


def test_fewer_layers_of_a_catalogued_model_are_its_first_ones() -> None:
    assert _model(_shipped("DeepSeek-V3") | {"layers": "5"}).layer_pattern == (0, 0, 0, 1, 1)
    with pytest.raises(NotModelled, match="layers is 61, not 64"):
        _model(_shipped("DeepSeek-V3") | {"layers": "64"})


def test_every_structure_is_that_of_a_shipped_row_or_of_words_or_of_an_unknown_name() -> None:
    """And comes from a source."""
    used = {row["architecture"] for row in shipped()}
    assert set(architectures()) - used <= {"llama-shared-expert", "gpt2"}
    assert all(each.source for each in architectures().values())


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": "31"},
        {"kv_heads": "33"},
        {"layers": "10001"},
        {"model": "Foo", "moe_experts": "2", "moe_topk": "3"},
        {"hidden": "1", "heads": "1"},
    ],
)
def test_sizes_that_make_no_model_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        _model(llama(**changes))


def test_neighbouring_experts_are_those_of_one_group() -> None:
    model = read_model("deepseek-v3")
    dense, routed = (kind.feed_forward for kind in with_neighbouring_experts(model).layer_kinds)
    assert dense == model.layer_kinds[0].feed_forward
    assert isinstance(routed, Experts)
    assert (routed.groups, routed.active_groups, routed.count // routed.groups) == (32, 1, 8)


def test_experts_that_do_not_divide_into_such_groups_are_refused() -> None:
    kind = read_model("mixtral-8x7b").layer_kinds[0]
    uneven = kind.replace(feed_forward=kind.feed_forward.replace(count=10, active=3))
    with pytest.raises(InvalidInput, match="multiple of groups"):
        with_neighbouring_experts(read_model("mixtral-8x7b").replace(layer_kinds=(uneven,)))
