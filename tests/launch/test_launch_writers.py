"""Writers: the files of every framework hold the plan, parse as what they are, and stop where something is missing."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pytest
import yaml

from meshwright.answers.launch.files import framework_of, launch_files
from meshwright.errors import IllegalPlan, InvalidSpec
from meshwright.launch.export import export, nearest_spelled
from meshwright.launch.table import launch_table, table_named
from meshwright.layout.legality import faults
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.catalog import names
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind, Mlp, Model
from meshwright.specs.reading.model import read_model
from strategies import legal_plans, llama_8b, question

LLAMA = read_model("llama-3.1-8b")
PLANS = {
    "megatron-bridge": Plan(tp=2, sp=True, pp=2, vpp=2, dp=2, zero=1, num_microbatches=32, schedule="interleaved"),
    "megatron-deepspeed": Plan(tp=2, pp=2, dp=2, zero=1, micro_batch=2, num_microbatches=16, recompute="full"),
    "deepspeed": Plan(tp=2, dp=4, zero=1, micro_batch=2, num_microbatches=8),
    "accelerate": Plan(cp=2, dp=4, context_exchange="all_gather", zero=3, num_microbatches=16, recompute="full"),
    "nanotron": Plan(tp=2, sp=True, pp=2, dp=2, num_microbatches=32),
    "llm-foundry": Plan(dp=8, zero=3, micro_batch=4, num_microbatches=2, recompute="full"),
}


def asked(name: str) -> Inputs:
    return question(LLAMA, "1x8:h100", name, global_batch=64, precision="bf16")


@pytest.mark.parametrize("name", PLANS)
def test_every_file_is_what_its_name_says(name: str, tmp_path: Path) -> None:
    files = launch_files(PLANS[name], asked(name), name).files
    for file, text in files.items():
        assert "Written by Meshwright" in text
        assert "a step. 8 in 10 runs like this take" in text
        if file.endswith(".py"):
            ast.parse(text)
        elif file.endswith((".sh", ".slurm")) and shutil.which("bash"):
            (tmp_path / file).write_text(text)
            subprocess.run(["bash", "-n", str(tmp_path / file)], check=True)
    assert {"train.sh", "job.slurm"} < files.keys()


def test_deepspeed_gets_its_batch_triple_and_the_script_the_rest() -> None:
    files = launch_files(PLANS["deepspeed"], asked("deepspeed"), "deepspeed").files
    settings = json.loads(files["deepspeed.json"])
    assert "train_batch_size" not in settings
    assert (settings["train_micro_batch_size_per_gpu"], settings["gradient_accumulation_steps"]) == (2, 8)
    assert settings["tensor_parallel"] == {"autotp_size": 2}
    assert settings["zero_optimization"]["stage"] == 1
    assert "sequence_length" not in str(settings.keys())
    assert f"SEQUENCE_LENGTH = {asked('deepspeed').job.sequence_length}" in files["train.py"]


def test_megatron_deepspeed_gets_arguments_and_the_batch_of_its_json() -> None:
    name = "megatron-deepspeed"
    files = launch_files(PLANS[name], asked(name), name).files
    settings = json.loads(files["ds_config.json"])
    assert (settings["train_batch_size"], settings["train_micro_batch_size_per_gpu"]) == (64, 2)
    assert (settings["zero_optimization"]["stage"], settings["data_types"]["grad_accum_dtype"]) == (1, "fp32")
    assert '--deepspeed_config "$HERE/ds_config.json"' in files["train.sh"]
    model = files["train.sh"].partition("MODEL=(")[2].partition(")")[0]
    assert all(flag in model for flag in ("--swiglu", "--disable-bias-linear", "--num-key-value-heads 8"))


def test_stages_of_zero_that_deepspeed_refuses_late_are_not_written() -> None:
    """Stage 0 takes gradients of the type of weights alone (DeepSpeed 0.19.8 runtime/engine.py,
    _do_optimizer_sanity_check), and shards optimizer states of bf16 under Megatron-DeepSpeed's pipeline.
    """
    plan = Plan(dp=8, zero=0, num_microbatches=8)
    with pytest.raises(InvalidSpec, match="job: it has no setting for gradients in fp32"):
        export(
            plan,
            question(LLAMA, "1x8:h100", "deepspeed", global_batch=64, precision="bf16", gradients="fp32"),
            "deepspeed",
        )
    with pytest.raises(InvalidSpec, match="plan: it has no setting for ZeRO stage 0, and would run 1"):
        export(plan, asked("megatron-deepspeed"), "megatron-deepspeed")
    alone = Plan(tp=8, dp=1, zero=0, num_microbatches=64)
    assert export(alone, asked("megatron-deepspeed"), "megatron-deepspeed").settings["zero_optimization.stage"] == 1


def test_accelerate_gets_the_mesh_and_the_script_the_batch() -> None:
    files = launch_files(PLANS["accelerate"], asked("accelerate"), "accelerate").files
    settings = yaml.safe_load(files["accelerate.yaml"])
    mesh = {key.removeprefix("parallelism_config_"): value for key, value in settings["parallelism_config"].items()}
    assert mesh == {"tp_size": 1, "cp_size": 2, "dp_replicate_size": 1, "dp_shard_size": 4}
    assert settings["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert settings["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert "gradient_accumulation_steps" not in settings  # an FSDP file with it is refused
    assert "MICRO_BATCHES = 16" in files["train.py"]


def test_nanotron_gets_degrees_micro_batches_and_the_model() -> None:
    settings = yaml.safe_load(launch_files(PLANS["nanotron"], asked("nanotron"), "nanotron").files["nanotron.yaml"])
    assert {each: settings["parallelism"][each] for each in ("dp", "pp", "tp")} == {"dp": 2, "pp": 2, "tp": 2}
    assert settings["parallelism"]["tp_mode"] == "REDUCE_SCATTER"
    assert settings["tokens"]["batch_accumulation_per_replica"] == 32
    assert settings["model"]["model_config"]["num_key_value_heads"] == 8
    assert (settings["optimizer"]["zero_stage"], settings["optimizer"]["accumulate_grad_in_fp32"]) == (0, True)


@pytest.mark.parametrize("degrees", [{"dp": 8}, {"dp": 4, "tp": 2}, {"cp": 8}, {"dp": 4, "cp": 2}])
def test_states_that_nanotron_cannot_shard_are_refused(degrees: dict[str, int]) -> None:
    """Beside gradients in fp32, huggingface/nanotron@2411b022a75f src/nanotron/optim/gradient_accumulator.py,
    fp32_accum_hook, raises NotImplementedError with dp, and trainer.py, training_step, with cp alone, as make_ddp says.
    """
    exchange = {"context_exchange": "all_gather"} if "cp" in degrees else {}
    plan = Plan(**degrees, **exchange, zero=1, num_microbatches=64 // degrees.get("dp", 1))
    with pytest.raises(InvalidSpec, match=r"no setting for ZeRO stage 1, and would run 0\n.*--zero 0"):
        export(plan, asked("nanotron"), "nanotron")
    near = nearest_spelled(plan, asked("nanotron"), "nanotron")
    assert near is not None
    assert (near.zero, near.dp, near.cp) == (0, plan.dp, plan.cp)


def test_one_rank_of_nanotron_divides_nothing_whatever_its_plan_says() -> None:
    alone = Plan(tp=8, zero=1, num_microbatches=64)
    assert export(alone, asked("nanotron"), "nanotron").settings["optimizer.zero_stage"] == 0


def test_nanotron_without_gradients_in_fp32_has_no_fp32_weights_and_is_refused() -> None:
    """huggingface/nanotron@2411b022a75f src/nanotron/helpers.py, init_optimizer_and_grad_accumulator."""
    half = asked("nanotron").replace(job=asked("nanotron").job.replace(gradients="half"))
    with pytest.raises(InvalidSpec, match=r"no setting for gradients in half, and would run fp32"):
        export(Plan(dp=8, num_microbatches=8), half, "nanotron")


def test_llm_foundry_gets_a_model_of_mpt_that_is_llama() -> None:
    name = "llm-foundry"
    settings = yaml.safe_load(launch_files(PLANS[name], asked(name), name).files["llm-foundry.yaml"])
    assert settings["model"]["ffn_config"] == {
        "ffn_hidden_size": 14336,
        "ffn_type": "mptglu",
        "ffn_act_fn": {"name": "silu"},
    }
    assert settings["model"]["attn_config"]["kv_n_heads"] == 8
    assert settings["fsdp_config"]["sharding_strategy"] == "FULL_SHARD"
    assert settings["global_train_batch_size"] == 64
    assert settings["model"]["use_train_metrics"] is False  # on by default, and not priced


def test_a_recipe_assigns_the_fields_of_megatron_bridge() -> None:
    name = "megatron-bridge"
    module = ast.parse(launch_files(PLANS[name], asked(name), name).files["meshwright_plan.py"])
    model = {each.arg: ast.unparse(each.value) for each in ast.walk(module) if isinstance(each, ast.keyword)}
    wanted = {"tensor_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 2, "num_query_groups": 8}
    assert {key: int(model[key]) for key in wanted} == wanted
    assert model["pipeline_dtype"] == "torch.bfloat16"
    assert model["cross_entropy_fusion_impl"] == "'te'"
    assigned = {ast.unparse(each.targets[0]): ast.unparse(each.value) for each in ast.walk(module) if _assigns(each)}
    assert assigned["cfg.dataset.seq_length"] == str(asked(name).job.sequence_length)
    assert assigned["cfg.mixed_precision.grad_reduce_in_fp32"] == "False"


@pytest.mark.parametrize(("name", "zero", "least"), [("megatron-bridge", 1, 40), ("torchtitan", 3, 10)])
def test_a_recipe_of_every_model_of_the_catalogue_is_python(name: str, zero: int, least: int) -> None:
    written = 0
    for model in names("models"):
        inputs = question(read_model(model), "1x8:h100", name, sequence_length=1024, global_batch=64, precision="bf16")
        with contextlib.suppress(InvalidSpec):
            plan = Plan(dp=8, zero=zero, num_microbatches=8)
            recipe = launch_files(plan, inputs, name).files["meshwright_plan.py"]
            compile(recipe, f"{model}.py", "exec")
            written += 1
    assert written >= least


def test_a_recipe_asks_for_nothing_that_it_says() -> None:
    inputs = question(
        read_model("deepseek-v3"), "1x8:h100", "megatron-bridge", global_batch=64, sequence_length=1024, mtp_layers=0
    )
    script = launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, "megatron-bridge").files["train.sh"]
    assert not {"ROPE_TYPE", "ROTARY_SCALING_FACTOR"} & {*re.findall(r"\$\{(\w+):?\?", script)}


def _recipe_of(model: str | Model, plan: Plan, *behaviours: str) -> dict[str, str]:
    """What a recipe of Megatron-Bridge passes to the model's provider and assigns, as Python."""
    known = read_model(model) if isinstance(model, str) else model
    inputs = question(known, "1x8:h100", "megatron-bridge", sequence_length=1024, global_batch=64, precision="bf16")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))
    module = ast.parse(launch_files(plan, inputs, "megatron-bridge").files["meshwright_plan.py"])
    passed = {str(each.arg): ast.unparse(each.value) for each in ast.walk(module) if isinstance(each, ast.keyword)}
    return passed | {
        ast.unparse(each.targets[0]): ast.unparse(each.value) for each in ast.walk(module) if _assigns(each)
    }


def test_a_recipe_sets_what_providers_of_megatron_bridge_leave_out() -> None:
    """MLAModelProvider takes the defaults of Megatron-core's TransformerConfig (megatron-bridge 0.6.2,
    models/transformer_config.py), which is plain attention and no fused kernels.
    """
    recipe = _recipe_of("deepseek-v2-lite", Plan(dp=8, zero=1, num_microbatches=8))
    assert recipe["apply_rope_fusion"] == "os.environ['ROPE_TYPE'] == 'yarn'"
    on = ("multi_latent_attention", "bias_dropout_fusion", "gradient_accumulation_fusion")
    assert {recipe[name] for name in on} == {recipe["persist_layer_norm"], recipe["bias_activation_fusion"], "True"}
    assert recipe["attention_softmax_in_fp32"] == "False"
    assert recipe["moe_layer_freq"] == "[0] * 1 + [1] * 26"


def test_a_recipe_names_layers_that_are_not_all_alike_or_latent() -> None:
    """A provider's own layers have plain attention, and experts everywhere or nowhere (Megatron-Bridge@067f987df03b
    models/gpt_provider.py, transformer_engine_layer_spec): its bridges name them as deepseek_v3_bridge.py L57 does.
    """
    by_layer = "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)"
    plan, alike = Plan(dp=8, zero=1, num_microbatches=8), read_model("qwen3-30b-a3b")
    dense = LayerKind(name="dense", attention=alike.layer_kinds[0].attention, feed_forward=Mlp(ffn_size=6144))
    pattern = (1, 1, *(0,) * (alike.num_layers - 2))
    dense_first = alike.replace(layer_kinds=(*alike.layer_kinds, dense), layer_pattern=pattern)
    models = {"latent": read_model("deepseek-v2-lite"), "dense first": dense_first, "alike": alike, "dense": LLAMA}
    said = {name: _recipe_of(model, plan).get("transformer_layer_spec") for name, model in models.items()}
    assert said == {"latent": by_layer, "dense first": by_layer, "alike": None, "dense": None}


@pytest.mark.parametrize(
    ("model", "ep", "runtime", "fp32"),
    [
        ("llama-3.1-8b", 1, "megatron-bridge", False),
        ("mixtral-8x7b", 8, "megatron-core", False),
        ("mixtral-8x7b", 1, "megatron-bridge", False),
        ("mixtral-8x7b", 8, "megatron-bridge", True),
        ("qwen3-30b-a3b", 1, "megatron-core", True),
        ("qwen3-30b-a3b", 8, "megatron-bridge", True),
    ],
)
def test_routers_of_many_experts_and_of_fused_dispatchers_score_in_fp32(
    model: str, ep: int, runtime: str, fp32: bool
) -> None:
    """Megatron-core warns of the rest (transformer_config.py L3119, token_dispatcher.py L1135 and L1312)."""
    name, flag = table_named(runtime), {"megatron-core": "--moe-router-dtype fp32"}
    said = flag.get(runtime, "moe_router_dtype='fp32'")
    inputs = question(read_model(model), "1x8:h100", runtime, global_batch=64, precision="bf16")
    files = launch_files(Plan(dp=8, ep=ep, zero=1, num_microbatches=8), inputs, name).files
    assert any(said in text for text in files.values()) is fp32


@pytest.mark.parametrize(("model", "fused"), [("gpt-oss-20b", "True"), ("gpt2", "False")])
def test_a_recipe_fuses_biases_and_activation_where_megatron_core_can(model: str, fused: str) -> None:
    assert _recipe_of(model, Plan(dp=8, zero=1, num_microbatches=8))["bias_activation_fusion"] == fused


@pytest.mark.parametrize(
    ("name", "said"),
    [("megatron-lm", "--init-model-with-meta-device"), ("megatron-bridge", "init_model_with_meta_device=True,")],
)
def test_sharded_models_are_made_in_shards(name: str, said: str) -> None:
    """Megatron-LM d98e8a64ddf3 training.py L2420-2466 else moves the whole model to every accelerator first."""
    inputs = question(LLAMA, "1x8:h100", launch_table(name).runtimes[0], global_batch=64)
    for zero, written in ((1, False), (2, True), (3, True)):
        files = launch_files(Plan(dp=8, zero=zero, num_microbatches=8), inputs, name).files
        assert (said in "".join(files.values())) is written


def test_the_precision_aware_optimizer_comes_with_the_distributed_one() -> None:
    """Megatron-core 0.19.2, optimizer_config.py: it is 'only supported with distributed optimizer'."""
    aware, distributed = "cfg.optimizer.use_precision_aware_optimizer", "cfg.optimizer.use_distributed_optimizer"
    for plan, moments, both in (
        (Plan(dp=8, zero=0, num_microbatches=8), "fp32", False),
        (Plan(dp=8, zero=1, num_microbatches=8), "bf16", True),
        (Plan(tp=8, sp=True, zero=0, num_microbatches=64), "bf16", True),
    ):
        recipe = _recipe_of("llama-3.1-8b", plan, f"optimizer_states={moments}")
        assert (recipe.get(aware) == "True", recipe[distributed] == "True") == (both, both), plan


def test_megatron_bridge_has_as_many_learned_positions_as_a_sequence_has_tokens() -> None:
    inputs = question(read_model("gpt2"), "1x8:h100", "megatron-bridge", sequence_length=512, global_batch=64)
    with pytest.raises(InvalidSpec, match="it has no setting for 1024 learned positions, and would run 512"):
        launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, "megatron-bridge")


def _assigns(node: ast.AST) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign)


@pytest.mark.parametrize("name", ["nanotron", "llm-foundry"])
def test_every_mark_is_replaced_by_a_variable_that_the_script_asks_for(name: str) -> None:
    files = launch_files(PLANS[name], asked(name), name).files
    marks = set(re.findall(r"FILL_IN_([A-Z_]+?)(?=ba\b|\b)", re.sub("^#.*", "", files[f"{name}.yaml"], flags=re.M)))
    assert marks
    for mark in marks:
        assert f'-e "s|FILL_IN_{mark}|${mark}|g"' in files["train.sh"]
        assert f': "${{{mark}:?' in files["train.sh"]


def test_torchtitan_is_not_started_before_all_is_filled_in() -> None:
    inputs = question(LLAMA, "1x8:h100", "torchtitan", global_batch=64, precision="bf16")
    files = launch_files(Plan(dp=8, zero=3, num_microbatches=8), inputs, "torchtitan").files
    taken = set(re.findall(r'os\.environ\["(\w+)"\]', files["meshwright_plan.py"]))
    assert taken == set(re.findall(r"\$\{([A-Z_]+):\?", files["train.sh"]))
    assert len(taken) == 5


def test_the_warm_up_of_nanotron_is_the_users() -> None:
    """What the steps leave after it decays: with fixed ones a short run had a negative number of them."""
    files = launch_files(PLANS["nanotron"], asked("nanotron"), "nanotron").files
    assert "lr_warmup_steps: FILL_IN_WARMUP_STEPS" in files["nanotron.yaml"]
    assert "${WARMUP_STEPS:?steps of warm-up, fewer than STEPS" in files["train.sh"]


@pytest.mark.parametrize("name", ["nanotron", "llm-foundry"])
def test_numbers_that_are_filled_in_are_numbers_of_yaml(name: str, tmp_path: Path) -> None:
    """PyYAML takes 3e-4 for text, and nanotron refuses text for a number."""
    files = launch_files(PLANS[name], asked(name), name).files
    (tmp_path / f"{name}.yaml").write_text(files[f"{name}.yaml"])
    before = files["train.sh"].partition("torchrun")[0] + 'cat "$CONFIG"\n'
    (tmp_path / "train.sh").write_text(before)
    asked_for = dict.fromkeys(re.findall(r"\$\{([A-Z_]+):\?", before), "1")
    numbers = {"LEARNING_RATE": "3e-4", "ROPE_THETA": "500000", "NORM_EPSILON": "1e-5"}
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "de_DE.UTF-8", **asked_for, **numbers}
    told = subprocess.run(
        ["bash", str(tmp_path / "train.sh")], env=environment, capture_output=True, text=True, check=True
    )
    values = [
        yaml.safe_load(each) for each in re.findall(r"(?:rope_theta|norm_eps|\blr|learning_rate): (\S+)", told.stdout)
    ]
    assert sorted(values) == [1e-5, 3e-4, 5e5]


@pytest.mark.parametrize("given", [None, "3"])
def test_a_script_gives_ranks_threads_for_an_optimizer_on_the_host(given: str | None) -> None:
    inputs = question(llama_8b(), "1x8:h100", "deepspeed")
    offloaded = inputs.replace(runtime=with_behaviours(inputs.runtime, ["optimizer_states=offloaded"]))
    plain, script = (
        launch_files(plan_of(each, zero=3), each, "deepspeed").files["train.sh"] for each in (inputs, offloaded)
    )
    assert "OMP_NUM_THREADS" not in plain
    (line,) = (line for line in script.splitlines() if line.startswith("export OMP_NUM_THREADS"))
    environment = {"PATH": os.environ["PATH"], **({"OMP_NUM_THREADS": given} if given else {})}
    said = subprocess.run(
        ["bash", "-c", f"{line}; echo $OMP_NUM_THREADS"], env=environment, text=True, check=True, stdout=subprocess.PIPE
    )
    assert said.stdout.strip() == (given or str(max(os.cpu_count() // 8, 1)))


@pytest.mark.parametrize("numactl", [True, False])
@pytest.mark.parametrize("asked_for", [None, "", "--numa-binding=socket"])
def test_a_script_binds_ranks_to_cores_where_it_can(numactl: bool, asked_for: str | None, tmp_path: Path) -> None:
    files = launch_files(PLANS["megatron-bridge"], asked("megatron-bridge"), "megatron-bridge").files
    (tmp_path / "train.sh").write_text(files["train.sh"])
    for tool, text in {"torchrun": 'echo "$1"', **({"numactl": ":"} if numactl else {})}.items():
        (tmp_path / tool).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / tool).chmod(0o755)
    bash, dirname = (str(shutil.which(tool)) for tool in ("bash", "dirname"))
    (tmp_path / "dirname").symlink_to(dirname)
    said = dict.fromkeys(re.findall(r"\$\{([A-Z_]+):?\?", files["train.sh"]), "said")
    environment = {"PATH": str(tmp_path), **said, **({} if asked_for is None else {"NUMA_BINDING": asked_for})}
    command = [bash, str(tmp_path / "train.sh")]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    bound = "--numa-binding=node" if asked_for is None else asked_for
    assert told == (bound if numactl and bound else "--nnodes")


def test_a_script_leaves_ranks_free_where_they_were_priced_so_or_an_older_pytorch_runs_them() -> None:
    inputs = asked("megatron-bridge")
    free = inputs.replace(runtime=with_behaviours(inputs.runtime, ["binds_ranks=false"]))
    for name, each in (("megatron-bridge", free), ("llm-foundry", asked("llm-foundry"))):
        assert "numa" not in launch_files(PLANS[name], each, name).files["train.sh"].lower()


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt2-xl", "deepseek-v2-lite"])
@pytest.mark.parametrize("name", ["megatron-core", "megatron-deepspeed"])
def test_a_script_hands_on_everything_that_it_asks_for(name: str, model: str, tmp_path: Path) -> None:
    inputs = question(read_model(model), "1x8:h100", name, global_batch=64, sequence_length=1024, precision="bf16")
    try:
        launch = launch_files(Plan(dp=8, zero=1, num_microbatches=8), inputs, framework_of(name))
    except InvalidSpec:
        pytest.skip(f"{name} has no settings for {model}")
    script = launch.files["train.sh"]
    (tmp_path / "train.sh").write_text(script)
    (tmp_path / "torchrun").write_text("#!/bin/bash\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "torchrun").chmod(0o755)
    asked_for = {each: f"said_{each}" for each in re.findall(r"\$\{([A-Z_]+):?\?", script)}
    whole = {key.removeprefix("--").replace("-", "_").upper() for key in launch.launch.table.whole_numbers}
    asked_for |= dict.fromkeys(whole & asked_for.keys(), "500000")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **asked_for}
    command = ["bash", str(tmp_path / "train.sh")]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert {word.partition("/")[0] for word in told} >= set(asked_for.values())
    assert {key for key in launch.launch.to_fill if key.startswith("--")} <= set(told)
    for missing in asked_for:
        less = {key: value for key, value in environment.items() if key != missing}
        done = subprocess.run(command, env=less, capture_output=True, text=True, check=False)
        assert (done.returncode != 0, missing in done.stderr) == (True, True)


def test_a_batch_file_speaks_of_other_ranks_and_nodes_where_there_are_some() -> None:
    said = {}
    for cluster, dp in (("2x8:h100", 16), ("1x8:h100", 8), ("1x1:h200", 1)):
        inputs = question(read_model("gpt2"), cluster, "megatron-core", global_batch=64, sequence_length=1024)
        plan = Plan(dp=dp, zero=min(dp - 1, 1), num_microbatches=64 // dp)
        job = launch_files(plan, inputs, "megatron-lm").files["job.slurm"]
        said[cluster] = [each for each in ("Ranks:", "SLURM_NODEID:", "NCCL_IB_HCA") if each in job]
    assert list(said.values()) == [["Ranks:", "SLURM_NODEID:", "NCCL_IB_HCA"], ["Ranks:"], []]


@pytest.mark.parametrize(
    ("cluster", "segment"),
    [("64x4:gb200", "16"), ("8x4:gb200", "8"), ("19x4:gb200", None), ("1x4:gb200", None), ("4x8:h100", None)],
)
def test_a_batch_file_keeps_segments_of_racks_together(cluster: str, segment: str | None) -> None:
    """64 nodes are priced as four racks of 16; 19 as one of 18 and one of 1, for which Slurm has no segments."""
    inputs = question(LLAMA, cluster, "megatron-core", global_batch=8 * 4 * 304)
    plan = Plan(dp=inputs.cluster.num_gpus, zero=1, num_microbatches=9728 // inputs.cluster.num_gpus)
    job = launch_files(plan, inputs, "megatron-lm").files["job.slurm"]
    assert re.findall(r"^#SBATCH --segment=(\d+)$", job, re.M) == ([segment] if segment else [])


def test_files_of_accelerate_say_what_whole_models_need_on_a_host() -> None:
    files = launch_files(Plan(dp=8, zero=3, num_microbatches=8), asked("accelerate"), "accelerate").files
    assert all("Host memory: 29.9 GiB a node" in files[name] for name in ("accelerate.yaml", "train.py", "train.sh"))
    assert "fsdp_cpu_ram_efficient_loading: true" in files["accelerate.yaml"]


@pytest.mark.parametrize(("zero", "told"), [(1, True), (3, False)])
def test_files_of_deepspeed_say_what_whole_models_need_on_a_host(zero: int, told: bool) -> None:
    """With ZeRO 3 ranks share weights as they are made."""
    files = launch_files(Plan(dp=8, zero=zero, num_microbatches=8), asked("deepspeed"), "deepspeed").files
    words = "Host memory: 119.7 GiB a node. Each of its processes first makes the whole model there in bf16"
    assert (words in files["train.sh"]) == told


def test_tensor_parallelism_of_accelerate_is_refused_as_transformers_lacks_what_it_imports() -> None:
    with pytest.raises(IllegalPlan, match="accelerate has no tensor parallelism"):
        launch_files(Plan(tp=2, dp=4, zero=3, num_microbatches=16), asked("accelerate"), "accelerate")


def test_experts_of_models_that_autoep_knows_are_on_ranks_of_their_own_with_deepspeed() -> None:
    plan = Plan(dp=8, ep=4, zero=2, num_microbatches=8)
    known = question(read_model("qwen3-30b-a3b"), "1x8:h100", "deepspeed", global_batch=64, precision="bf16")
    written = json.loads(launch_files(plan, known, "deepspeed").files["deepspeed.json"])
    assert written["expert_parallel"] == {"autoep_size": 4, "comm_backend": "comm", "enabled": True}
    fused = known.replace(runtime=known.runtime.replace(dispatcher="fused"))
    sent = json.loads(launch_files(plan, fused, "deepspeed").files["deepspeed.json"])["expert_parallel"]
    assert (sent["comm_backend"], sent["comm_max_tokens_per_rank"]) == ("deepep", 4096)
    whole = json.loads(launch_files(plan.replace(ep=1), known, "deepspeed").files["deepspeed.json"])
    assert "expert_parallel" not in whole
    flex = known.runtime.replace(attention_kernel="flex")
    other = known.replace(model=read_model("gpt-oss-20b"), runtime=flex)
    with pytest.raises(InvalidSpec, match=r"not of gpt_oss: ep 4 would run as 1\nPlan with --ep 1"):
        export(plan, other, "deepspeed")
    nearest = nearest_spelled(plan, other, "deepspeed")
    assert nearest
    assert nearest.ep == 1


def test_training_on_a_pipeline_is_refused_of_deepspeed() -> None:
    with pytest.raises(InvalidSpec, match=r"plan: it has no setting for 2 pipeline stages, and would run 1\n.*--pp 1"):
        export(Plan(pp=2, dp=4, zero=1, num_microbatches=16), asked("deepspeed"), "deepspeed")


@pytest.mark.parametrize("name", PLANS)
def test_the_nearest_plan_is_one_that_the_framework_has(name: str) -> None:
    """Of plans that Megatron-core takes: what the framework cannot say is replaced, named, and stays legal."""
    inputs = question(LLAMA, "1x8:h100", global_batch=64, precision="bf16")
    plans = (
        Plan(tp=2, sp=True, pp=2, dp=2, zero=1, num_microbatches=32),
        Plan(tp=8, sp=True, zero=0, num_microbatches=64),
    )
    for plan in plans:
        written = launch_files(plan, inputs, name, nearest=True)
        assert written.replaced[0] == f"runtime megatron-core becomes {name}"
        assert not faults(written.launch.plan, written.launch.inputs)
        assert written.estimate.plan == written.launch.plan
        assert f"Replaced: {written.replaced[-1]}." in written.files["train.sh"]


@pytest.mark.parametrize("name", PLANS)
def test_legal_plans_are_written_as_they_are_or_refused(name: str) -> None:
    inputs, written = question(LLAMA, "2x8:h100", name, global_batch=64, precision="bf16"), 0
    plans = legal_plans(inputs)
    for plan in plans.take(np.random.default_rng(0).permutation(len(plans))[:150]):
        with contextlib.suppress(InvalidSpec):
            assert export(plan, inputs, name).plan == plan
            written += 1
    assert written > 10


@pytest.mark.parametrize(("model", "experts"), [("llama-3.1-8b", False), ("qwen3-30b-a3b", True)])
@pytest.mark.parametrize(("precision", "kind"), [("mxfp8", "MXFP8"), ("fp8-rowwise", "Float8")])
def test_torchtitan_quantises_experts_by_a_converter_of_their_own(
    model: str, experts: bool, precision: str, kind: str
) -> None:
    """torchtitan 0.3.0 components/quantization/mx.py and float8.py: products of experts are no linear layers."""
    inputs = question(read_model(model), "1x8:b200", "torchtitan", global_batch=64, precision=precision)
    module = launch_files(Plan(dp=8, zero=3, num_microbatches=8), inputs, "torchtitan").files["meshwright_plan.py"]
    assert set(re.findall(r"(\w+?)(?:Linear|GroupedExperts)Converter", module)) == {kind}
    assert f"{kind}LinearConverter.Config(" in module
    assert (f"{kind}GroupedExpertsConverter.Config(" in module) is experts
    assert ("filter_fqns=['lm_head', 'router.gate']" in module) is (experts and kind == "Float8")


def test_torchtitan_has_no_deepep_beside_quantised_experts() -> None:
    """torchtitan 0.3.0 components/quantization/utils.py, swap_token_dispatcher: it cannot pad their rows."""
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:b200", "torchtitan", global_batch=64, precision="mxfp8")
    plan = Plan(dp=8, ep=8, zero=3, num_microbatches=8)
    for kernels, refused in (("deep_ep", True), ("hybrid_ep", False)):
        runtime = with_behaviours(inputs.runtime, ["dispatcher=fused", f"fused_kernels={kernels}"])
        with pytest.raises(InvalidSpec, match="fused") if refused else contextlib.nullcontext():
            export(plan, inputs.replace(runtime=runtime), "torchtitan")


def test_a_script_of_megatron_says_how_often_it_evaluates() -> None:
    """Left out it is none in 0.19.2, which `train_iters // eval_interval` cannot take."""
    plan = Plan(dp=8, zero=1, num_microbatches=8)
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", "megatron-core", precision="bf16", global_batch=64)
    assert "    --eval-interval 1000\n" in launch_files(plan, inputs, "megatron-lm").files["train.sh"]
