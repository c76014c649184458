"""Experts one after the other keep the host longer, are read and launched so, and are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.specs.behaviours import GROUPED_EXPERTS, with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.specs.switches import with_kernels_on
from strategies import llama_8b, question

ALONE = ("--with", "grouped_experts=off")
SCRIPT = """torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8
 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 32 --bf16 --num-experts 16
 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall --use-distributed-optimizer --vocab-size 50304
 --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --ffn-hidden-size 2048
 --untie-embeddings-and-output-weights {flags}
"""


def _host_s(inputs: Inputs, ep: int) -> float:
    return estimate_each([plan_of(inputs, ep=ep)], inputs)[0].time.host_s


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
def test_the_host_takes_longer_the_more_experts_a_rank_has(runtime: str) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h200", runtime)
    alone = inputs.replace(runtime=with_behaviours(inputs.runtime, [ALONE[1]]))
    assert _host_s(inputs, 8) < _host_s(alone, 8) < _host_s(alone, 4)
    again = with_kernels_on(alone, GROUPED_EXPERTS)
    assert again is not None
    assert _host_s(again, 8) == _host_s(inputs, 8)


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
def test_an_expert_alone_keeps_the_host_as_long_as_a_dense_layer_beyond_its_attention(runtime: str) -> None:
    host = with_behaviours(read_runtime(runtime), [ALONE[1]]).host
    for name in ("forward", "backward"):
        layer, attention, expert = (
            getattr(seconds, name)
            for seconds in (host.host_s_per_layer, host.host_s_per_attention, host.host_s_per_looped_expert)
        )
        assert expert == pytest.approx(layer - attention)


def test_a_dense_model_has_no_experts_to_run_apart() -> None:
    inputs = question(llama_8b(), "1x8:h200")
    assert with_kernels_on(inputs.replace(runtime=with_behaviours(inputs.runtime, [ALONE[1]])), GROUPED_EXPERTS) is None


def test_plan_names_what_one_module_would_save() -> None:
    asks = ("--model", "qwen3-30b-a3b", "--cluster", "2x8:h200", "--seq-len", "4096", "--global-batch", "256")
    said = " ".join(asked("plan", *asks, "--runtime", "megatron-core", *ALONE, "--more").out.split())
    assert "grouped_experts=on" in said
    assert "--moe-grouped-gemm" in said


@pytest.mark.parametrize(("flags", "apart"), [("", True), ("--moe-grouped-gemm", False)])
def test_a_script_without_the_flag_is_priced_so(flags: str, apart: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT.format(flags=flags).replace("\n", " "), "utf-8")
    said = " ".join(asked("explain", "--from", str(path), "--cluster", "1x8:h200", "--more").out.split())
    assert ("host_s_per_looped_expert" in said) == apart
