"""Rotary tables of cosines, by what the attention of a model has."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.rotary import table_bytes
from meshwright.layout.plan import Plan
from meshwright.specs.reading.model import read_model
from strategies import question


@pytest.mark.parametrize(("name", "width"), [("llama-3.1-8b", 4), ("qwen3-8b", 8), ("gpt-oss-20b", 8)])
def test_torchtitan_has_cosines_for_qwen3_and_gpt_oss(name: str, width: int) -> None:
    model = read_model(name)
    kind = model.layer_kinds[0]
    inputs = question(model, "1x8:h100", "torchtitan", sequence_length=4096)
    assert float(table_bytes(Plan(dp=8, zero=3), inputs, kind)) == width * 4096 * kind.attention.head_dim
