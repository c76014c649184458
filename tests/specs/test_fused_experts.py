"""Fused products of experts are refused where they are not priced."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs.behaviours import FUSED_EXPERTS, with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from meshwright.specs.switches import with_kernels_on
from strategies import latent, llama_8b, mixture, question


def fused(inputs: Inputs) -> Inputs:
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["fused_experts=on"]))


def test_experts_in_other_precisions_and_of_other_kinds_are_refused() -> None:
    with pytest.raises(InvalidSpec, match="fused is priced for mxfp8 alone, not bf16"):
        fused(question(latent(), "2x8:b200", "megatron-bridge", precision="bf16"))
    plain = mixture().replace(
        layer_kinds=tuple(
            kind.replace(feed_forward=kind.feed_forward.replace(gated=False)) for kind in mixture().layer_kinds
        )
    )
    with pytest.raises(InvalidSpec, match="fused has kernels for SwiGLU alone, which the experts of"):
        fused(question(plain, "2x8:b200", "megatron-bridge", precision="mxfp8"))


def test_a_dense_model_is_as_it_was() -> None:
    inputs = fused(question(llama_8b(), "2x8:b200", "megatron-bridge", precision="bf16"))
    assert inputs.runtime.kernels.expert_products == "fused"


@pytest.mark.parametrize(
    ("runtime", "precision", "offered"),
    [
        ("megatron-bridge", "mxfp8", True),
        ("megatron-core", "mxfp8", True),
        ("megatron-bridge", "bf16", False),
        ("megatron-bridge@25.09", "mxfp8", False),
        ("torchtitan", "mxfp8", False),
    ],
)
def test_it_is_offered_where_the_framework_of_now_runs_it(runtime: str, precision: str, offered: bool) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:b200", precision=precision)
    after = with_kernels_on(inputs.replace(runtime=read_runtime(runtime)), FUSED_EXPERTS)
    assert (after is not None) == offered
    assert after is None or with_kernels_on(after, FUSED_EXPERTS) is None
