"""Known answers of memory: parameters of megatron-core's own models, bytes per parameter, published saved tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_plans
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model
from meshwright.specs.weights import parameter_count
from strategies import dense_model, gpt_like, llama_8b, llama_70b, question

SPLIT_70B = Plan(tp=8, sp=True, pp=4, dp=4, zero=1, num_microbatches=16)


def _stages(plan: Plan, inputs: Inputs) -> Components:
    return estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True).memory


def _unpadded(inputs: Inputs) -> Inputs:
    return inputs.replace(runtime=inputs.runtime.replace(vocabulary_multiple=1))


def test_a_70b_model_over_tp8_pp4_has_the_parameters_of_megatron_cores_own_model() -> None:
    inputs = _unpadded(question(llama_70b(), "16x8:h100"))
    parameters = _stages(SPLIT_70B, inputs).parameters / 2
    assert parameters.tolist() == [2270756864, 2139422720, 2139422720, 2270765056]


def test_launched_by_megatron_the_vocabulary_is_padded_to_a_multiple_of_128_tp() -> None:
    parameters = _stages(SPLIT_70B, question(llama_70b(), "16x8:h100")).parameters / 2
    assert parameters.tolist() == [2271543296, 2139422720, 2139422720, 2271551488]


@pytest.mark.parametrize("model", [llama_70b(), llama_8b(), gpt_like(), gpt_like().replace(tied_embeddings=False)])
def test_one_rank_of_an_unsplit_model_holds_every_parameter_once(model: Model) -> None:
    inputs = _unpadded(question(model, "1x8:h100"))
    assert _stages(Plan(), inputs).parameters == 2 * parameter_count(model)


def test_the_stages_of_an_unsplit_width_add_up_to_the_model_and_the_copy_of_a_tied_head() -> None:
    model = gpt_like()
    inputs = _unpadded(question(model, "1x8:h100"))
    parameters = _stages(Plan(pp=4, num_microbatches=4), inputs).parameters
    assert parameters.sum() == 2 * (parameter_count(model) + model.vocab_size * model.hidden_size)


@pytest.mark.parametrize(
    ("zero", "dp", "bytes_per_parameter"), [(0, 1, 18), (0, 64, 18), (1, 4, 9), (1, 64, 6 + 12 / 64)]
)
def test_states_take_6_and_12_over_n_bytes_per_parameter(zero: int, dp: int, bytes_per_parameter: float) -> None:
    memory = _stages(Plan(dp=dp, zero=zero), question(llama_8b(), "8x8:h100", precision="bf16"))
    np.testing.assert_allclose(memory.states / (memory.parameters / 2), bytes_per_parameter, rtol=1e-12)


def test_the_first_stage_of_70b_over_tp8_pp2_dp4_takes_37_gib_of_states() -> None:
    states = _stages(
        Plan(tp=8, sp=True, pp=2, dp=4, zero=1, num_microbatches=64),
        question(llama_70b(), "8x8:h100", precision="bf16"),
    ).states
    assert states[0] / 2**30 == pytest.approx(37.0, abs=0.05)


@pytest.mark.parametrize("model", [llama_70b(), llama_8b()])
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_a_llama_layer_keeps_12_and_4k_over_a_and_6f_over_h_times_sbh_over_t(model: Model, tp: int) -> None:
    inputs = question(model, "8x8:h100", sequence_length=8192)
    (kind,) = model.layer_kinds
    attention, hidden = kind.attention, model.hidden_size
    tokens = 2 * 8192
    factor = 12 + 4 * attention.kv_heads / attention.heads + 6 * kind.feed_forward.ffn_size / hidden
    log_sum_exp = 4 * tokens * attention.heads / tp
    saved = layer_memory(Plan(tp=tp, sp=tp > 1, micro_batch=2), inputs, kind).saved
    assert saved == pytest.approx(factor * tokens * hidden / tp + log_sum_exp, rel=1e-12)


def test_a_runtime_that_keeps_the_activations_inner_product_keeps_2f_over_h_more() -> None:
    inputs = question(llama_8b(), "8x8:h100", sequence_length=8192)
    plain = inputs.replace(runtime=inputs.runtime.replace(fused_activation=False))
    (kind,) = inputs.model.layer_kinds
    more = layer_memory(Plan(), plain, kind).saved - layer_memory(Plan(), inputs, kind).saved
    assert more == 2 * 8192 * kind.feed_forward.ffn_size


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize(("heads", "sequence", "micro_batch"), [(16, 1024, 4), (96, 2048, 1), (128, 2048, 2)])
def test_a_gpt_layer_of_2022_keeps_what_korthikantis_table_2_says(
    tp: int, heads: int, sequence: int, micro_batch: int
) -> None:
    model = dense_model(heads=heads, kv_heads=heads, ffn_size=4 * heads * 128, gated=False, norm="layer")
    inputs = question(model, "8x8:a100", "megatron-lm", sequence_length=sequence)
    (kind,) = model.layer_kinds
    sbh = sequence * micro_batch * model.hidden_size
    scores = 5 * heads * sequence / model.hidden_size
    plan = Plan(tp=tp, micro_batch=micro_batch)
    table = {
        plan: 10 + 24 / tp + scores / tp,
        replace(plan, recompute=Recompute.SELECTIVE): 10 + 24 / tp,
        replace(plan, sp=True): (34 + scores) / tp,
        replace(plan, sp=True, recompute=Recompute.SELECTIVE): 34 / tp,
        replace(plan, recompute=Recompute.FULL): 2,
    }
    for split, factor in table.items():
        assert layer_memory(split, inputs, kind).saved == pytest.approx(factor * sbh, rel=1e-12)


def test_rank_0_of_an_interleaved_pipeline_keeps_1_and_p_minus_1_over_pv_of_the_layers() -> None:
    inputs = question(llama_70b(), "16x8:h100")
    for pp, vpp in ((2, 4), (4, 2), (4, 5), (8, 2), (8, 5)):
        plans = Plans.of([Plan(pp=pp, vpp=vpp, num_microbatches=4 * pp, schedule=1)])
        live = estimate_plans(plans, inputs, keep_all_stages=True).stages.in_flight_layers[0].sum()
        assert live == pytest.approx(80 * (1 + (pp - 1) / (pp * vpp)))


@pytest.mark.parametrize(
    ("name", "plan", "copies"),
    [
        ("llama-2-7b", Plan(tp=2, sp=True), 1),
        ("llama-2-7b", Plan(tp=2, sp=True, cp=2), 0),
        ("llama-3.1-8b", Plan(tp=2, sp=True), 0),
    ],
)
def test_nanotron_keeps_keys_and_values_twice_where_no_heads_are_grouped(name: str, plan: Plan, copies: int) -> None:
    inputs = question(read_model(name), "1x8:h100", "nanotron", sequence_length=4096)
    activations = inputs.runtime.activations.replace(keeps_packed_projections=False)
    plain = inputs.replace(runtime=inputs.runtime.replace(activations=activations))
    kept, without = (layer_memory(plan, each, each.model.layer_kinds[0]).saved for each in (inputs, plain))
    keys_and_values = 2 * 2 * inputs.model.layer_kinds[0].attention.heads * 128
    assert kept - without == copies * keys_and_values * 4096 / plan.tp
