"""The memo's table of number formats."""

from __future__ import annotations

import pytest

from meshwright.answers.memo.sections.precision import _formats
from strategies import llama_8b, question


@pytest.mark.parametrize(("precision", "told"), [("bf16", None), ("fp8", "1"), ("mxfp8", "1.03125, gradients 2.0625")])
def test_the_memo_names_the_bytes_that_ranks_gather_quantised(precision: str, told: str | None) -> None:
    rows = {row[0]: row[2] for row in _formats(question(llama_8b(), "8x8:b200", precision=precision))}
    assert rows.get("what tensor-parallel ranks gather") == told
