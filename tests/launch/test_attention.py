"""Attention of models of transformers: what is written is what is priced, or the launch is refused with what works."""

from __future__ import annotations

import ast
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from meshwright.answers.launch.files import launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.errors import InvalidSpec
from meshwright.launch.attention import transformers
from meshwright.launch.export import export, nearest_spelled
from meshwright.launch.fields import question_of
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.huggingface.families import FAMILIES
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import question

PLAN = Plan(dp=8, zero=2, num_microbatches=8)
SPELLED = {"newest": "sdpa", "flash-2": "flash_attention_2", "flex": "flex_attention", "eager": "eager"}
SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "head_dim": 16}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 2, "layer_types": None}
WITHOUT_CLASS = {"kimi_k2", "qwen3_vl_moe_text", "qwen3_vl_text"}


def _asked(model: str, kernel: str, runtime: str = "accelerate") -> Inputs:
    inputs = question(read_model(model), "1x8:h200", runtime, sequence_length=8192, global_batch=64)
    if kernel == inputs.attention_kernel:
        return inputs
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [f"attention_kernel={kernel}"]))


def _written(model: str, kernel: str, runtime: str) -> str:
    """The constant of the training script."""
    text = launch_files(PLAN, _asked(model, kernel, runtime), runtime).files["train.py"]
    (found,) = [
        each.value
        for each in ast.parse(text).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "ATTENTION"
    ]
    return str(ast.literal_eval(found))


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed"])
@pytest.mark.parametrize(
    ("model", "kernels"),
    [("llama-3.1-8b", [*SPELLED]), ("gemma-2-9b", ["flash-2", "flex", "eager"]), ("gpt-oss-20b", ["flex", "eager"])],
)
def test_the_script_asks_for_the_attention_that_is_priced_or_nothing_is_written(
    model: str, kernels: list[str], runtime: str
) -> None:
    for kernel, spelled in SPELLED.items():
        if kernel in kernels:
            assert _written(model, kernel, runtime) == spelled
            continue
        with pytest.raises(InvalidSpec, match=f"cannot train {model} ") as caught:
            export(PLAN, _asked(model, kernel, runtime), runtime)
        assert f"Plan with --with attention_kernel={kernels[0]}." in str(caught.value) + "."


def test_what_is_refused_is_written_as_the_refusal_says(tmp_path: Path) -> None:
    words = ("plan", "gemma-2-9b", "1x8:h200", "--runtime", "accelerate", "--seq-len", "8192", "--global-batch", "64")
    folder = tmp_path / "run"
    refused = asked(*words, "--with", "attention_kernel=newest", "--launch", str(folder))
    assert (refused.code, folder.exists()) == (2, False)
    *_, option, change = refused.err.split()
    assert asked(*words, "--launch", str(folder), option, change.rstrip(".")).code == 0
    assert "ATTENTION = 'flash_attention_2'" in (folder / "train.py").read_text()


@pytest.mark.parametrize("model", ["gpt-oss-20b", "gemma-2-9b"])
def test_sinks_and_capped_scores_are_planned_with_attention_that_transformers_has(model: str, tmp_path: Path) -> None:
    words = ("plan", model, "1x8:h200", "--runtime", "accelerate", "--seq-len", "8192", "--global-batch", "64")
    assert asked(*words, "--launch", str(tmp_path / "run")).code == 0
    assert "ATTENTION = 'flex_attention'" in (tmp_path / "run" / "train.py").read_text()
    for kernel in SPELLED:
        asked_for = with_behaviours(read_runtime("accelerate"), [f"attention_kernel={kernel}"])
        assert _asked(model, "flex").replace(runtime=asked_for).attention_kernel == kernel


def test_an_older_kernel_that_transformers_lacks_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"kernel flash-1 (?s:.*)Plan with --with attention_kernel=newest\."):
        export(PLAN, _asked("llama-3.1-8b", "flash-1"), "accelerate")


def test_a_model_without_a_class_of_transformers_is_refused() -> None:
    with pytest.raises(
        InvalidSpec, match=r"of the type kimi_k2\nNo plan that fits was found with --runtime megatron-bridge"
    ):
        export(PLAN, _asked("kimi-k2", "newest", "deepspeed"), "deepspeed")


@pytest.mark.parametrize(
    ("runtime", "model", "kernels"),
    [
        ("accelerate", "llama-3.1-8b", {"newest"}),
        ("deepspeed", "llama-3.1-8b", {"newest", "flash-2", "flex"}),
        ("deepspeed", "gemma-3-12b", {"flash-2"}),
        ("deepspeed", "gpt-oss-20b", set()),
    ],
)
def test_context_parallelism_splits_the_attention_that_its_framework_knows(
    runtime: str, model: str, kernels: set[str]
) -> None:
    exchange = {"accelerate": "all_gather", "deepspeed": "all_to_all"}[runtime]
    plan = replace(PLAN, dp=4, cp=2, context_exchange=exchange, zero=2, num_microbatches=16)
    for kernel in transformers().attention[read_model(model).family]:
        name = next(each for each, spelled in SPELLED.items() if spelled == kernel)
        inputs = _asked(model, name, runtime)
        if name in kernels:
            assert export(plan, inputs, runtime).plan == plan
            continue
        with pytest.raises(InvalidSpec, match=r"context parallelism of \w+ cannot split.*\nPlan with .*--cp 1"):
            export(plan, inputs, runtime)
        nearest = nearest_spelled(plan, inputs, runtime)
        assert nearest is not None
        assert nearest.cp == 1
        assert export(nearest, inputs, runtime)


@pytest.mark.parametrize(
    ("model", "kernel", "noted"),
    [("gemma-3-12b", "newest", True), ("gemma-3-12b", "flash-2", False), ("llama-3.1-8b", "newest", False)],
)
def test_windows_that_become_masks_are_said_in_the_files(model: str, kernel: str, noted: bool) -> None:
    files = launch_files(PLAN, _asked(model, kernel), "accelerate").files
    assert files
    for name, text in files.items():
        assert ("take longer than predicted" in " ".join(text.split("#"))) is noted, name


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed"])
def test_a_folder_is_priced_with_the_attention_of_its_script(runtime: str, tmp_path: Path) -> None:
    for kernel in SPELLED:
        files = launch_files(PLAN, _asked("llama-3.1-8b", kernel, runtime), runtime).files
        folder = write_folder(files, tmp_path / kernel)
        read = question_of_file(folder, Given(cluster="1x8:h200", model="llama-3.1-8b"))
        assert read.inputs.runtime.kernels.attention_kernel == kernel


def test_a_kernel_of_models_with_sinks_is_written_and_read() -> None:
    inputs = _asked("gpt-oss-20b", "newest")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["modified_attention_kernel=flex"]))
    launch = export(PLAN, inputs, "accelerate")
    assert launch.settings["runtime.attention_kernel"] == "flex_attention"
    fields = launch.fields | {"runtime.attention_kernel": "eager"}
    read = question_of(fields, inputs.cluster, inputs.runtime, model=inputs.model)[1]
    assert read.attention_kernel == "eager"


def test_every_family_that_is_read_has_its_implementations_or_no_class() -> None:
    assert transformers().attention.keys() == FAMILIES.keys() - WITHOUT_CLASS
    for name in ("accelerate", "deepspeed"):
        spelled = {*launch_table(name).rows["runtime.attention_kernel"].values.values()}
        assert {each for known in transformers().attention.values() for each in known} == spelled


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_has_these_implementations(family: str) -> None:
    library: Any = pytest.importorskip("transformers")
    assert transformers().release == f"transformers {library.__version__}"
    known = {name: each for name, each in library.CONFIG_MAPPING.items() if name == family}
    made = library.MODEL_FOR_CAUSAL_LM_MAPPING.get(known[family], None) if known else None
    if made is None:
        assert family in WITHOUT_CLASS
        return
    has = {"sdpa": made._supports_sdpa, "flex_attention": made._supports_flex_attn, "eager": True}
    has["flash_attention_2"] = made._supports_flash_attn and not made._compatible_flash_implementations
    assert {each for each, there in has.items() if there} == {*transformers().attention[family]}


@pytest.mark.clients("torch", "transformers")
@pytest.mark.parametrize(
    ("model", "kernel"), [("gpt-oss-20b", "flex"), ("gpt-oss-20b", "eager"), ("gemma-2-9b", "flex")]
)
def test_transformers_makes_the_model_of_the_script(model: str, kernel: str) -> None:
    torch: Any = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library: Any = pytest.importorskip("transformers")
        config = library.AutoConfig.for_model(read_model(model).family, **SMALL)
        written = _written(model, kernel, "accelerate")
        with torch.device("meta"):
            made = library.AutoModelForCausalLM.from_config(config, attn_implementation=written)
        assert made.config._attn_implementation == written
        with pytest.raises(ValueError, match="scaled_dot_product_attention"), torch.device("meta"):
            library.AutoModelForCausalLM.from_config(config, attn_implementation=SPELLED["newest"])
