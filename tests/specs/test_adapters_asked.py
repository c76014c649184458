"""Questions that train adapters: what they name, and for what they are refused."""

from __future__ import annotations

import pytest

from commands import asked
from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.specs.adapters import layer_adapters
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.job import Job, job_of
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.specs.varied import varied_inputs


def _job(**fields: object) -> Job:
    return Job(**{"sequence_length": 1024, "global_batch": 8, "lora_rank": 8} | fields)  # type: ignore[arg-type]


def test_modules_are_named_in_the_order_of_a_layer() -> None:
    kind = read_model("llama-3.1-8b").layer_kinds[0]
    named = layer_adapters(read_model("llama-3.1-8b"), kind, 8, ("down_proj", "q_proj"))
    assert [(each.module, each.features, each.outputs) for each in named] == [
        ("q_proj", 4096, 4096),
        ("down_proj", 14336, 4096),
    ]
    assert layer_adapters(read_model("llama-3.1-8b"), kind, 0, ("all-linear",)) == ()
    assert len(layer_adapters(read_model("llama-3.1-8b"), kind, 8, ("all-linear",))) == 7


def test_a_job_takes_modules_as_they_are_written() -> None:
    assert job_of(1024, 8, lora_rank=8, lora_modules="v_proj, q_proj").lora_modules == ("v_proj", "q_proj")
    with pytest.raises(InvalidInput, match="'lm_head' is none of these"):
        job_of(1024, 8, lora_rank=8, lora_modules="q_proj,lm_head")
    with pytest.raises(InvalidInput, match="adapters of q_proj need a rank: add --lora-rank 16"):
        job_of(1024, 8, lora_modules="q_proj")
    with pytest.raises(InvalidSpec, match="lora_modules"):
        _job(lora_modules=("lm_head",))


@pytest.mark.parametrize(
    ("model", "runtime", "job", "what"),
    [
        (
            "llama-3.1-8b",
            "torchtitan",
            {},
            "under torchtitan; use accelerate, deepspeed, megatron-bridge or pytorch-ddp",
        ),
        ("llama-3.1-8b", "megatron-lm", {}, "adapters are not priced under megatron-lm; use accelerate"),
        (
            "llama-3.1-8b",
            "megatron-bridge",
            {"lora_modules": ("q_proj", "down_proj")},
            "q_proj,down_proj is a part of what megatron-bridge computes in one product, .* use "
            "q_proj,k_proj,v_proj,down_proj",
        ),
        ("mixtral-8x7b", "megatron-core", {}, "all-linear has adapters on experts, .* use q_proj,k_proj,v_proj,o_proj"),
        ("llama-3.1-8b", "accelerate", {"precision": "fp8"}, "beside bf16 weights, not fp8; use bf16"),
        ("mixtral-8x7b", "accelerate", {}, "all-linear has adapters on experts, .* use q_proj,k_proj,v_proj,o_proj"),
        ("deepseek-v3", "accelerate", {}, "and deepseek-v3 is none; leave them out"),
        ("gpt2-xl", "accelerate", {}, "and gpt2-xl is none; leave them out"),
    ],
)
def test_what_is_not_priced_is_refused_with_the_way_out(
    model: str, runtime: str, job: dict[str, object], what: str
) -> None:
    with pytest.raises(InvalidSpec, match=what) as refused:
        read_inputs(model, "1x8:h100", _job(**job), runtime)
    assert len(refused.value.faults) == 1


@pytest.mark.parametrize("precision", ["fp16", "fp8", "fp8-delayed", "fp8-blockwise"])
def test_adapters_of_megatron_stand_beside_quantised_weights_too(precision: str) -> None:
    read_inputs("llama-3.1-8b", "1x8:h100", _job(precision=precision), "megatron-core")


def test_compiled_layers_are_refused() -> None:
    compiled = with_behaviours(read_runtime("accelerate"), ["compiled=true"])
    with pytest.raises(InvalidSpec, match="use --with compiled=false"):
        read_inputs("llama-3.1-8b", "1x8:h100", _job(), compiled)


def test_replicas_freeze_their_weights_in_two_bytes_by_themselves() -> None:
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", _job(), "pytorch-ddp")
    assert not inputs.runtime.storage.autocast
    assert inputs.residual_bytes == 2
    whole = read_inputs("llama-3.1-8b", "1x8:h100", _job(lora_rank=0), "pytorch-ddp")
    assert varied_inputs(whole, lora_rank=8) == inputs


def test_a_model_without_a_named_layer_is_refused() -> None:
    llama = read_model("llama-3.1-8b")
    (kind,) = llama.layer_kinds
    plain = llama.replace(layer_kinds=(kind.replace(feed_forward=kind.feed_forward.replace(gated=False)),))
    with pytest.raises(InvalidSpec, match="has no gate_proj; use all-linear"):
        read_inputs(plain, "1x8:h100", _job(lora_modules=("gate_proj",)), "accelerate")


def test_a_question_that_loses_its_adapters_loses_their_modules() -> None:
    inputs = read_inputs("llama-3.1-8b", "1x8:h100", _job(lora_modules=("q_proj",)), "accelerate")
    assert varied_inputs(inputs, lora_rank=0).job.lora_modules == ("all-linear",)
    assert varied_inputs(inputs, lora_rank=64).job.lora_modules == ("q_proj",)


def test_a_question_with_adapters_that_names_no_runtime_is_for_one_that_launches_them() -> None:
    def taken(job: Job, runtime: str | None = None) -> tuple[str, tuple[str, ...]]:
        inputs = read_inputs("llama-3.1-8b", "1x8:h100", job, runtime)
        return inputs.runtime.id, inputs.job.assumptions

    told = "runtime megatron-bridge, as megatron-core has no adapters of its own (set it with --runtime)"
    assert taken(_job()) == ("megatron-bridge", (told,))
    assert taken(_job(lora_rank=0)) == ("megatron-core", ())
    assert taken(_job(), "megatron-core") == ("megatron-core", ())


def test_the_command_says_which_runtime_it_took_for_adapters() -> None:
    words = ("plan", "llama-3.1-8b", "1x8:h100", "--lora-rank", "16", "--seq-len", "4096", "--global-batch", "32")
    told = " ".join(asked(*words).out.split())
    assert "Assumed: runtime megatron-bridge, as megatron-core has no adapters of its own" in told
    assert "cannot launch" not in told
    assert "cannot launch" in " ".join(asked(*words, "--runtime", "megatron-core").out.split())
