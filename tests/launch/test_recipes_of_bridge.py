"""Recipes of Megatron-Bridge: helpers, conditions, presets and functions of the same source tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.patch import patch_of
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.named import plan_of
from meshwright.specs.behaviours import ACTIVATION_FUSION, ROPE_FUSION, position_of
from meshwright.specs.choices import Recompute

HEAD = "from megatron.bridge import AutoBridge\nfrom megatron.bridge.recipes.common import _pretrain_common\n"
RECIPE = f"""{HEAD}
def shape(model, tp, *, pp=1):
    model.tensor_model_parallel_size = tp
    model.pipeline_model_parallel_size = pp
    model.sequence_parallel = tp > 1

def measured(cfg):
    cfg.train.global_batch_size = 64
    cfg.ddp.overlap_grad_reduce = True

def recipe():
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(load_weights=False)
    cfg.mixed_precision = "bf16_mixed"
    cfg.model.seq_length = 4096
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 32
    shape(cfg.model, 2, pp=4)
    measured(cfg)
    return cfg
"""
MIXTURE = """
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-30B-A3B").to_megatron_provider()
    cfg.model.expert_model_parallel_size = 4
"""


def imported(folder: Path, text: str, cluster: str = "2x8:h100", **values: str) -> LaunchQuestion:
    path = folder / "recipe.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return question_of_file(path, Given(cluster=cluster, values=values))


def told(question: LaunchQuestion) -> str:
    return " ".join(question.notes)


def test_helpers_are_followed_where_they_are_called(tmp_path: Path) -> None:
    question = imported(tmp_path, RECIPE)
    assert str(question.plan) == "tp2 sp pp4 dp2 zero1 mbs1 m32"
    assert (question.inputs.model.name, question.inputs.job.global_batch) == ("qwen3-8b", 64)
    assert "not read: _pretrain_common (line 14)" in told(question)


def test_a_change_leaves_out_what_the_recipe_says_already(tmp_path: Path) -> None:
    question = imported(tmp_path, RECIPE)
    plan = plan_of(question.inputs, tp=1, pp=4)
    changed = patch_of(question, plan, question.inputs).settings
    assert changed["--tensor-model-parallel-size"] == 1
    assert "--global-batch-size" not in changed


@pytest.mark.parametrize(
    ("made", "said", "position"),
    [
        ("Qwen/Qwen3-8B", "", "off"),
        ("Qwen/Qwen3-8B", "True", "on"),
        ("Qwen/Qwen3-8B", "False", "off"),
        ("mistralai/Mistral-7B-v0.1", "", "off"),
        ("meta-llama/Llama-3.1-8B", "", "on"),
        ("meta-llama/Llama-3.1-8B", "False", "off"),
        ("google/gemma-2-9b", "", "on"),
    ],
)
def test_an_activation_is_fused_where_the_file_or_the_provider_of_the_model_says_so(
    tmp_path: Path, made: str, said: str, position: str
) -> None:
    line = f"    cfg.model.bias_activation_fusion = {said}\n" if said else ""
    text = RECIPE.replace("Qwen/Qwen3-8B", made).replace("    measured(cfg)\n", f"    measured(cfg)\n{line}")
    read = imported(tmp_path, text)
    assert position_of(read.inputs.runtime, ACTIVATION_FUSION) == position
    assert ("bias_activation_fusion is off" in told(read)) == (position == "off" and not said)


@pytest.mark.parametrize(
    ("made", "said", "position"),
    [("Qwen/Qwen3-8B", "", "off"), ("Qwen/Qwen3-8B", "True", "on"), ("meta-llama/Llama-3.1-8B", "", "on")],
)
def test_rotary_positions_are_fused_where_the_file_or_the_provider_says_so(
    tmp_path: Path, made: str, said: str, position: str
) -> None:
    line = f"    cfg.model.apply_rope_fusion = {said}\n" if said else ""
    text = RECIPE.replace("Qwen/Qwen3-8B", made).replace("    measured(cfg)\n", f"    measured(cfg)\n{line}")
    assert position_of(imported(tmp_path, text).inputs.runtime, ROPE_FUSION) == position


PROVIDED = f"""from megatron.bridge.models.{{package}} import {{provider}}
{RECIPE}""".replace(
    'AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(load_weights=False)',
    """{provider}(
        num_layers=26, hidden_size=1152, num_attention_heads=4, num_query_groups=1, kv_channels=256,
        ffn_hidden_size=6912, vocab_size=262144{more})""",
)


@pytest.mark.parametrize(
    ("package", "provider", "fused"),
    [
        ("llama.llama_provider", "Llama3ModelProvider", True),
        ("gpt_provider", "GPTModelProvider", False),
    ],
)
def test_a_provider_with_sizes_of_the_file_fuses_as_its_class_does(
    tmp_path: Path, package: str, provider: str, fused: bool
) -> None:
    more = ", position_embedding_type='rope'"
    text = PROVIDED.replace("{package}", package).replace("{provider}", provider).replace("{more}", more)
    question = imported(tmp_path, text)
    for switch in (ACTIVATION_FUSION, ROPE_FUSION):
        assert position_of(question.inputs.runtime, switch) == ("on" if fused else "off")


def test_a_model_that_is_named_goes_before_what_its_provider_says(tmp_path: Path) -> None:
    """Gemma3ModelProvider has one number for its windows, which some of its layers have."""
    provider, package = "Gemma3ModelProvider", "gemma.gemma3_provider"
    text = PROVIDED.replace("{package}", package).replace("{provider}", provider).replace("{more}", ", window_size=512")
    path = tmp_path / "recipe.py"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="--window-size 512 is not the tokens before and behind"):
        question_of_file(path, Given(cluster="2x8:h100"))
    question = question_of_file(path, Given(cluster="2x8:h100", model="gemma-3-1b"))
    assert question.inputs.model.name == "gemma-3-1b"
    assert "bias_activation_fusion" not in told(question)


def test_what_a_recipe_that_is_not_read_may_set_is_told_as_open(tmp_path: Path) -> None:
    text = """from megatron.bridge.recipes.qwen import qwen3_30b_a3b_pretrain_config
cfg = qwen3_30b_a3b_pretrain_config()
cfg.model.tensor_model_parallel_size = cfg.model.pipeline_model_parallel_size = cfg.model.context_parallel_size = 1
cfg.model.seq_length = 4096
cfg.train.micro_batch_size = 1
cfg.train.global_batch_size = 64
"""
    path, given = tmp_path / "run.py", Given(cluster="2x8:h100", model="qwen3-30b-a3b")
    path.write_text(text)
    notes = told(question_of_file(path, given))
    assert "but qwen3_30b_a3b_pretrain_config, which is not read, may set it" in notes
    assert "recomputation may stand in qwen3_30b_a3b_pretrain_config, which is not read, and is priced without" in notes
    said = "recompute_granularity = None", "bias_activation_fusion = True", "apply_rope_fusion = True"
    path.write_text(text + "".join(f"cfg.model.{each}\n" for each in said))
    assert "may" not in told(question_of_file(path, given))


@pytest.mark.parametrize(("said", "layers"), [(3, 3), (23, 23), (24, 0), (48, 0)])
def test_layers_of_a_block_are_counted_against_those_of_the_named_model(tmp_path: Path, said: int, layers: int) -> None:
    """Of 48 layers on two stages: 24 or more are all of them."""
    path, given = tmp_path / "run.py", Given(cluster="4x8:h100", model="qwen3-30b-a3b")
    path.write_text(f"""from megatron.bridge.recipes.qwen import qwen3_30b_a3b_pretrain_config
cfg = qwen3_30b_a3b_pretrain_config()
cfg.model.tensor_model_parallel_size = cfg.model.context_parallel_size = 1
cfg.model.pipeline_model_parallel_size = 2
cfg.model.recompute_granularity, cfg.model.recompute_method = "full", "block"
cfg.model.recompute_num_layers = {said}
cfg.model.recompute_modules = []
cfg.model.moe_deepep_num_sms = 20
cfg.model.seq_length = 4096
cfg.train.micro_batch_size = 1
cfg.train.global_batch_size = 64
""")
    asked = question_of_file(path, given)
    assert (asked.plan.recompute, asked.plan.recompute_layers) == (Recompute.FULL, layers)
    assert not {"--moe-deepep-num-sms", "--recompute-modules"} & {*asked.understood.unknown, *asked.understood.unpriced}


def test_fields_of_performance_recipes_are_told_as_not_priced_or_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.py"
    path.write_text("""from megatron.bridge.recipes.qwen import qwen3_30b_a3b_pretrain_config
cfg = qwen3_30b_a3b_pretrain_config()
cfg.model.tensor_model_parallel_size = cfg.model.context_parallel_size = cfg.model.pipeline_model_parallel_size = 1
cfg.model.seq_length = 4096
cfg.model.fp8_output_proj = cfg.model.high_priority_a2a_comm_stream = True
cfg.model.moe_pad_experts_for_cuda_graph_inference = cfg.dataset.fast_cache_load = True
cfg.train.micro_batch_size = 1
cfg.train.global_batch_size = 64
""")
    told = question_of_file(path, Given(cluster="4x8:h100", model="qwen3-30b-a3b")).understood
    assert {*told.unpriced} == {"--fp8-output-proj", "--high-priority-a2a-comm-stream"}
    assert not told.unknown


ALONE = """from megatron.bridge.recipes.qwen import {name}
from megatron.bridge.training.pretrain import pretrain
cfg = {name}()
pretrain(cfg, forward_step)
"""


def test_a_recipe_that_is_trained_as_it_is_leaves_its_degrees_open(tmp_path: Path) -> None:
    """They were taken as 1, which the recipe of Qwen3-8B has not."""
    with pytest.raises(InvalidInput, match=r"tensor_model_parallel_size rests on qwen3_8b_pretrain_config"):
        imported(tmp_path, ALONE.format(name="qwen3_8b_pretrain_config"))


@pytest.mark.parametrize("name", ["qwen3_8b_peft_config", "qwen3_8b_peft_1gpu_h100_bf16_config"])
def test_a_recipe_that_trains_adapters_leaves_their_rank_open(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"line 3: peft\.dim rests on {name}"):
        imported(tmp_path, ALONE.format(name=name))


def test_recipes_for_performance_fuse_activations(tmp_path: Path) -> None:
    text = RECIPE.replace("recipes.common import _pretrain_common", "perf_recipes.qwen import _pretrain_common")
    runtime = imported(tmp_path, text).inputs.runtime
    assert (position_of(runtime, ACTIVATION_FUSION), position_of(runtime, ROPE_FUSION)) == ("on", "on")


def test_a_degree_that_nothing_says_is_asked_for(tmp_path: Path) -> None:
    for text in (
        RECIPE.replace("cfg.model, 2", "cfg.model, degree()"),
        RECIPE.replace("def recipe()", "def recipe(n)"),
    ):
        text = text.replace("cfg.model, 2", "cfg.model, n")
        with pytest.raises(InvalidInput, match=r"model\.tensor_model_parallel_size rests on .*--set"):
            imported(tmp_path, text)
    text = RECIPE.replace("def recipe()", "def recipe(n)").replace("cfg.model, 2", "cfg.model, n")
    assert imported(tmp_path, text, n="4").plan.tp == 4


def test_conditions_that_the_file_decides_are_followed(tmp_path: Path) -> None:
    decided = """    if cfg.model.pipeline_model_parallel_size > 1 and cfg.train.micro_batch_size is not None:
        cfg.model.context_parallel_size = 2
    elif cfg.model.pipeline_model_parallel_size == 1:
        cfg.model.context_parallel_size = 4
    return cfg
"""
    assert imported(tmp_path, RECIPE.replace("    return cfg\n", decided)).plan.cp == 2
    open_one = decided.replace("cfg.train.micro_batch_size is not None", "wide()")
    with pytest.raises(InvalidInput, match=r"model\.context_parallel_size rests on wide\(\)"):
        imported(tmp_path, RECIPE.replace("    return cfg\n", open_one))
    harmless = "    if wide():\n        cfg.model.init_method_std = 0.1\n    return cfg\n"
    question = imported(tmp_path, RECIPE.replace("    return cfg\n", harmless))
    assert "line 22: whether this holds the file does not decide" in told(question)


ARGUMENTS = f"""{HEAD}
def llama_70b(**user_kwargs):
    recommended = {{"hf_path": "meta-llama/Meta-Llama-3-70B", "tensor_model_parallel_size": 4, "virtual": 5}}
    combined = {{**recommended, **user_kwargs}}
    return _common(**combined)

def _common(hf_path, tensor_model_parallel_size=1, pipeline_model_parallel_size: int = 4, virtual=None,
            seq_length=8192, micro_batch_size=1, precision_config=None):
    bridge = AutoBridge.from_hf_pretrained(hf_path)
    model_cfg = bridge.to_megatron_provider(load_weights=False)
    model_cfg.tensor_model_parallel_size = tensor_model_parallel_size
    model_cfg.pipeline_model_parallel_size = pipeline_model_parallel_size
    model_cfg.virtual_pipeline_model_parallel_size = virtual
    model_cfg.sequence_parallel = tensor_model_parallel_size > 1
    if precision_config is None:
        precision_config = bf16_mixed()
    cfg = ConfigContainer(
        model=model_cfg,
        train=TrainingConfig(global_batch_size=512, micro_batch_size=micro_batch_size),
        dataset=GPTDatasetConfig(sequence_length=seq_length),
        ddp=DistributedDataParallelConfig(grad_reduce_in_fp32=False, use_distributed_optimizer=True),
        mixed_precision=precision_config,
    )
    return cfg
"""


def test_a_function_with_keywords_is_read_with_those_of_the_call(tmp_path: Path) -> None:
    """As recipes of the releases 0.1 and 0.2 are written; the precision has the last word on gradients."""
    question = imported(tmp_path, ARGUMENTS, "4x8:h100", function="llama_70b")
    assert str(question.plan) == "tp4 sp pp4 vpp5 dp2 zero1 mbs1 m256"
    job, model = question.inputs.job, question.inputs.model
    assert (model.name, job.sequence_length, question.inputs.gradient_bytes) == ("llama-3-70b", 8192, 4)
    assert "reduces gradients in fp32, whatever ddp.grad_reduce_in_fp32 says" in told(question)


def test_a_recipe_that_is_handed_to_training_is_read_without_that(tmp_path: Path) -> None:
    text = ARGUMENTS.replace("def llama_70b(**user_kwargs):", "def main(**user_kwargs):")
    text = text.replace("    return _common(**combined)", "    pretrain(config=_common(**combined))")
    assert imported(tmp_path, text, "4x8:h100", function="main").plan.vpp == 5


@pytest.mark.parametrize(
    ("precision", "name", "gradients"),
    [
        ("bf16_mixed()", "bf16", 4),
        ('_perf_precision("fp8_mx")', "mxfp8", 2),
        ('"bf16_with_fp8_current_scaling_mixed"', "fp8", 4),
        ('get_mixed_precision_config("fp16_mixed")', "fp16", 2),
        ("MixedPrecisionConfig(bf16=True, fp8=None, grad_reduce_in_fp32=False)", "bf16", 2),
    ],
)
def test_precisions_by_preset_and_by_field(tmp_path: Path, precision: str, name: str, gradients: str) -> None:
    inputs = imported(tmp_path, RECIPE.replace('"bf16_mixed"', precision), "2x8:b200").inputs
    job = inputs.job
    assert (job.precision, inputs.gradient_bytes) == (name, gradients)


def test_a_precision_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    text = RECIPE.replace('"bf16_mixed"', "from_environment()")
    with pytest.raises(
        InvalidInput, match=r"line 16: mixed_precision is from_environment.*--set mixed_precision\.preset=bf16"
    ):
        imported(tmp_path, text)
    question = question_of_file(
        tmp_path / "recipe.py", Given(cluster="2x8:h100", values={"mixed_precision.preset": "bf16_mixed"})
    )
    assert question.inputs.job.precision == "bf16"


def test_what_chooses_a_dispatcher_is_known(tmp_path: Path) -> None:
    """Without it, recipes exchange experts as their models do, by an all-to-all."""
    text = RECIPE.replace("    cfg.mixed_precision", MIXTURE[1:] + "    cfg.mixed_precision")
    assert "alltoall in most models" in told(imported(tmp_path, text))
    assert imported(tmp_path, text).inputs.runtime.communication.dispatcher == "all_to_all"
    chosen = '    cfg.model.moe_flex_dispatcher_backend = "deepep"\n'
    chosen += "    apply_flex_dispatcher_backend(cfg.model, cfg.model.moe_flex_dispatcher_backend)\n    return cfg\n"
    question = imported(tmp_path, text.replace("    return cfg\n", chosen))
    communication = question.inputs.runtime.communication
    assert (communication.dispatcher, communication.fused_kernels) == ("fused", "deep_ep")
    assert "apply_flex" not in told(question)


def test_switches_that_are_off_are_priced_as_off(tmp_path: Path) -> None:
    off = "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)\n"
    off += "    cfg.mixed_precision = _perf_precision('fp8_cs')\n    cfg.mixed_precision.fp8_param_gather = False\n"
    off += '    cfg.env_vars = {"CUDA_DEVICE_MAX_CONNECTIONS": 1}\n    return cfg\n'
    question = imported(tmp_path, RECIPE.replace("    return cfg\n", off))
    assert not question.inputs.stores_quantised
    assert "tp_comm_overlap" not in told(question)
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in told(question)


@pytest.mark.parametrize(
    ("field", "switch"),
    [("tp_comm_overlap", "tensor_parallel_overlap"), ("overlap_moe_expert_parallel_comm", "expert_overlap")],
)
def test_an_overlap_that_no_recipe_says_is_off(tmp_path: Path, field: str, switch: str) -> None:
    """_pretrain_common has no comm_overlap; of a recipe that is not read it is not known."""
    mixture = "    cfg.model.expert_model_parallel_size = 2\n    return cfg\n"
    unsaid = RECIPE.replace("Qwen3-8B", "Qwen3-30B-A3B").replace("    return cfg\n", mixture)
    said = unsaid.replace("    return cfg\n", f"    cfg.comm_overlap.{field} = True\n    return cfg\n")
    unread = unsaid.replace("_pretrain_common", "qwen3_8b_pretrain_config")
    unread = unread.replace("pp=4)", "pp=4)\n    cfg.model.context_parallel_size = 1")
    positions = [position_of(imported(tmp_path, text).inputs.runtime, switch) for text in (unsaid, said, unread)]
    assert positions == ["off", "on", "on"]
    assert "tp_comm_overlap" not in told(imported(tmp_path, unsaid))
    assert "priced as if the file set comm_overlap.tp_comm_overlap = True" in told(imported(tmp_path, unread))


def test_layouts_are_looked_up_and_lists_of_layers_are_read(tmp_path: Path) -> None:
    layout = """    last = ["decoder"] * 7 + ["loss"]
    layouts = {(4, 2): [["embedding"] + ["decoder"] * 5] + [["decoder"] * 4] * 6 + [last]}
    chunks = cfg.model.virtual_pipeline_model_parallel_size = 2
    stages = cfg.model.pipeline_model_parallel_size or 1
    if (stages, chunks) in layouts:
        cfg.model.pipeline_model_parallel_layout = layouts[(stages, chunks)]
    return cfg
"""
    question = imported(tmp_path, RECIPE.replace("    return cfg\n", layout))
    assert question.plan.chunk_layers == (5, 4, 4, 4, 4, 4, 4, 7)


def test_sizes_beside_a_name_are_another_model(tmp_path: Path) -> None:
    text = RECIPE.replace("    cfg.model.seq_length", "    cfg.model.num_layers = 4\n    cfg.model.seq_length")
    with pytest.raises(InvalidInput, match=r"name it: --model config\.json"):
        imported(tmp_path, text)


COMMON = """from megatron.bridge.training.mixed_precision import bf16_with_mxfp8_mixed

def base():
    cfg = ConfigContainer(model=GPTModelProvider(), train=TrainingConfig(micro_batch_size=2, global_batch_size=128))
    cfg.mixed_precision = mixed("mx")
    return cfg

def mixed(name):
    if name == "mx":
        cfg = bf16_with_mxfp8_mixed()
    else:
        raise ValueError(name)
    cfg.grad_reduce_in_fp32 = False
    return cfg
"""
STARTS = """from megatron.bridge import AutoBridge
from megatron.bridge.recipes.qwen import base as start

def recipe():
    cfg = start()
    cfg.model = AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider()
    cfg.model.seq_length = 4096
    return cfg
"""


def test_functions_of_the_same_source_tree_are_followed(tmp_path: Path) -> None:
    recipes = tmp_path / "src" / "megatron" / "bridge" / "recipes"
    (recipes / "qwen").mkdir(parents=True)
    (recipes / "common.py").write_text(COMMON)
    (recipes / "qwen" / "__init__.py").write_text("from ..common import base\n")
    question = imported(recipes / "qwen", STARTS, "2x8:b200")
    job = question.inputs.job
    assert (question.plan.micro_batch, job.global_batch, job.precision, question.inputs.gradient_bytes) == (
        2,
        128,
        "mxfp8",
        2,
    )
    (tmp_path / ".git").mkdir()
    assert imported(tmp_path / "mine", STARTS, "2x8:b200").plan.micro_batch == 2
    (tmp_path / ".git").rmdir()
    with pytest.raises(InvalidInput, match=r"train\.micro_batch_size is not in the file"):
        imported(tmp_path / "mine", STARTS, "2x8:b200")


def test_packed_sequences_are_told(tmp_path: Path) -> None:
    """Their documents bound attention; a dataset that other files make is named."""
    packed = """    specs = PackedSequenceSpecs(packed_sequence_size=4096)
    cfg.dataset = SquadConfig(seq_length=4096, enable_offline_packing=True, offline_packing_specs=specs)
    cfg.comm_overlap = CommOverlapConfig(delay_wgrad_compute=True)
    cfg.model.cuda_graph_impl = "none"
    cfg.model.cuda_graph_scope = "full"
    return cfg
"""
    question = imported(tmp_path, RECIPE.replace("    return cfg\n", packed))
    unpriced = question.understood.unpriced
    assert {"--enable-offline-packing", "--packed-sequence-size", "--delay-wgrad-compute"} == unpriced.keys()
    made = RECIPE.replace("    return cfg\n", "    cfg.dataset = default_squad_config(4096, True)\n    return cfg\n")
    assert "default_squad_config (line 22)" in told(imported(tmp_path, made))


def test_the_distributed_optimizer_is_off_in_both_sections_or_on(tmp_path: Path) -> None:
    off = "    cfg.ddp.use_distributed_optimizer = False\n    return cfg\n"
    question = imported(tmp_path, RECIPE.replace("    return cfg\n", off))
    assert question.plan.zero == 1
    assert "turns the distributed optimizer on in both" in told(question)
    made = "def states():\n    return OptimizerConfig(use_distributed_optimizer=False), SchedulerConfig()\n\n"
    both = "    cfg.optimizer, cfg.scheduler = states()\n" + off
    text = RECIPE.replace("    return cfg\n", both).replace("def recipe", made + "def recipe")
    assert imported(tmp_path, text).plan.zero == 0


BALANCED = """
def balanced(stages):
    per_stage, more = divmod(36, stages)
    layout = []
    for at in range(stages):
        stage = ["decoder"] * (per_stage + int(at < more))
        if at == 0:
            stage = ["embedding"] + stage
        if at == stages - 1:
            stage.append("loss")
        layout.append(stage)
    return layout
"""


def test_loops_over_what_the_file_says_are_followed(tmp_path: Path) -> None:
    looped = """    for name, degree in (("context_parallel_size", 2), ("tensor_model_parallel_size", 1)):
        setattr(cfg.model, name, degree)
    for name, value in {"seq_length": 8192, "pipeline_model_parallel_size": 8}.items():
        setattr(cfg.model, name, value)
    cfg.model.pipeline_model_parallel_layout = balanced(8)
    return cfg
"""
    text = RECIPE.replace("    return cfg\n", looped) + BALANCED
    question = imported(tmp_path, text, "4x8:h100", function="recipe")
    assert (question.plan.tp, question.plan.cp, question.plan.pp) == (1, 2, 8)
    assert question.plan.chunk_layers == (5, 5, 5, 5, 4, 4, 4, 4)
    assert question.inputs.job.sequence_length == 8192


def test_degrees_are_computed_by_comprehensions(tmp_path: Path) -> None:
    fits = """    cfg.model.tensor_model_parallel_size = max([n for n in range(1, 9) if 32 % n == 0 and n < 5])
    return cfg"""
    assert imported(tmp_path, RECIPE.replace("    return cfg", fits)).plan.tp == 4
    powers = fits.replace("max([n", "[2 * n").replace("n < 5])", "n < 5][1]")
    assert imported(tmp_path, RECIPE.replace("    return cfg", powers)).plan.tp == 4


def test_degrees_of_a_recipe_that_is_not_there_are_asked_for(tmp_path: Path) -> None:
    text = RECIPE.replace("_pretrain_common()", "llama3_8b_pretrain_config()")
    with pytest.raises(InvalidInput, match=r"context_parallel_size rests on llama3_8b_pretrain_config, which is not"):
        imported(tmp_path, text)
    assert imported(tmp_path, text, **{"model.context_parallel_size": "1"}).plan.cp == 1


@pytest.mark.parametrize(
    "line",
    [
        "    for each in degrees():\n        cfg.model.tensor_model_parallel_size = each",
        "    for each in degrees():\n        setattr(cfg.model, 'tensor_model_parallel_size', each)",
        "    while degrees():\n        cfg.model.tensor_model_parallel_size *= 2",
        "    match degrees():\n        case 1:\n            cfg.model.tensor_model_parallel_size = 4",
        "    cfg.model.tensor_model_parallel_size = max([n for n in degrees()])",
        "    for n in [1, 2]:\n        if n == 2:\n            break\n        cfg.model.tensor_model_parallel_size = n",
    ],
)
def test_degrees_that_loops_leave_open_are_asked_for(tmp_path: Path, line: str) -> None:
    text = RECIPE.replace("    return cfg", f"{line}\n    return cfg")
    with pytest.raises(InvalidInput, match=r"model\.tensor_model_parallel_size rests on"):
        imported(tmp_path, text, function="recipe")


def test_a_layout_that_a_loop_leaves_open_is_asked_for(tmp_path: Path) -> None:
    text = RECIPE.replace(
        "    return cfg",
        "    cfg.model.pipeline_model_parallel_layout = balanced(cfg.stages)\n    return cfg",
    )
    with pytest.raises(InvalidInput, match=r"model\.pipeline_model_parallel_layout rests on"):
        imported(tmp_path, text + BALANCED, function="recipe")


PROVIDER = """import torch.nn.functional as F
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.recipes.common import _pretrain_common

def recipe():
    cfg = _pretrain_common()
    cfg.model = GPTModelProvider(
        num_layers=32, hidden_size=4096, ffn_hidden_size=14336, num_attention_heads=32, num_query_groups=8,
        vocab_size=128256, normalization="RMSNorm", gated_linear_unit=True, activation_func=F.silu,
        add_bias_linear=False, position_embedding_type="rope", share_embeddings_and_output_weights=False,
        seq_length=4096, tensor_model_parallel_size=2, sequence_parallel=True,
    )
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 32
    return cfg
"""


@pytest.mark.parametrize("spelled", ["F.silu", "silu", "torch.nn.functional.silu", "quick_gelu"])
def test_a_gate_is_read_beside_its_activation_under_any_alias(tmp_path: Path, spelled: str) -> None:
    read = imported(tmp_path, PROVIDER.replace("F.silu", spelled))
    assert all(kind.feed_forward.gated for kind in read.inputs.model.layer_kinds)


@pytest.mark.parametrize(("spelled", "told"), [("activation_func=F.gelu,", r"F\.gelu"), ("", "left out")])
def test_a_gate_beside_another_activation_is_refused(tmp_path: Path, spelled: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=rf"line 9: model\.gated_linear_unit beside .*{told}.* not modelled"):
        imported(tmp_path, PROVIDER.replace("activation_func=F.silu,", spelled))
