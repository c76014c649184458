"""Layers of multi-token prediction that some runtimes leave out."""

from __future__ import annotations

import pytest

from meshwright.answers.compare.prediction import prediction_words


@pytest.mark.parametrize(
    ("trained", "words"),
    [
        ({"megatron-core": 0, "torchtitan": 0}, ""),
        ({"megatron-core": 1}, ""),
        (
            {"megatron-bridge": 2, "torchtitan": 0, "megatron-core": 2, "deepspeed": 0},
            "megatron-bridge and megatron-core also train 2 layers of multi-token prediction; torchtitan and deepspeed "
            "train the model without it.",
        ),
    ],
)
def test_it_is_told_only_where_runtimes_differ(trained: dict[str, int], words: str) -> None:
    assert prediction_words(trained) == words
