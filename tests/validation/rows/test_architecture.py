"""Architecture: models that no catalogue has get the structure that their printed parameters point to."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidInput
from meshwright.specs.model import Experts, Mlp, Model
from meshwright.specs.weights import parameter_count
from meshwright.validation.rows.architecture import model_of
from meshwright.validation.rows.blanks import completed
from meshwright.validation.rows.table import Row, checked
from tables import llama, shipped


def _model(row: Row) -> Model:
    return model_of(completed(checked(row))[0])[0]


def _block(model: Model) -> Mlp | Experts:
    return model.layer_kinds[0].feed_forward


def _shipped(model: str) -> Row:
    return next(row for row in shipped() if row["model"] == model)


def test_an_unknown_name_of_llamas_sizes_has_gated_blocks() -> None:
    model, assumed = model_of(completed(llama(model="Foo-7B"))[0])
    assert (_block(model).gated, model.norm, model.tied_embeddings) == (True, "rms", False)
    assert parameter_count(model) == pytest.approx(6.74e9, rel=0.01)
    assert any("what Foo-7B consists of is not printed" in said for said in assumed)


@pytest.mark.parametrize("params", ["printed", ""])
def test_an_unknown_name_of_gpts_sizes_has_plain_blocks(params: str) -> None:
    row = _shipped("GPT-7.5B")
    changes = {} if params else {"params_b": ""}
    model = _model(row | {"model": "Foo-7B"} | changes)
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


def test_a_catalogued_name_with_other_sizes_is_another_model() -> None:
    row = _shipped("Qwen3-30B-A3B")
    assert _model(row).num_layers == int(row["layers"])
    other = _model(row | {"hidden": "1024", "head_dim": "128"})
    assert other.hidden_size == 1024
    assert _model(row | {"layers": "64"}).num_layers == 64


def test_fewer_layers_of_a_catalogued_model_are_its_first_ones() -> None:
    assert _model(_shipped("DeepSeek-V3") | {"layers": "5"}).layer_pattern == (0, 0, 0, 1, 1)


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
