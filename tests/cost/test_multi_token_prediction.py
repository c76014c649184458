"""Multi-token prediction: its parameters, FLOPs, time and memory, and the stage and runtimes that have it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exchange_times import pass_times
from meshwright.answers.basis.assumptions import assumptions
from meshwright.cost.comms.data import tied_embedding_exchange
from meshwright.cost.comms.ends import prediction_exchanges
from meshwright.cost.comms.tensor import tensor_region
from meshwright.cost.estimate import Estimate, StageEstimate
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.ends import head_memory
from meshwright.cost.memory.parameters import end_parameters, prediction_parameters
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidSpec
from meshwright.launch.settings import launch_settings
from meshwright.layout.plan import Plan
from meshwright.layout.splits import outer_fewer
from meshwright.search.find import find
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.specs.weights import layer_weights, mtp_weights, parameter_count
from strategies import latent, llama_8b, question

PIPELINE = Plan(pp=4, dp=4, num_microbatches=16)
SAME_SPLIT = replace(PIPELINE, embedding_as_layer=True, head_as_layer=True)
"""Chunks of 7, 9, 9 and 7 layers, whatever is predicted."""


def _asked(layers: int | None, runtime: str = "megatron-core", **job: Any) -> Inputs:
    model = llama_8b().replace(mtp_layers=1)
    return question(model, "2x8:h100", runtime, global_batch=64, mtp_layers=layers, **job)


def _priced(layers: int, plan: Plan = SAME_SPLIT, **job: Any) -> Estimate:
    return estimate_each([plan], _asked(layers, **job))[0]


def _stage(estimate: Estimate, stage: int) -> StageEstimate:
    return estimate.stages[stage]


def test_the_module_of_deepseek_v3_has_the_parameters_that_its_authors_count() -> None:
    """README_WEIGHTS.md of DeepSeek-V3: 11.5B unique and, with the head, 1.5B active, the projection apart; the files
    hold 684.53B with embedding and head once more, of which 671B / 128^2 are the scales of their fp8 blocks."""
    model = read_model("deepseek-v3")
    layer, extra = layer_weights(model, model.layer_kinds[-1]), mtp_weights(model)
    head, projection = model.vocab_size * model.hidden_size, 2 * model.hidden_size**2
    held = sum(weight.elements for weight in (*layer, *extra))
    active = sum(weight.elements if weight.active is None else weight.active for weight in (*layer, *extra))
    assert model.mtp_layers == 1
    assert round((held - projection) / 1e9, 1) == 11.5
    assert round((active + head - projection) / 1e9, 1) == 1.5
    assert parameter_count(model) + held + 2 * head == pytest.approx(684.531e9 - 671e9 / 128**2, rel=1e-5)


def test_the_layers_of_the_model_and_its_parameters_are_apart_from_it() -> None:
    model = read_model("deepseek-v3")
    assert model.num_layers == 61
    assert parameter_count(model) == parameter_count(model.replace(mtp_layers=0))


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_a_runtime_that_has_it_trains_the_models_layers_unless_told(name: str) -> None:
    runtime, inputs = read_runtime(name), _asked(None, name)
    assert inputs.mtp_layers == (1 if runtime.plans.multi_token_prediction else 0)
    told = " ".join(assumptions(inputs))
    assert ("1 more layer on the stage with the head" in told) == runtime.plans.multi_token_prediction
    assert (f"is not counted anywhere, as none is modelled for {name}" in told) != runtime.plans.multi_token_prediction
    assert _asked(0, name).mtp_layers == 0
    if not runtime.plans.multi_token_prediction:
        with pytest.raises(InvalidSpec, match=f"job.mtp_layers: is 2, but .* are not modelled for {name}"):
            _asked(2, name)


def test_a_job_may_train_it_with_any_model() -> None:
    inputs = question(llama_8b(), "1x8:h100", mtp_layers=2)
    assert inputs.mtp_layers == 2
    assert inputs.layers_per_kind == (34,)


def test_model_flops_count_the_layer_its_projection_and_the_head_once_more() -> None:
    inputs = _asked(0)
    model, job = inputs.model, inputs.job
    hidden, kind = model.hidden_size, model.layer_kinds[0]
    layer = sum(weight.elements for weight in layer_weights(model, kind) if weight.part != "norms")
    products = 6 * (layer + 2 * hidden**2 + model.vocab_size * hidden) * job.tokens_per_step
    width = kind.attention.heads * (kind.attention.head_dim + kind.attention.value_head_dim)
    scores = 6 * width * job.sequence_length**2 / 2 * job.global_batch
    for layers in (1, 3):
        added = model_flops_per_step(_asked(layers)) - model_flops_per_step(inputs)
        assert added == pytest.approx(layers * (products + scores), rel=1e-3)


def test_experts_of_its_layer_count_as_active_alone() -> None:
    model = latent().replace(mtp_layers=1)
    counted = [model_flops_per_step(question(model, "2x8:b200", mtp_layers=layers)) for layers in (0, 1)]
    whole = sum(weight.elements for weight in layer_weights(model, model.layer_kinds[-1]))
    inputs = question(model, "2x8:b200")
    head = (model.vocab_size + 2 * model.hidden_size) * model.hidden_size
    assert counted[1] - counted[0] < 6 * (whole + head) * inputs.job.tokens_per_step


def test_it_works_on_the_stage_of_the_head_alone() -> None:
    without, with_it = _priced(0), _priced(1)
    assert [stage.mtp_layers for stage in with_it.stages] == [0, 0, 0, 1]
    assert [stage.layers for stage in with_it.stages] == [7, 9, 9, 7]
    for stage in range(3):
        assert _stage(with_it, stage) == _stage(without, stage)
    layer, head = _stage(without, 1).forward_s / 9, _stage(without, 3)
    once = head.forward_s - 6 * layer
    added = _stage(with_it, 3).forward_s - head.forward_s
    assert once < added < 1.5 * once
    assert with_it.slowest_stage == 3
    assert with_it.step_time_s > without.step_time_s


def test_every_further_layer_adds_as_much() -> None:
    forward = [_stage(_priced(layers), 3).forward_s for layers in (0, 1, 2, 5)]
    one = forward[1] - forward[0]
    np.testing.assert_allclose(np.subtract(forward, forward[0]), [0, one, 2 * one, 5 * one], rtol=1e-9)


@pytest.mark.parametrize(("pp", "copies"), [(1, 0), (4, 1)])
def test_its_stage_holds_a_copy_of_the_embedding_where_it_is_not_the_first(pp: int, copies: int) -> None:
    without, with_it = _asked(0), _asked(2)
    plan = Plan(pp=pp, dp=16 // pp)
    embedding, head = end_parameters(plan, without)
    assert end_parameters(plan, with_it) == (embedding, head + copies * embedding)
    assert (tied_embedding_exchange(plan, with_it).seconds > 0) == (copies > 0)
    assert tied_embedding_exchange(plan, without).seconds == 0


def test_its_projection_is_divided_by_tp_and_its_norms_are_not() -> None:
    hidden = llama_8b().hidden_size
    for tp in (1, 4):
        assert prediction_parameters(Plan(tp=tp, dp=4), _asked(3)) == 3 * (2 * hidden**2 // tp + 3 * hidden)


def test_states_of_the_last_stage_hold_it() -> None:
    inputs, plan = _asked(1), SAME_SPLIT
    stages = [_stage(_priced(layers, precision="bf16"), 3) for layers in (0, 1)]
    layer = sum(weight.elements for weight in layer_weights(inputs.model, inputs.model.layer_kinds[0]))
    added = layer + prediction_parameters(plan, inputs) + end_parameters(plan, inputs).embedding
    assert stages[1].memory.states - stages[0].memory.states == 18 * added


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_it_keeps_one_micro_batch_of_its_layer_and_the_head_once_more(recompute: str) -> None:
    plan = Plan(tp=2, sp=True, pp=2, vpp=4, dp=4, num_microbatches=16, recompute=recompute, schedule="interleaved")
    plan = replace(plan, embedding_as_layer=True, head_as_layer=True)
    without, with_it = (_asked(layers, precision="bf16") for layers in (0, 1))
    stages = [estimate_each([plan], each)[0].stages[1].memory for each in (without, with_it)]
    head = [head_memory(plan, each) for each in (without, with_it)]
    layer = layer_memory(plan, with_it, with_it.model.layer_kinds[0]).saved
    assert stages[1].activations - stages[0].activations == pytest.approx(layer + head[1].saved - head[0].saved)
    residual = 2 * 4096 * with_it.model.hidden_size / 2
    joined = 0 if recompute == "full" else 2 * residual
    assert head[1].saved == pytest.approx(2 * head[0].saved + residual + joined)
    assert head[0].working < head[1].working < 2 * head[0].working


@pytest.mark.parametrize(("cross_entropy", "waits"), [("unfused", 4), ("native", 4), ("fused", 2)])
def test_its_loss_waits_while_that_of_the_model_works(cross_entropy: str, waits: int) -> None:
    """One loss after the other goes backward (megatron/core/transformer/multi_token_prediction.py, process_mtp_loss).

    Golden values of deepseekv3_proxy_flex_tp2pp2emp16etp1cp1_gb_200 (NVIDIA/Megatron-LM@f098fe8482 and @a50252b6ad):
    Megatron's own loss and Transformer Engine's are 19.57 GiB apart at the first step, 5.0 bytes for each of
    2 x 4 x 4,096 x 128,000 logits.
    """
    runtime = read_runtime("megatron-core")
    runtime = runtime.replace(kernels=runtime.kernels.replace(cross_entropy=cross_entropy))
    heads = [head_memory(SAME_SPLIT, _asked(layers).replace(runtime=runtime)) for layers in (0, 1, 2)]
    logits = 4096 * llama_8b().vocab_size
    working = np.diff([float(head.working) for head in heads])
    assert working == pytest.approx([waits * logits] * 2)


@pytest.mark.parametrize(
    ("chunks", "sizes"),
    [(4, [16, 16, 16, 13]), (8, [8] * 7 + [5]), (16, [4] * 15 + [1]), (32, [1, *[2] * 30, 0])],
)
def test_unequal_chunks_of_deepseek_v3_are_those_of_its_recipes(chunks: int, sizes: list[int]) -> None:
    """NVIDIA-NeMo/Megatron-Bridge@05d003fb, recipes/deepseek/deepseek_v3.py; over 32, `Et|(tt|)*30mL`."""
    assert outer_fewer(61, chunks, mtp_layers=1).tolist() == sizes


def test_chunks_hold_every_layer_however_many_are_predicted() -> None:
    for layers, chunks, predicted in itertools.product((3, 8, 61), (1, 2, 3), (0, 1, 4, 100)):
        sizes = outer_fewer(layers, chunks, predicted)
        assert sizes.sum() == layers
        assert (sizes >= 0).all()


def test_a_search_leaves_room_for_it() -> None:
    model = llama_8b().replace(mtp_layers=1)
    found = find(question(model, "4x8:a100", global_batch=64, sequence_length=8192), top=50)
    pipelines = [estimate for estimate in (*found.best, *found.other_splits) if estimate.plan.pp > 1]
    assert any(estimate.stages[-1].layers < estimate.stages[0].layers for estimate in pipelines)


def test_without_tensor_parallelism_it_sends_nothing() -> None:
    inputs = _asked(1)
    (nothing, (forward, backward)) = (
        pass_times(prediction_exchanges(tensor_region(plan, inputs), plan, inputs), inputs)
        for plan in (Plan(dp=16), Plan(tp=8, sp=True, dp=2))
    )
    assert nothing == (0, 0)
    assert backward > forward > 0


def test_a_launch_names_it_and_leaves_the_overlap_of_exchanges_to_one_layer() -> None:
    def told(plan: Plan, inputs: Inputs) -> str:
        return "; ".join(map(str, launch_settings(plan, inputs)))

    assert "--mtp-num-layers 2: on the stage of the head" in told(PIPELINE, _asked(2))
    assert "'Et*9|t*9|t*9|t*5mmL': the last of 4 chunks" in told(PIPELINE, _asked(2))
    assert "no --mtp-num-layers: the 1 of" in told(Plan(), _asked(0))
    experts = question(latent().replace(mtp_layers=1), "2x8:b200")
    two = experts.replace(job=experts.job.replace(mtp_layers=2))
    assert "--overlap-moe-expert-parallel-comm" not in told(Plan(ep=8), experts)
    assert "it works with a single layer of multi-token prediction, and this plan trains 2" in told(Plan(ep=8), two)
