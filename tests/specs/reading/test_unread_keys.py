"""Keys that a family does not have: named where they say something, and nothing is said of usual ones."""

from __future__ import annotations

import json
from pathlib import Path

from meshwright.specs.reading.huggingface.families import FAMILIES
from meshwright.specs.reading.model import read_model
from small_config import LLAMA

CONFIGS = Path(__file__).parents[2] / "data" / "hf_configs"


def told(**keys: object) -> list[str]:
    return [each for each in read_model(LLAMA | keys).assumptions if "not read" in each]


def test_a_key_that_the_family_does_not_have_is_named() -> None:
    assert told(sliding_window=4096, use_loops=True) == [
        "keys of the file that are not read, as LlamaConfig has none of them: sliding_window, use_loops"
    ]


def test_nothing_is_said_of_what_is_off_or_changes_no_price() -> None:
    assert told(use_loops=False, loops=None, _note="x", use_cache=True, eos_token_id=2, rms_norm_eps=1e-5) == []


def test_many_keys_are_counted() -> None:
    (note,) = told(**{f"loop_{number}": 1 for number in range(11)})
    assert note.endswith("loop_7 and 3 more")


def test_the_files_of_published_models_have_no_such_key() -> None:
    """But for those of families that are not read."""
    noisy = [
        path.stem
        for path in CONFIGS.glob("*.json")
        if json.loads(path.read_text("utf-8")).get("model_type") in FAMILIES
        and any("not read" in each for each in read_model(path).assumptions)
    ]
    assert noisy == []
