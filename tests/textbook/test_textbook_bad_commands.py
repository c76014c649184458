"""Wrong questions on the command line: exit code 2, one message, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked, refused
from worked import ANALYZED, DEGREES, HARDWARE, flags


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze"], "model_config.num_layers: is missing"),
        (
            ["analyze", *flags(ANALYZED | DEGREES | HARDWARE | {"tp": 0})],
            "parallel_config.tp: is 0; it must be",
        ),
        (["analyze", *flags(ANALYZED | DEGREES | HARDWARE), "--cluster", "2x8:a100"], "needs --model"),
        (["analyze", "absent.json"], "no analyzer file 'absent.json'"),
        (["allreduce", *flags({"hidden_size": 0, "seq_len": 1, "num_gpus": 1, "num_layers": 1})], "hidden_size: is 0"),
        (["memory", "--model", "llama-2-7b"], "sequence_length: is missing; give --sequence-length"),
        (["memory", "--seq-len", "8"], "hidden_size: is missing; give --hidden-size or --model"),
        (["memory", "--model", "gemma-2-9b", "--seq-len", "8"], "gemma-2-9b (gemma2) has tied embeddings"),
        (["memory", "--model", "llama-2-7b", "--seq-len", "8", "--gpus", "8", "--tp", "2"], "leave out --tp"),
        (["memory", "--model", "llama-2-7b", "--seq-len", "8", "--form", "x"], "must be one of decided, literal"),
        (["memory", "--model", "llama-2-7b", "--seq-len", "4096", "--tp", "3"], "num_attention_heads is 32"),
        (["memory", "--model", "llama-2-7b", "--seq-len", "4096", "--tp", "3"], "nearest: 2 or 4"),
        (["memory", "--model", "llama-2-7b", "--seq-len", "4096", "--pp", "5", "--cp", "3"], "nearest: 4 or 8"),
        (["memory", "--model", "lama", "--seq-len", "8"], "unknown model 'lama'"),
        (
            ["search", "--cluster-metadata", "no.json", "--model-metadata", "no.json"],
            "no cluster metadata 'no.json'",
        ),
    ],
)
def test_bad_input_ends_with_exit_code_2(arguments: list[str], message: str) -> None:
    assert message in refused(asked("textbook", *arguments))


def test_bad_output_and_bad_questions_are_said_before_the_search(metadata: list[str], tmp_path: Path) -> None:
    nowhere = [*metadata[:-1], str(tmp_path / "no" / "o.json")]
    assert "does not exist" in refused(asked("textbook", "search", *nowhere))
    job = ("--model", "llama-3.1-8b", "--cluster", "1x8:h200k", "--seq-len", "8192")
    assert "h200k" in refused(asked("textbook", "search", *metadata, *job))
    assert not (tmp_path / "o.json").exists()
