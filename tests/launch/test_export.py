"""Export: a plan is launched as it was priced, or refused by the name of what would differ."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import replace

import pytest
from hypothesis import given, settings

from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidInput, InvalidSpec, NotModelled, UnknownName
from meshwright.launch.export import export
from meshwright.launch.facts import facts_of
from meshwright.launch.table import launch_table, table_named
from meshwright.launch.writers.comments import commented
from meshwright.layout.legality import faults
from meshwright.layout.plan import Plan
from meshwright.specs.catalog import names
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import Planned, llama_8b, planned, question, questions, some_legal_plans, with_experts

LLAMA = question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16")
TITAN = question(read_model("llama-3.1-8b"), "8x8:h100", "torchtitan", global_batch=256, precision="bf16")
PLAN = Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32)


@pytest.mark.parametrize(("runtime", "name"), [("megatron-core", "megatron-lm"), ("megatron-bridge",) * 2])
@pytest.mark.parametrize(("degrees", "copies"), [({"ep": 2, "etp": 1}, True), ({"ep": 8, "etp": 1}, False)])
def test_experts_keep_their_zero_where_nothing_else_has_copies(
    runtime: str, name: str, degrees: dict[str, int], copies: bool
) -> None:
    """Without data parallelism, tp 8 and etp 1 still leave copies of the experts, whose states ZeRO 1 divides."""
    inputs = question(read_model("mixtral-8x7b"), "2x8:h100", runtime, global_batch=64, precision="bf16")
    usual = Plan(tp=8, sp=True, pp=2, num_microbatches=64, **degrees)
    for zero in (0, 1):
        plan = replace(usual, zero=zero)
        assert not faults(plan, inputs)
        settings = export(plan, inputs, name).settings
        divided = bool(zero) and copies
        assert ("--overlap-param-gather" in settings) is divided


@pytest.mark.parametrize("name", ["llama on h100", "mixtral-like on h100", "deepseek-like on b200, fp8"])
def test_every_legal_plan_of_a_model_that_megatron_has_is_exported_as_it_is(name: str) -> None:
    inputs = questions()[name]
    for plan in some_legal_plans(name, 500):
        assert export(plan, inputs, "megatron-lm").plan == plan


def test_every_legal_plan_of_a_model_that_torchtitan_has_is_exported_as_it_is() -> None:
    name = "llama on h100, torchtitan"
    inputs = questions()[name].replace(model=read_model("llama-3.1-8b"))
    for plan in some_legal_plans(name, 500):
        assert export(plan, inputs, "torchtitan").plan == plan


@settings(max_examples=40, deadline=None)
@given(planned(most=10))
def test_whatever_is_legal_is_exported_or_refused_by_the_name_of_what_the_model_has(asked: Planned) -> None:
    inputs = asked.inputs.replace(runtime=read_runtime("megatron-core"))
    for plan in asked.plans:
        if faults(plan, inputs):
            continue
        assert _refused(plan, inputs) <= {"model"}, plan


def _refused(plan: Plan, inputs: Inputs) -> set[str]:
    """What a refusal names: the first words of fields."""
    try:
        export(plan, inputs, "megatron-lm")
    except InvalidSpec as error:
        return {fault.where.partition(".")[0] for fault in error.faults}
    except NotModelled:
        return {"model"}
    return set()


def test_a_framework_may_be_named_as_its_runtime_is() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=64)
    plan = Plan(dp=8, zero=1, num_microbatches=8)
    named = (launch_files(plan, inputs, name).files for name in ("megatron-core", "megatron-lm"))
    assert next(named) == next(named)


def test_a_plan_of_another_framework_is_refused_or_replaced_by_the_nearest() -> None:
    plan = Plan(tp=8, sp=True, dp=8, zero=1, num_microbatches=32)
    inputs = LLAMA.replace(model=read_model("llama-3.1-8b"))
    with pytest.raises(InvalidInput, match=r"priced for the runtime megatron-core.*--runtime torchtitan"):
        launch_files(plan, inputs, "torchtitan")
    moved = launch_files(plan, inputs, "torchtitan", nearest=True)
    assert moved.launch.plan.zero == 2
    assert moved.replaced == ("runtime megatron-core becomes torchtitan", "zero 1 becomes 2")
    assert moved.estimate.plan == moved.launch.plan


def test_a_model_that_has_no_settings_is_refused_by_name() -> None:
    with pytest.raises(InvalidSpec, match="model: it has no setting for 4 norms a layer, and would run 2"):
        export(Plan(dp=8, zero=1), question(read_model("gemma-2-9b"), "1x8:h100"), "megatron-lm")
    bridge = question(read_model("gemma-3-27b"), "4x8:h100", "megatron-bridge")
    with pytest.raises(InvalidSpec, match="would run 2\nMegatron-Bridge has a provider of its own for it"):
        export(Plan(tp=4, sp=True, dp=8, zero=1), bridge, "megatron-bridge")
    with pytest.raises(InvalidSpec, match=r"is not in its registry, whose nearest model is llama-3\.1-8b"):
        export(Plan(dp=8, zero=3), question(read_model("mistral-7b"), "1x8:h100", "torchtitan"), "torchtitan")
    with pytest.raises(UnknownName, match="nonesuch"):
        launch_files(Plan(dp=8, zero=1), question(llama_8b(), "1x8:h100"), "nonesuch")


@pytest.mark.parametrize(
    ("model", "runtime", "said"),
    [
        (
            "gemma-3-1b",
            "megatron-core",
            "Plan with --runtime accelerate .*Megatron-Bridge has a provider.*--runtime megat",
        ),
        (
            "gemma-2-2b",
            "megatron-bridge",
            "^Megatron-Bridge has recipes of its own for it .*Plan with --runtime accelerate",
        ),
        (
            "gemma-2-2b",
            "nanotron",
            r"Megatron-Bridge has recipes of its own for it .*: --runtime megatron-bridge finds plans",
        ),
        ("pythia-6.9b", "megatron-bridge", "^Megatron-Bridge has nothing of its own for the model either"),
        ("pythia-6.9b", "megatron-core", r"^Plan with --runtime accelerate or deepspeed\.$"),
    ],
)
def test_a_model_that_has_no_settings_is_led_to_what_builds_it(model: str, runtime: str, said: str) -> None:
    inputs = question(read_model(model), "1x8:h100", runtime, sequence_length=1024, global_batch=64)
    with pytest.raises(InvalidSpec) as refusal:
        export(Plan(dp=8, zero=1, num_microbatches=8), inputs, table_named(runtime))
    assert re.search(said, refusal.value.hint)


def test_what_megatron_bridge_builds_by_itself_is_known_of_every_model_that_its_settings_refuse() -> None:
    refused, known = set(), launch_table("megatron-bridge").own_models
    for name in names("models"):
        inputs = question(read_model(name), "1x8:h100", "megatron-bridge", sequence_length=1024, global_batch=64)
        try:
            export(Plan(dp=8, zero=1, num_microbatches=8), inputs, "megatron-bridge")
        except InvalidSpec:
            refused.add(inputs.model.family)
    assert refused == {*known}


def test_scripts_say_what_was_predicted_and_what_is_missing() -> None:
    written = launch_files(PLAN, LLAMA, "megatron-lm")
    script = written.files["train.sh"]
    assert "a step. 8 in 10 runs like this take" in script
    assert "probability of fitting" in script
    assert "Written by Meshwright" in script
    assert "export CUDA_DEVICE_MAX_CONNECTIONS=1" in script
    assert '--data-path "${DATA_PATH:?' in script
    assert "#SBATCH --nodes=8" in written.files["job.slurm"]
    assert "tensor then context" in written.files["job.slurm"]
    words = shlex.split(script, comments=True)
    assert words[words.index("--tensor-model-parallel-size") + 1] == "8"


def test_a_configuration_module_is_python_with_the_stages_of_the_plan() -> None:
    plan = Plan(tp=2, sp=True, pp=4, dp=8, zero=2, micro_batch=2, num_microbatches=16, chunk_layers=(7, 8, 9, 8))
    module = ast.parse(launch_files(plan, TITAN, "torchtitan").files["meshwright_plan.py"])
    values = {each.arg: each.value for each in ast.walk(module) if isinstance(each, ast.keyword)}
    parts = ast.literal_eval(values["module_fqns_per_model_part"])
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == [7, 8, 9, 8]
    assert ast.literal_eval(values["local_batch_size"]) == 32
    assert ast.literal_eval(values["fsdp_reshard_after_forward"]) == "never"


def test_nothing_leaves_a_comment() -> None:
    assert all(line.startswith("#") for line in commented(["a\nrm -rf /\r\n$(x)", "b" * 500, "  c\u2028d"]))
    named = LLAMA.replace(model=llama_8b().replace(name='x"\n#SBATCH --oops; $(touch no)'))
    files = launch_files(PLAN, named, "megatron-lm").files
    for text in files.values():
        lines = [line for line in text.splitlines() if "oops" in line]
        assert all(line.startswith(("# ", "#SBATCH --job")) for line in lines)
        assert "$(touch" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


def test_facts_name_what_tables_ask_for() -> None:
    facts = facts_of(Plan(), with_experts(LLAMA, 64))
    assert facts["experts"]
    assert not facts["never"]
