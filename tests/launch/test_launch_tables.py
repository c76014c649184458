"""Launch tables: what is spelled is understood again, for whatever plan a search recommends."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.answers.public.ask import plan as search
from meshwright.errors import InvalidInput, UnknownName
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import differences, fields_of, question_of
from meshwright.launch.forms import FORMS, read_value
from meshwright.launch.imports.dialects import DIALECTS
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.spelling import settings_of, understand
from meshwright.launch.table import launch_table, launch_tables, table_of
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.model import read_model
from meshwright.text_files import packaged_table
from strategies import llama_8b, question

MEGATRON = launch_table("megatron-lm")
ASKED = [
    ("megatron-lm", "llama-3.1-70b", "8x8:h100", "bf16"),
    ("megatron-lm", "qwen2.5-7b", "1x8:h100", "bf16"),
    ("megatron-lm", "mixtral-8x7b", "4x8:h100", "bf16"),
    ("megatron-lm", "deepseek-v3", "32x8:h100", "fp8-blockwise"),
    ("megatron-lm", "gpt-oss-20b", "2x8:h100", "bf16"),
    ("megatron-lm", "gpt-3-175b", "16x8:a100", "fp16"),
    ("torchtitan", "llama-3.1-8b", "8x8:h100", "bf16"),
    ("torchtitan", "qwen3-30b-a3b", "2x8:h100", "bf16"),
]


def _read_back(name: str, plan: Plan, inputs: Inputs, **said: Any) -> tuple[Plan, Inputs]:
    table = launch_table(name)
    told = understand(settings_of(fields_of(plan, inputs), facts_of(plan, inputs), table), table)
    assert (told.unknown, told.wrong, told.unpriced) == ({}, (), {})
    model = None if "model.heads" in table.rows else inputs.model
    return question_of(told.fields | said, inputs.cluster, inputs.runtime, model=model)


@pytest.mark.parametrize(("name", "model", "cluster", "precision"), ASKED)
def test_what_is_spelled_is_understood_again(name: str, model: str, cluster: str, precision: str) -> None:
    job = Job(sequence_length=2048, global_batch=512, precision=precision)
    found = search(model, cluster, job, runtime=launch_table(name).runtimes[0])
    for estimate in found.best:
        plan, inputs = _read_back(name, estimate.plan, found.inputs)
        assert not differences(estimate.plan, found.inputs, plan, inputs), estimate.plan


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_json_of_deepspeed_is_understood_beside_what_the_script_says(zero: int) -> None:
    inputs = question(llama_8b(), "1x8:h100", "deepspeed", precision="bf16", global_batch=64)
    plan = Plan(dp=8, zero=zero, micro_batch=2, num_microbatches=4)
    read = _read_back("deepspeed", plan, inputs, **{"job.sequence_length": inputs.job.sequence_length})
    assert not differences(plan, inputs, *read)


def test_what_a_framework_has_no_setting_for_differs() -> None:
    inputs = question(read_model("gemma-2-9b"), "1x8:h100")
    plan = Plan(dp=8, zero=1)
    assert "model.norms: 2, not 4" in differences(plan, inputs, *_read_back("megatron-lm", plan, inputs))


def test_defaults_of_the_framework_fill_what_is_left_out() -> None:
    flags = {"--num-layers": "4", "--hidden-size": "1024", "--num-attention-heads": "8", "--seq-length": "2048"}
    flags |= {"--micro-batch-size": "2", "--vocab-size": "32000", "--bf16": True, "--tensor-model-parallel-size": "2"}
    neither = {"--log-interval": "1", "--fsdp-manual-registration": True, "--decoupled-lr": "5.0e-4"}
    changing = {"--use-nccl-ub": True, "--calculate-per-token-loss": True}
    told = understand({**flags, **neither, **changing, "--my-own": "7"}, MEGATRON)
    assert told.ignored == neither
    assert (told.unknown, {*told.unpriced}) == ({"--my-own": "7"}, {*changing})
    cluster = read_cluster("1x8:h100")
    plan, inputs = question_of(told.fields, cluster, question(llama_8b(), "1x8:h100").runtime)
    assert (plan.tp, plan.dp, plan.num_microbatches, inputs.job.global_batch) == (2, 4, 1, 8)
    kind = inputs.model.layer_kinds[0]
    assert (kind.attention.head_dim, kind.feed_forward.ffn_size, inputs.model.tied_embeddings) == (128, 4096, True)


def test_what_is_wrong_is_told_with_its_setting() -> None:
    told = understand({"--num-layers": "many", "--recompute-granularity": "full", "--bf16": True}, MEGATRON)
    assert told.wrong[0] == "--num-layers 'many' is not a whole number"
    assert told.wrong[1].startswith("recomputation: --recompute-granularity full is not modelled")


@pytest.mark.parametrize(
    ("form", "written", "read"),
    [
        ("layer_marks", "([1]*3+[0]*1)*2", (1, 1, 1, 0, 1, 1, 1, 0)),
        ("layer_marks", "2", 2),
        ("window", "(127, 0)", 128),
        ("window", "0,0", 1),
        ("window", "-1,0", 0),
        ("count", "220_000_000", 220_000_000),
        ("words", "layernorm moe_act", ("layernorm", "moe_act")),
    ],
)
def test_forms_are_read_as_frameworks_read_them(form: str, written: str, read: Any) -> None:
    assert FORMS[form].read(written) == read


@pytest.mark.parametrize("text", ["__import__('os')", "[1]*10**9", "[1]*99999999", "(" * 500, ""])
def test_patterns_are_never_run(text: str) -> None:
    with pytest.raises(InvalidInput, match="--moe-layer-freq"):
        read_value("layer_marks", "--moe-layer-freq", text)


def test_unknown_tables_are_named() -> None:
    with pytest.raises(UnknownName, match="megatron-lm"):
        launch_table("megatron")
    assert {"deepspeed", "megatron-lm", "torchtitan"} <= {*launch_tables()}


def test_the_table_of_a_runtime_is_the_first_that_names_it() -> None:
    """Though only the tables that mention it are parsed."""
    every = {name: launch_table(name).runtimes for name in launch_tables()}
    for runtime in {*catalog.names("runtimes"), *(each for runtimes in every.values() for each in runtimes)}:
        assert table_of(runtime) == next((name for name in every if runtime in every[name]), None)


@pytest.mark.parametrize("name", launch_tables())
def test_what_is_to_be_filled_in_can_stand_in_an_expansion_of_the_shell(name: str) -> None:
    """Bash pairs quotes within "${NAME:?what}" too: between two apostrophes it took no option."""
    assert [what for what in launch_table(name).to_fill.values() if set("'\"$`\\{}") & set(what)] == []


def test_behaviours_look_at_the_settings_of_dialects() -> None:
    behaviours = packaged_table("meshwright.launch.imports", "behaviours.toml")["behaviours"]
    named = {name for each in behaviours for name in each["tables"]}
    switched_as = {name for each in DIALECTS for name in import_table(each.name).switched_as}
    assert switched_as <= named <= switched_as | {each.name for each in DIALECTS}


@pytest.mark.parametrize("library", catalog.table("frontends")["libraries"], ids=lambda each: each["names"][0])
def test_a_library_starts_what_its_launch_files_are_priced_as(library: dict[str, list[str]]) -> None:
    tables = [import_table(each.name) for each in DIALECTS if each.name in library["names"]]
    assert {runtime for table in tables for runtime in table.runtimes} == {*library["runtimes"]}
