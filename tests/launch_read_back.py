"""Launch files drawn at random, given to a framework's own objects in a process of its own, and held to their plans.

The plans are drawn from all that are legal, the same in every run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from launch_configs import DEEPSEEK, LLAMA_31
from meshwright.answers.launch.files import LaunchFiles, launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.errors import InvalidSpec
from meshwright.layout.splits import layers_of_chunks
from meshwright.specs.choices import RECOMPUTE_NAMES
from meshwright.specs.reading.huggingface.values import config_values
from meshwright.specs.reading.model import read_model
from strategies import legal_plans, question

SCRIPTS = Path(__file__).parent / "launch"
CONFIGS = {"llama-3.1-8b": LLAMA_31, "deepseek-v2-lite": DEEPSEEK}
"""What is carried of a config.json."""
CLUSTERS = ("1x8:h100", "4x8:h100", "4x8:b200", "16x8:h100")
PLANS_READ = int(os.environ.get("PLANS_READ", "0"))
"""At least so many plans of every model; `make launch-files` asks for 100."""
RUNTIMES = {"megatron-lm": "megatron-core"}
USUAL = {"global_batch": 256, "sequence_length": 4096, "precision": "bf16"}
JOBS: dict[str, dict[str, Any]] = {"gpt2-xl": {"sequence_length": 1024}, "llama-2-13b": {"precision": "fp16"}}
"""What is asked otherwise of a model: one that has learned positions, one in another precision."""


def drawn(
    framework: str,
    models: tuple[str, ...],
    each: int,
    jobs: Mapping[str, dict[str, Any]] = JOBS,
    clusters: tuple[str, ...] = CLUSTERS,
) -> list[LaunchFiles]:
    """So many plans of every model that the framework has settings for, over clusters by turns."""
    each = max(each, PLANS_READ)
    shares = [len(range(turn, each, len(clusters))) for turn in range(len(clusters))]
    asked = [(model, *share) for model in models for share in zip(clusters, shares, strict=True)]
    written: list[LaunchFiles] = []
    for model, cluster, share in asked:
        known = read_model(model).replace(config_values=config_values(CONFIGS.get(model, {})))
        job = USUAL | jobs.get(model, {})
        inputs = question(known, cluster, RUNTIMES.get(framework, framework), **job)
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
    return answered(script, cases_of(written, folder), folder, path)


def cases_of(written: list[LaunchFiles], folder: Path) -> list[dict[str, Any]]:
    """What a script is asked of files, which are written to a folder of each."""
    cases: list[dict[str, Any]] = []
    for number, files in enumerate(written):
        launch = files.launch
        at = write_folder(files.files, folder / str(number))
        capability = launch.inputs.cluster.accelerator.compute_capability
        cases.append(
            {"folder": str(at), "ranks": launch.plan.num_gpus, "nodes": launch.nodes, "capability": capability}
        )
    return cases


def answered(
    script: str, cases: list[dict[str, Any]], folder: Path, path: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """What a script of `launch` says of cases, in a process that finds packages in the folders of the path first."""
    (folder / "cases.json").write_text(json.dumps(cases))
    environment = os.environ | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})
    command = [sys.executable, str(SCRIPTS / script), str(folder / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def sharded(written: list[LaunchFiles], answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers, without the sharding where there is one rank to shard over, whatever the plan says."""
    alone = [files.launch.plan.dp * files.launch.plan.cp == 1 for files in written]
    return [
        {name: said for name, said in told.items() if name != "zero" or not one}
        for told, one in zip(answers, alone, strict=True)
    ]


def agrees(written: list[LaunchFiles], answers: list[dict[str, Any]]) -> None:
    """Hold every field that a framework tells to the plan and its question."""
    assert len(written) == len(answers) >= 20
    for files, told in zip(written, answers, strict=True):
        plan, inputs = files.launch.plan, files.launch.inputs
        first, kinds = inputs.model.layer_kinds[0], [inputs.model.layer_kinds[at] for at in inputs.model.layer_pattern]
        planned: dict[str, Any] = {
            **plan.to_dict(),
            "sp": plan.sp and plan.tp > 1,
            "etp": plan.etp if inputs.model.is_moe else plan.tp,
            "layers": [int(each) for each in layers_of_chunks(inputs, plan)],
            "layer_kinds": [[kind.attention.latent is not None, kind.is_moe] for kind in kinds],
            "recompute": RECOMPUTE_NAMES[plan.recompute],
            "recomputes": RECOMPUTE_NAMES[plan.recompute] == "full",
            "precision": inputs.recipe.half,
            "number_format": inputs.job.precision,
            "gradients": "fp32" if inputs.gradient_bytes == 4 else inputs.recipe.half,
            "global_batch": inputs.job.global_batch,
            "sequence_length": inputs.job.sequence_length,
            "hidden_size": inputs.model.hidden_size,
            "heads": first.attention.heads,
            "kv_heads": first.attention.kv_heads,
            "ffn_size": first.feed_forward.ffn_size,
            "vocab_size": inputs.model.vocab_size,
            "lora_rank": inputs.job.lora_rank,
            "ranks": plan.num_gpus,
            "processes": plan.num_gpus,
            "version": 2,
            "overlap": plan.zero > 0,
        }
        differing = {name: (said, planned.get(name)) for name, said in told.items() if said != planned.get(name)}
        assert not differing, f"{inputs.model.name} {plan}: told and planned: {differing}"
