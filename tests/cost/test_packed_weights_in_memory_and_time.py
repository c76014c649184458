"""Packed weights (QLoRA): what they take, what unpacking them costs, and who has them."""

from __future__ import annotations

import pytest

from meshwright.cost.compute.adapters import adapter_traffic
from meshwright.cost.compute.host import issue_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.adapters import kept_by_adapters
from meshwright.cost.memory.parameters import gathered_layer_parameters
from meshwright.cost.memory.stage_parameters import stage_units
from meshwright.cost.memory.timeline import Moment
from meshwright.cost.shapes import pipelines_of
from meshwright.cost.shard import layer_shard
from meshwright.cost.step import estimate_each
from meshwright.errors import CannotVerify, InvalidSpec
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.pytorch.scope import scope_of
from meshwright.specs.behaviours import beside_adapters, with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime

HIDDEN, FFN, KEYS, LAYERS, VOCABULARY, RANK = 4096, 14336, 1024, 32, 128256, 16
MATRICES = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * KEYS + 3 * HIDDEN * FFN
"""Weights of the linear layers of one layer of Llama 3.1 8B."""
ADAPTERS = RANK * (4 * HIDDEN + 2 * (HIDDEN + KEYS) + 3 * (HIDDEN + FFN))
SCALES = 1 / 64 + 4 / (64 * 256)
"""Dettmers et al., arXiv:2305.14314, section 3: 8 bits for 64 weights, 32 for 256 of these; 0.127 bits a weight."""
OTHERS = 2 * VOCABULARY * HIDDEN + (2 * LAYERS + 1) * HIDDEN
PACKED = "frozen_weights=nf4"


def asked(
    *behaviours: str, runtime: str = "accelerate", cluster: str = "1x8:h100", rank: int = RANK, **fields: object
) -> Inputs:
    sizes = {"sequence_length": 2048, "global_batch": 8, "lora_rank": rank} | fields
    job = Job(**{name: value for name, value in sizes.items() if name != "model"})
    own = beside_adapters(with_behaviours(read_runtime(runtime), behaviours), job)
    return read_inputs(str(fields.get("model", "llama-3.1-8b")), cluster, job, own)


def priced(inputs: Inputs, **plan: object) -> Estimate:
    return estimate_each([Plan(**plan)], inputs)[0]  # type: ignore[arg-type]


def test_the_scales_are_those_of_the_paper() -> None:
    assert pytest.approx(0.127, abs=5e-4) == 8 * SCALES


def test_ranks_divide_packed_weights_and_hold_the_scales_of_all() -> None:
    inputs = asked(PACKED)
    pipelines, _ = pipelines_of(Plans.of([Plan(dp=8, zero=3)]), inputs, keep_all_stages=True)
    _, stored = stage_units(pipelines.plans, pipelines.stages, inputs)
    assert stored.all == [(OTHERS + LAYERS * (MATRICES / 4 + ADAPTERS)) / 8]
    assert stored.packed == [LAYERS * MATRICES]


def test_a_replica_holds_half_a_byte_a_weight_with_its_scales() -> None:
    frozen = asked(runtime="pytorch-ddp"), asked(PACKED, runtime="pytorch-ddp")
    half, packed = (priced(each, dp=8).memory.parameters for each in frozen)
    assert half - packed == pytest.approx(LAYERS * MATRICES * (2 - 0.5 - SCALES), rel=1e-9)


def test_a_quarter_of_what_2_byte_weights_take_is_gathered() -> None:
    plan = Plan(dp=8, zero=3)
    half, packed = (
        float(gathered_layer_parameters(plan, each, each.model.layer_kinds[0])[0]) for each in (asked(), asked(PACKED))
    )
    assert half - packed == pytest.approx(0.75 * MATRICES, rel=1e-9)


def test_every_product_unpacks_its_weight_in_each_pass() -> None:
    inputs = asked(PACKED, runtime="pytorch-ddp")
    kind = inputs.model.layer_kinds[0]
    shard = layer_shard(Plan(), inputs, kind)
    half, packed = (adapter_traffic(Plan(), each, kind, shard) for each in (asked(runtime="pytorch-ddp"), inputs))
    moved = 0.5 + 1 / 64 + 2 * 4 / 64 + 2  # packed and its scale, the scale written and read in fp32, the weight
    # Against 2-byte weights: no input is cast to fp32 and back, and outputs are copied.
    features, outputs = 6 * HIDDEN + FFN, 2 * HIDDEN + 2 * KEYS + 2 * FFN + HIDDEN
    residual, tokens = inputs.runtime.elementwise_bytes.residual, 2048
    fewer, copied = 2 * tokens * features, 2 / 3 * tokens * outputs
    forward = sum(block.forward for block in packed) - sum(block.forward for block in half)
    backward = sum(block.backward for block in packed) - sum(block.backward for block in half)
    assert forward == pytest.approx(moved * MATRICES + residual.forward * (copied - fewer), rel=1e-9)
    assert backward == pytest.approx(moved * MATRICES - residual.backward * fewer, rel=1e-9)


def test_what_is_recomputed_unpacks_again() -> None:
    few = [asked(*each, sequence_length=128) for each in ((), (PACKED,))]
    plan = Plan(dp=8, zero=3, recompute=Recompute.FULL)
    half, packed = (layer_time(plan, each, each.model.layer_kinds[0]).recompute.total for each in few)
    assert packed > half


def test_adapters_beside_them_share_what_they_read() -> None:
    plan = Plan()
    half, packed = (
        kept_by_adapters(
            plan, each, each.model.layer_kinds[0], layer_shard(plan, each, each.model.layer_kinds[0]), "attention"
        )
        for each in (asked(runtime="pytorch-ddp"), asked(PACKED, runtime="pytorch-ddp"))
    )
    assert half - packed == 2 * 2048 * 2 * HIDDEN  # of three inputs in 2 bytes one


def test_the_host_issues_more_for_each_of_seven_products() -> None:
    half, packed = (issue_time(Plan(), each, each.model.layer_kinds[0]) for each in (asked(), asked(PACKED)))
    each = asked().runtime.host.host_s_per_unpacked_weight
    assert float(packed.forward - half.forward) == pytest.approx(7 * each.forward, rel=1e-6)
    assert float(packed.backward - half.backward) == pytest.approx(7 * each.backward, rel=1e-6)


def test_ranks_that_load_all_of_them_hold_most_before_the_first_step() -> None:
    whole, apart = (
        priced(asked(PACKED, *more, model="llama-3.1-70b"), dp=8, zero=3, recompute=Recompute.FULL)
        for more in ((), ("loads_whole=false",))
    )
    assert [each.stages[0].peak_moment == Moment.LOADING for each in (whole, apart)] == [True, False]
    assert whole.memory.parameters > 0.5 * 70e9 > apart.memory.parameters


def test_one_accelerator_alone_loads_what_it_keeps() -> None:
    (stage,) = priced(asked(PACKED, cluster="1x1:h100"), num_microbatches=8).stages
    assert stage.peak_moment != Moment.LOADING


def test_experts_and_ends_stay_in_2_bytes() -> None:
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    fields = {"model": "qwen3-30b-a3b", "runtime": "pytorch-ddp", "lora_modules": attention}
    half, packed = (priced(asked(*each, **fields), dp=8).memory.parameters for each in ((), (PACKED,)))  # type: ignore[arg-type]
    of_attention = 48 * (2 * 2048 * 4096 + 2 * 2048 * 512)
    assert half - packed == pytest.approx(of_attention * (1.5 - SCALES), rel=1e-9)


@pytest.mark.parametrize(
    ("runtime", "rank", "message"),
    [
        ("accelerate", 0, "weights in 4 bits are not trained, and no adapters stand beside them; add --lora-rank 16"),
        ("deepspeed", 8, "4-bit weights are not priced under deepspeed; use accelerate or pytorch-ddp, or half"),
        ("megatron-bridge", 8, "4-bit weights are not priced under megatron-bridge; use accelerate or pytorch-ddp"),
    ],
)
def test_without_adapters_or_under_other_runtimes_they_are_refused(runtime: str, rank: int, message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        asked(PACKED, runtime=runtime, rank=rank)


def test_fake_tensors_do_not_run_them() -> None:
    with pytest.raises(CannotVerify, match="frozen weights in 4 bits are not run on fake tensors"):
        scope_of(Plan(dp=8, zero=3), asked(PACKED))
