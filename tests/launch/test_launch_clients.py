"""Launch files read back from the frameworks' own objects, in processes of their own: degrees, micro-batches, layers.

The plans are drawn at random from all that are legal, the same in every run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launch_configs import DEEPSEEK, LLAMA_31
from meshwright.answers.launch_files import LaunchFiles, launch_files
from meshwright.answers.launch_folder import write_folder
from meshwright.errors import InvalidSpec
from meshwright.layout.plan import RECOMPUTE_NAMES, Plan, Recompute
from meshwright.layout.splits import layers_of_chunks
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.huggingface.values import config_values
from meshwright.specs.read_model import read_model
from strategies import legal_plans, question

HERE = Path(__file__).parent
MEGATRON = Path(sys.prefix) / "megatron"
"""Where `make test-clients` puts a Megatron-core with its command line, apart from the one that pip takes by itself."""
FOUNDRY = Path(sys.prefix) / "llm-foundry"
"""Where it puts llm-foundry, without what that depends on."""
MODELS = ("llama-3.1-8b", "llama-2-13b", "mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b")
"""Grouped queries, a query head each, experts, latent attention, norms of queries and keys."""
CONFIGS = {"llama-3.1-8b": LLAMA_31, "deepseek-v2-lite": DEEPSEEK}
"""What is carried of a config.json."""
CLUSTERS = ("1x8:h100", "4x8:h100", "4x8:b200", "16x8:h100")
LENGTHS = {"gpt2-xl": 1024}
"""Of models that have learned positions; of others 4096."""
PLANS_READ = int(os.environ.get("PLANS_READ", "0"))
"""At least so many plans of every model; `make launch-files` asks for 100."""
RUNTIMES = {"megatron-lm": "megatron-core"}
FP16 = "llama-2-13b"


def drawn(framework: str, models: tuple[str, ...], each: int) -> list[LaunchFiles]:
    """So many plans of every model that the framework has settings for, over clusters by turns."""
    each = max(each, PLANS_READ)
    shares = [len(range(turn, each, len(CLUSTERS))) for turn in range(len(CLUSTERS))]
    asked = [(model, *share) for model in models for share in zip(CLUSTERS, shares, strict=True)]
    written: list[LaunchFiles] = []
    for model, cluster, share in asked:
        precision = "fp16" if model == FP16 and framework != "torchtitan" else "bf16"
        runtime, known = RUNTIMES.get(framework, framework), read_model(model)
        inputs = question(
            known.replace(config_values=config_values(CONFIGS.get(model, {}))),
            cluster,
            runtime,
            global_batch=256,
            sequence_length=LENGTHS.get(model, 4096),
            precision=precision,
        )
        plans, count = legal_plans(inputs), len(written)
        for plan in plans.take(np.random.default_rng(1).permutation(len(plans))[: 400 * share]):
            try:
                written.append(launch_files(plan, inputs, framework))
            except InvalidSpec:
                continue
            if len(written) - count == share:
                break
    return written


def read_back(
    script: str, written: list[LaunchFiles], folder: Path, path: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """What a framework's own objects make of the files."""
    cases = []
    for number, files in enumerate(written):
        launch = files.launch
        at = write_folder(files.files, folder / str(number))
        capability = launch.inputs.cluster.accelerator.compute_capability
        cases.append(
            {"folder": str(at), "ranks": launch.plan.num_gpus, "nodes": launch.nodes, "capability": capability}
        )
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = os.environ | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})
    command = [sys.executable, str(HERE / script), str(folder / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def agrees(written: list[LaunchFiles], answers: list[dict[str, Any]]) -> None:
    """Hold every field that a framework tells to the plan and its question."""
    assert len(written) == len(answers) >= 20
    for files, told in zip(written, answers, strict=True):
        plan, inputs = files.launch.plan, files.launch.inputs
        planned: dict[str, Any] = {
            **plan.to_dict(),
            "sp": plan.sp and plan.tp > 1,
            "etp": plan.etp if inputs.model.is_moe else plan.tp,
            "layers": [int(each) for each in layers_of_chunks(inputs, plan)],
            "recompute": RECOMPUTE_NAMES[plan.recompute],
            "recomputes": RECOMPUTE_NAMES[plan.recompute] == "full",
            "precision": inputs.recipe.half,
            "gradients": "fp32" if inputs.gradient_bytes == 4 else inputs.recipe.half,
            "global_batch": inputs.job.global_batch,
            "hidden_size": inputs.model.hidden_size,
            "heads": inputs.model.layer_kinds[0].attention.heads,
            "vocab_size": inputs.model.vocab_size,
            "ranks": plan.num_gpus,
            "processes": plan.num_gpus,
            "version": 2,
            "overlap": plan.zero > 0,
        }
        assert told == {name: planned.get(name) for name in told}, f"{inputs.model.name} {plan}: {told}"


@pytest.mark.slow
@pytest.mark.clients("deepspeed")
def test_deepspeed_reads_what_was_planned(tmp_path: Path) -> None:
    written = drawn("deepspeed", MODELS, 6)
    agrees(written, read_back("objects_deepspeed.py", written, tmp_path))


@pytest.mark.slow
@pytest.mark.clients("deepspeed")
def test_deepspeed_reads_the_json_of_megatron_deepspeed_as_planned(tmp_path: Path) -> None:
    written = drawn("megatron-deepspeed", ("llama-3.1-8b", "llama-2-13b", "mixtral-8x7b"), 10)
    answers = read_back("objects_deepspeed.py", written, tmp_path)
    for files, told in zip(written, answers, strict=True):
        if files.launch.plan.dp == 1:
            told.pop("zero", None)  # nothing is sharded over one rank
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("accelerate")
def test_accelerate_reads_what_was_planned(tmp_path: Path) -> None:
    written = [each for each in drawn("accelerate", MODELS, 6) if each.launch.plan.zero]
    answers = read_back("objects_accelerate.py", written, tmp_path)
    for files, told in zip(written, answers, strict=True):
        plan = files.launch.plan
        fastest = [name for name, degree in (("tp", plan.tp), ("cp", plan.cp)) if degree > 1]
        assert told.pop("fastest") == (fastest or ["dp_shard"])[0], plan
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("torch")
@pytest.mark.skipif(
    not (MEGATRON / "megatron").is_dir(), reason="Megatron-core's command line is not installed: make test-clients"
)
def test_megatron_reads_what_was_planned(tmp_path: Path) -> None:
    written = drawn("megatron-lm", (*MODELS, "gpt2-xl"), 5)
    answers = read_back("objects_megatron.py", written, tmp_path, (str(MEGATRON),))
    for files, told in zip(written, answers, strict=True):
        if files.launch.plan.dp * files.launch.plan.cp == 1:
            told.pop("zero", None)  # nothing is sharded over one rank, whatever the plan says
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@pytest.mark.skipif(not (FOUNDRY / "llmfoundry").is_dir(), reason="llm-foundry is not installed: make test-clients")
def test_llm_foundry_reads_what_was_planned(tmp_path: Path) -> None:
    llama = ("llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b")
    written = drawn("llm-foundry", (*llama, "llama-3.2-3b", "phi-4", "qwen2.5-7b", "qwen2.5-72b"), 4)
    agrees(written, read_back("objects_foundry.py", written, tmp_path, (str(FOUNDRY),)))


@pytest.mark.slow
@pytest.mark.clients("torchtitan")
def test_torchtitan_reads_what_was_planned(tmp_path: Path) -> None:
    assert find_spec("torchtitan")
    written = drawn("torchtitan", ("llama-3.1-8b", "llama-3.2-3b", "deepseek-v2-lite", "qwen3-30b-a3b"), 6)
    answers = read_back("objects_torchtitan.py", written, tmp_path)
    for files, told in zip(written, answers, strict=True):
        if files.launch.plan.pp == 1:
            assert told.pop("layers") == []
        assert told.pop("dispatcher") == ("AllToAllTokenDispatcher" if files.launch.plan.ep > 1 else "none")
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("torchtitan")
@pytest.mark.parametrize("model", ["deepseek-v2-lite", "qwen3-30b-a3b"])
@pytest.mark.parametrize(("kernels", "called"), [("deep_ep", "DeepEP"), ("hybrid_ep", "HybridEP")])
def test_torchtitan_sends_tokens_as_is_priced(model: str, kernels: str, called: str, tmp_path: Path) -> None:
    inputs = question(read_model(model), "1x8:h100", "torchtitan", sequence_length=4096, global_batch=64)
    runtime = with_behaviours(inputs.runtime, ["dispatcher=fused", f"fused_kernels={kernels}"])
    plan = Plan(dp=8, ep=8, zero=3, micro_batch=2, num_microbatches=4, recompute=Recompute.FULL)
    (told,) = read_back(
        "objects_torchtitan.py", [launch_files(plan, inputs.replace(runtime=runtime), "torchtitan")], tmp_path
    )
    assert told["dispatcher"] == f"{called}TokenDispatcher {2 * 4096}"
