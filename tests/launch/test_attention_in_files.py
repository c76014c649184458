"""The attention kernel that files of fine-tuning name, and the one that runs where they name none."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_engines import FACTORY, SWIFT, TRAINER, TRL
from test_trained_weights import AXOLOTL

from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

FILES = {
    "trl": TRL + "fsdp: full_shard\n",
    "axolotl": AXOLOTL,
    "llama-factory": FACTORY,
    "trainer": TRAINER,
    "swift": SWIFT,
}
OPTIONS = {
    "trl": "attn_implementation",
    "axolotl": "attn_implementation",
    "llama-factory": "flash_attn",
    "trainer": "attn_implementation",
    "swift": "attn_impl",
}
EAGER, FASTEST = "eager attention, and is priced so", "is faster"


def read(folder: Path, framework: str, model: str, option: str = "", value: str = "") -> LaunchQuestion:
    text = FILES[framework]
    script = text in (TRAINER, SWIFT)
    said = (f" --{option} {value}" if script else f"{option}: {value}\n") if option else ""
    path = folder / ("a.sh" if script else "a.yaml")
    path.write_text(text + said)
    return question_of_file(path, Given(cluster="1x8:h200", model=model))


@pytest.mark.parametrize(
    ("framework", "value", "kernel"),
    [
        *((framework, "flash_attention_2", "flash-2") for framework in ("trl", "axolotl", "trainer", "swift")),
        *((framework, "flex_attention", "flex") for framework in ("trl", "axolotl", "trainer")),
        *((framework, "eager", "eager") for framework in ("trl", "axolotl", "trainer", "swift")),
        *((framework, "sdpa", "newest") for framework in OPTIONS),
        ("llama-factory", "auto", "newest"),
        ("llama-factory", "fa2", "flash-2"),
        ("llama-factory", "disabled", "eager"),
        ("swift", "flash_attn", "flash-2"),
    ],
)
def test_the_attention_that_is_named_is_priced(tmp_path: Path, framework: str, value: str, kernel: str) -> None:
    question = read(tmp_path, framework, "llama-3.1-8b", OPTIONS[framework], value)
    assert (question.dialect.name, question.inputs.attention_kernel) == (framework, kernel)
    assert not any("attn" in key for key in (*question.understood.unpriced, *question.understood.unknown))


@pytest.mark.parametrize("framework", OPTIONS)
def test_attention_without_a_price_is_told(tmp_path: Path, framework: str) -> None:
    value = "fa3" if framework == "llama-factory" else "flash_attention_3"
    question = read(tmp_path, framework, "llama-3.1-8b", OPTIONS[framework], value)
    assert question.inputs.attention_kernel == "newest"
    assert any(OPTIONS[framework] in key for key in question.understood.unpriced)


@pytest.mark.parametrize(
    ("switch", "kernel"),
    [
        ("flash_attention", "flash-2"),
        ("sdp_attention", "newest"),
        ("flex_attention", "flex"),
        ("eager_attention", "eager"),
    ],
)
def test_switches_of_axolotl_name_attention(tmp_path: Path, switch: str, kernel: str) -> None:
    question = read(tmp_path, "axolotl", "llama-3.1-8b", switch, "true")
    assert (question.inputs.attention_kernel, question.understood.unknown) == (kernel, {})
    off = read(tmp_path, "axolotl", "gemma-2-9b", switch, "false")
    assert (off.inputs.attention_kernel, off.understood.unknown) == ("eager", {})


@pytest.mark.parametrize(
    ("framework", "model", "kernel", "told"),
    [
        ("trl", "gemma-2-9b", "eager", f"gemma-2-9b runs {EAGER}; attn_implementation flash_attention_2 {FASTEST}"),
        ("trl", "gpt-oss-20b", "eager", f"gpt-oss-20b runs {EAGER}; attn_implementation flex_attention {FASTEST}"),
        ("axolotl", "gemma-2-9b", "eager", "so that gemma-2-9b runs eager attention"),
        ("trainer", "gemma-2-9b", "eager", "--attn_implementation is left out, so that gemma-2-9b runs eager"),
        ("llama-factory", "gemma-2-9b", "flash-2", "runs FlashAttention-2, and is priced so"),
        ("llama-factory", "gpt-oss-20b", "flex", "runs kernels-community/vllm-flash-attn3, which is not priced"),
        ("swift", "gemma-2-9b", "eager", f"runs {EAGER}; --attn_impl flash_attn {FASTEST}"),
        ("swift", "gemma-3-12b", "eager", "so that gemma-3-12b runs eager attention"),
        ("trl", "gemma-3-12b", "newest", ""),
        ("trl", "llama-3.1-8b", "newest", ""),
    ],
)
def test_what_runs_without_a_word_is_priced_and_told(
    tmp_path: Path, framework: str, model: str, kernel: str, told: str
) -> None:
    question = read(tmp_path, framework, model)
    assert question.inputs.attention_kernel == kernel
    notes = [note for note in question.notes if "is left out, so that" in note]
    assert [told in note for note in notes] == [True] * bool(told)


def test_a_kernel_that_the_model_has_not_is_told_as_unpriced(tmp_path: Path) -> None:
    """For GPT-OSS transformers takes another one than FlashAttention-2."""
    question = read(tmp_path, "trl", "gpt-oss-20b", "attn_implementation", "flash_attention_2")
    assert question.inputs.attention_kernel == "flex"
    assert "attn_implementation" in question.understood.unpriced
