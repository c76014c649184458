"""Attention that writes its scores to memory: what of them is kept, and what is alive in backward."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.activations import layer_memory
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from strategies import llama_8b, question

SCORES = 32 * 8192 * 8192
FULL = Plan(recompute=Recompute.FULL)


@pytest.mark.parametrize(("compiled", "capped", "kept", "alive"), [
    ("false", False, 6, 12),
    ("false", True, 8, 14),
    ("true", False, 4, 8),
    ("true", True, 4, 8),
])  # fmt: skip
def test_scores_of_a_layer_are_those_that_pytorch_keeps_and_has_alive(
    compiled: str, capped: bool, kept: int, alive: int
) -> None:
    """Bytes a score beyond a layer with one score fewer of each kind, counted with PyTorch 2.13: every tensor that is
    alive where nothing is compiled; compiled, what the forward graph puts out, and both gradients in 2 bytes.
    """
    model = llama_8b()
    (kind,) = model.layer_kinds
    model = model.replace(layer_kinds=(kind.replace(attention=kind.attention.replace(softcap=capped)),))
    inputs = question(model, "1x8:h100", "accelerate", sequence_length=8192, global_batch=8)
    changes = ["attention_kernel=eager", "modified_attention_kernel=eager", f"compiled={compiled}"]
    runtime = with_behaviours(inputs.runtime, changes)
    without = {"score_bytes": 0, "capped_score_bytes": 0, "score_working_bytes": 0}

    def held(**activations: float) -> tuple[float, float]:
        each = inputs.replace(runtime=runtime.replace(activations=runtime.activations.replace(**activations)))
        memory = layer_memory(FULL, each, each.model.layer_kinds[0])
        return float(memory.again) / SCORES, float(memory.again + memory.working) / SCORES

    with_scores, none = held(), held(**without)
    assert with_scores[0] - none[0] == pytest.approx(kept)
    # Other work of the layer, which is what is alive most without scores, is less than a byte a score.
    assert alive - 1 < with_scores[1] - none[1] <= alive
