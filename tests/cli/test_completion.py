"""Completion: the shell offers commands, options and the catalogue's names."""

from __future__ import annotations

from unittest import mock

import pytest

from commands import asked
from meshwright.cli import completion
from meshwright.specs import catalog


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word of a command line."""
    line = {"COMP_WORDS": " ".join(("meshwright", *words)), "COMP_CWORD": str(len(words))}
    with mock.patch.dict("os.environ", line | {"_MESHWRIGHT_COMPLETE": "complete_bash"}):
        return asked().out.split()


CASES = [
    (("pl",), "plan"),
    (("plan", "--glo"), "--global-batch"),
    (("plan", "--model", "qwen3-2"), "qwen3-235b-a22b"),
    (("plan", "qwen3-2"), "qwen3-235b-a22b"),
    (("plan", "gpt2", "8x8:h200"), "8x8:h200-sxm-141gb"),
    (("explain", "--runtime", "torcht"), "torchtitan"),
    (("compare", "--cluster", "sele"), "selene"),
    (("catalog", "acc"), "accelerators"),
    (("model", "kimi"), "kimi-k2"),
    (("memo", "--precision", "mx"), "mxfp8"),
]


@pytest.mark.parametrize(("words", "wanted"), CASES)
def test_a_word_that_is_begun_is_ended(words: tuple[str, ...], wanted: str) -> None:
    assert wanted in offered(*words)


def test_every_offer_is_a_name_of_the_catalogue() -> None:
    assert completion.models("") == [*catalog.names("models")]
    assert completion.runtimes("") == [*catalog.names("runtimes"), "all"]
    assert completion.clusters("") == [*catalog.names("clusters")]
    assert {each.rpartition(":")[2] for each in completion.clusters("8x8:")} == {*catalog.names("accelerators")}
