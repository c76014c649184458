"""Options that are offered for one that nobody knows: near ones, and no others."""

from __future__ import annotations

import pytest

from meshwright.launch.imports.rules.nearest import near_option
from meshwright.launch.imports.rules.options import options_of


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("--tensor-model-paralel-size", "--tensor-model-parallel-size"),
        ("--tensor_model_parallel_size", "--tensor-model-parallel-size"),
        ("--seqlen", "--seq-length"),
        ("--num-heads", "--num-attention-heads"),
        ("--context-parallel", "--context-parallel-size"),
        ("--global-batch", "--global-batch-size"),
        *((far, "") for far in ("--use-liger", "--use-cool-attention", "--zero-stage", "--adam-foo", "--", "--é", "")),
    ],
)
def test_only_another_spelling_or_one_with_more_words_is_offered(given: str, near: str) -> None:
    options = options_of("megatron-lm")
    assert options is not None
    assert near_option(given, options.known) == near
    assert near_option(given, ()) == ""
