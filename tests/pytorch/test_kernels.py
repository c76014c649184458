"""Stand-ins for fused kernels compute what PyTorch's own operators do, forward and backward."""

from __future__ import annotations

import warnings

import pytest

from meshwright.specs.model import Experts

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-clients")
    from meshwright.pytorch.trainer.experts import MixtureOfExperts
    from meshwright.pytorch.trainer.kernels import EPSILON, flash_attention, layer_norm, rms_norm

pytestmark = pytest.mark.clients("torch")
functional = torch.nn.functional


def _leaves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random).requires_grad_() for shape in shapes]


def _held(ours: torch.Tensor, theirs: torch.Tensor, leaves: list[torch.Tensor]) -> None:
    """Outputs, and gradients of a weighed sum of them, are the same."""
    weights = torch.linspace(-1, 1, ours.numel()).view(ours.shape)
    torch.testing.assert_close(ours, theirs)
    gradients = (torch.autograd.grad((out * weights).sum(), leaves) for out in (ours, theirs))
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_flash_attention_is_causal_attention_with_shared_key_value_heads() -> None:
    leaves = _leaves((2, 4, 10, 8), (2, 2, 10, 8), (2, 2, 10, 8))
    theirs = functional.scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)
    _held(flash_attention(*leaves), theirs, leaves)


def test_rms_norm_is_that_of_pytorch() -> None:
    x, weight = _leaves((2, 5, 16), (16,))
    _held(rms_norm(x, weight), functional.rms_norm(x, (16,), weight, EPSILON), [x, weight])


def test_layer_norm_is_that_of_pytorch() -> None:
    x, weight, bias = _leaves((2, 5, 16), (16,), (16,))
    _held(layer_norm(x, weight, bias), functional.layer_norm(x, (16,), weight, bias, EPSILON), [x, weight, bias])


def test_experts_answer_the_tokens_that_are_dealt_to_them() -> None:
    block = MixtureOfExperts(16, Experts(count=4, active=2, ffn_size=32))
    (x,) = _leaves((2, 6, 16))
    rows, experts = x.reshape(-1, 16), block.experts
    weights, chosen = block.router(rows)
    answers = []
    for row, scores, indices in zip(rows, weights, chosen, strict=True):
        each = [
            score * (experts.down[one] @ (functional.silu(experts.gate[one] @ row) * (experts.up[one] @ row)))
            for score, one in zip(scores, indices.tolist(), strict=True)
        ]
        answers.append(sum(each))
    _held(block(x), torch.stack(answers).view(x.shape), [x, *block.parameters()])
