"""Kernels that a question replaced: written where files can ask for them, refused where they would run others."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from commands import asked
from launch_examples import BATCH, MODEL
from meshwright.answers.launch.files import framework_of, launch_files
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.kernels import WORDS
from meshwright.launch.table import launch_table, launch_tables
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import SECTION_OF, read_runtime
from strategies import question

PLAN = Plan(dp=8, zero=3, num_microbatches=8)
ONE = Plan(dp=8, zero=1, num_microbatches=8)
LOSSES = ["chunked_compiled", "compiled", "chunked", "eager"]


def _asked(runtime: str, *behaviours: str) -> Inputs:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", runtime, global_batch=64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, list(behaviours)))


@pytest.mark.parametrize(
    ("runtime", "change", "instead"),
    [
        ("accelerate", "cross_entropy=chunked", "the cross-entropy chunked, and would run eager"),
        ("accelerate", "cross_entropy=in_place", "the cross-entropy in_place, and would run eager"),
        ("accelerate", "compiled=true", "element-wise kernels fused, and would run transformers"),
        ("deepspeed", "elementwise=eager", "element-wise kernels eager, and would run transformers"),
        ("torchtitan", "cross_entropy=fused", "the cross-entropy fused, and would run eager, compiled, chunked or"),
        ("megatron-bridge", "cross_entropy=unfused", "the cross-entropy unfused, and would run fused"),
        ("megatron-core", "host.graphs=router", "CUDA graphs: router, and would run none, parts or iteration"),
        ("torchtitan", "host.graphs=iteration", "CUDA graphs: iteration, and would run none"),
        ("megatron-core", "attention_kernel=flash-2", "attention kernel flash-2, and would run newest"),
        ("megatron-core", "deterministic=on", "deterministic kernels on, and would run off or filled"),
        ("torchtitan", "attention_kernel=flash-2", "attention kernel flash-2, and would run newest or flex"),
        ("torchtitan", "gradient_accumulation=fused", "accumulation of gradients fused, and would run autograd"),
        ("nanotron", "deterministic=on", "deterministic kernels on, and would run off"),
        ("megatron-bridge", "quantised_attention=true", "quantised attention true, and would run false"),
        ("nanotron", "host.graphs=parts", "CUDA graphs: parts, and would run none"),
    ],
)
def test_kernels_that_files_cannot_ask_for_are_refused(runtime: str, change: str, instead: str) -> None:
    with pytest.raises(InvalidSpec, match=instead):
        export(PLAN, _asked(runtime, change), read_runtime(runtime).launch)


@pytest.mark.parametrize(
    ("cluster", "change", "instead"),
    [
        ("2x8:h100", "quantised_dispatch=forward", "quantised dispatch forward, and would run none"),
        ("2x4:gb200", "fused_kernels=deep_ep", "fused dispatch by deep_ep, and would run hybrid_ep"),
        ("2x8:h100", "fused_kernels=deep_ep", ""),
    ],
)
def test_dispatches_that_files_cannot_ask_for_are_refused(cluster: str, change: str, instead: str) -> None:
    """Megatron-Bridge training/flex_dispatcher_backend.py: DeepEP is not run on GB200."""
    inputs = question(read_model("qwen3-30b-a3b"), cluster, "megatron-bridge", global_batch=64, precision="fp8")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [change]))
    plan = Plan(dp=inputs.cluster.num_gpus, ep=8, zero=1, num_microbatches=64 // inputs.cluster.num_gpus)
    with pytest.raises(InvalidSpec, match=instead) if instead else contextlib.nullcontext():
        assert export(plan, inputs, "megatron-bridge").settings["--moe-flex-dispatcher-backend"] == "deepep"


@pytest.mark.parametrize("runtime", ["megatron-core", "torchtitan"])
def test_a_fused_dispatcher_that_does_not_run_on_the_cluster_is_refused(runtime: str) -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:mi300x", runtime, global_batch=64)
    asked_for = inputs.replace(runtime=with_behaviours(inputs.runtime, ["dispatcher=fused"]))
    plan = Plan(dp=8, ep=8, zero=inputs.runtime.plans.zero_stages[-1], num_microbatches=8)
    with pytest.raises(
        InvalidSpec, match=r"DeepEP, which is not known to run on mi300x\nPlan with --dispatcher all_to"
    ):
        export(plan, asked_for, inputs.runtime.launch)
    assert export(plan, inputs, inputs.runtime.launch)


def test_tables_name_kernels_of_runtimes_alone() -> None:
    for name in launch_tables():
        assert launch_table(name).kernels.keys() <= WORDS.keys() <= SECTION_OF.keys()


@pytest.mark.parametrize("model", ["compiled=true", "compiled=false"])
@pytest.mark.parametrize("loss", LOSSES)
def test_torchtitan_compiles_what_is_priced_as_compiled(model: str, loss: str, tmp_path: Path) -> None:
    inputs = _asked("torchtitan", model, f"cross_entropy={loss}")
    folder = tmp_path / "run"
    folder.mkdir()
    for name, text in launch_files(PLAN, inputs, "torchtitan").files.items():
        (folder / name).write_text(text, "utf-8")
    read = question_of_file(folder, Given(cluster="1x8:h100")).inputs.runtime.kernels
    assert (read.cross_entropy, read.elementwise) == (loss, inputs.runtime.kernels.elementwise)


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
@pytest.mark.parametrize(
    ("model", "graphs"),
    [
        ("llama-3.1-8b", "parts"),
        ("llama-3.1-8b", "iteration"),
        ("qwen3-30b-a3b", "router"),
        ("qwen3-30b-a3b", "parts"),
    ],
)
def test_graphs_that_are_priced_are_written_and_read(runtime: str, model: str, graphs: str, tmp_path: Path) -> None:
    inputs = question(read_model(model), "1x8:h100", runtime, global_batch=64, sequence_length=1024)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [f"host.graphs={graphs}"]))
    folder = tmp_path / "run"
    folder.mkdir()
    for name, text in launch_files(ONE, inputs, framework_of(runtime)).files.items():
        (folder / name).write_text(text, "utf-8")
    assert "export NCCL_GRAPH_REGISTER=0\n" in (folder / "train.sh").read_text("utf-8")
    read = question_of_file(folder, Given(cluster="1x8:h100"))
    assert read.inputs.runtime.host.graphs == graphs
    assert not {"--cuda-graph-impl", "--cuda-graph-modules"} & read.understood.unpriced.keys()
    assert not [note for note in read.notes if "graph" in note]


@pytest.mark.parametrize("name", ["megatron-lm", "megatron-bridge"])
def test_one_graph_of_a_step_is_written_for_experts_of_fixed_sizes_alone(name: str) -> None:
    """moe/README.md of Megatron-LM d98e8a64: dynamic shapes make layers of experts uncapturable."""
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", launch_table(name).runtimes[0], global_batch=64)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["host.graphs=iteration"]))
    with pytest.raises(InvalidSpec, match=r"graph_of_fixed_sizes: .* experts of fixed sizes.*--expert-capacity"):
        launch_files(ONE, inputs, name)
    padded = inputs.replace(job=inputs.job.replace(expert_capacity=1.25))
    assert "full_iteration" in "".join(launch_files(ONE, padded, name).files.values())


@pytest.mark.parametrize("name", ["megatron-lm", "megatron-bridge"])
def test_graphs_of_layers_are_not_written_beside_layers_that_are_computed_again(name: str) -> None:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", launch_table(name).runtimes[0], global_batch=64)
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["host.graphs=parts"]))
    with pytest.raises(InvalidSpec, match=r"graphs_of_recomputed_layers: .*; nearest: .* full_iteration"):
        launch_files(Plan(dp=8, zero=1, num_microbatches=8, recompute="full"), inputs, name)


@pytest.mark.parametrize("modules", ["mlp", "attn mlp"])
def test_graphs_that_are_not_priced_are_told(modules: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    words = f"{MODEL} {BATCH} --cuda-graph-impl local --cuda-graph-modules {modules}"
    script.write_text(f"torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py {words}")
    read = question_of_file(script, Given(cluster="1x8:h100"))
    assert read.inputs.runtime.host.graphs == "none"
    assert {"--cuda-graph-impl", "--cuda-graph-modules"} <= read.understood.unpriced.keys()


def test_losses_that_are_offered_can_be_launched() -> None:
    for name in catalog.names("runtimes"):
        runtime = read_runtime(name)
        if runtime.launch in launch_tables():
            run = launch_table(runtime.launch).kernels["cross_entropy"].keys()
            assert {runtime.kernels.cross_entropy, *runtime.kernels.other_cross_entropies} <= run


def test_a_ranking_of_changes_names_no_loss_that_files_refuse() -> None:
    words = (
        "explain",
        "llama-3.1-8b",
        "1x8:h100",
        "--runtime",
        "accelerate",
        "--seq-len",
        "8192",
        "--global-batch",
        "64",
    )
    assert "cross_entropy" not in asked(*words, "--zero", "3", "--micro-batch", "1", "--more").out
