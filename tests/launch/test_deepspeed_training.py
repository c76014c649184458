"""DeepSpeed's folder trains as it is written, on two processes of the CPU: its script, its JSON and the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from objects import started

from launch_configs import TINY_LLAMA
from meshwright.answers.launch.files import launch_files
from meshwright.answers.launch.folder import write_folder
from meshwright.cost.shard import vocabulary_rows
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.imports.patch import patch_of
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.table import launch_table
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from strategies import question

STEPS = 2
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 16}
SIZES |= {"num_key_value_heads": 2, "vocab_size": 256}
ENDS = [(False, False), (True, False), (False, True)]
"""Whether they are tied, and whether the file divides the logits of those that are not."""
SPLIT = launch_table("deepspeed").split_weights
UNCOMPILED = {
    "import deepspeed\n": 'import deepspeed\n\ndeepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False\n',
    '"weight_decay": 0.1}': '"weight_decay": 0.1, "torch_adam": True}',
}
"""What is replaced in the script, as DeepSpeed compiles two things for a CPU alone, for minutes and anew in each
environment: messages through shared memory, and its Adam."""


PLANS = {
    "zero 2": (Plan(dp=2, zero=2, micro_batch=2, num_microbatches=2), 0),
    "tp": (Plan(tp=2, micro_batch=2), 0),
    "adapters, zero 2": (Plan(dp=2, zero=2, num_microbatches=2), 4),
    "adapters, zero 3, full": (Plan(dp=2, zero=3, recompute=Recompute.FULL), 4),
}
"""With the rank of adapters."""


def _written(plan: Plan, rank: int, folder: Path) -> Path:
    """The folder with a model, tokens, and the files of a plan."""
    (folder / "config.json").write_text(json.dumps(TINY_LLAMA))
    (folder / "tokens").write_bytes((5).to_bytes(4, "little") * 65 * 8)
    batch = plan.dp * plan.micro_batch * plan.num_microbatches
    sizes = {"sequence_length": 64, "global_batch": batch, "lora_rank": rank, "precision": "bf16"}
    inputs = question(read_model(str(folder)), "1x2:h100", "deepspeed", **sizes)
    files = launch_files(plan, inputs, "deepspeed").files
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    script = files["train.py"]
    for compiled, other in UNCOMPILED.items():
        assert script.count(compiled) == 1
        script = script.replace(compiled, other)
    (folder / "train.py").write_text(script, "utf-8")
    return folder


def _trained(command: list[str], folder: Path, **variables: str) -> str:
    """What is printed by what trains one folder or several."""
    told = {"STEPS": str(STEPS), "LEARNING_RATE": "1e-3", "NUMA_BINDING": "", "DS_ACCELERATOR": "cpu"}
    told |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=os.environ | told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with what their scripts printed: the first trained as users do it, the others in processes of one start,
    with the arguments that their train.sh gives to torchrun's script.
    """
    folders = {name: _written(*case, tmp_path_factory.mktemp("trained")) for name, case in PLANS.items()}
    first, *others = folders.values()
    told = {"MODEL": str(first), "DATA": str(first / "tokens"), "CHECKPOINTS": str(first / "saved")}
    (first / "printed").write_text(_trained(["bash", "train.sh"], first, MASTER_PORT="29517", **told))
    for folder in others:
        assert started(folder, "train.py", told | {"STEPS": "1", "LEARNING_RATE": "1"})[0] == []
    start = ["torchrun", "--nproc-per-node", "2", "--master-port", "29530"]
    _trained([*start, str(Path(__file__).parent / "trained_by_deepspeed.py"), *map(str, others)], first)
    return folders


@pytest.mark.slow
@pytest.mark.clients("deepspeed", "transformers", "peft")
@pytest.mark.parametrize("name", PLANS)
def test_the_folder_trains(name: str, trained: dict[str, Path]) -> None:
    assert f"step {STEPS} loss" in (trained[name] / "printed").read_text("utf-8")
    assert (trained[name] / "saved").is_dir()


@pytest.mark.slow
@pytest.mark.clients("deepspeed", "transformers")
def test_a_rank_has_the_rows_of_either_end_that_are_priced(tmp_path: Path) -> None:
    """Of every type of model whose weights AutoTP splits, with tied embeddings and without, on two processes."""
    cases = [_ends(kind, tied, divided) for kind in SPLIT for tied, divided in ENDS]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    scripts = [str(Path(__file__).parent / "objects_deepspeed_ends.py"), str(tmp_path / "cases.json")]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29519", *scripts],
        env=os.environ | {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("told ")] or [done.stderr[-2000:]]
    for case, told in zip(cases, json.loads(line.removeprefix("told ")), strict=True):
        model = read_model("llama-3.1-8b").replace(
            family=case["type"], tied_embeddings=case["tied"], vocab_size=SIZES["vocab_size"]
        )
        inputs = question(model, "1x2:h100", "deepspeed")
        if case["settings"]:
            inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["gathers_logits=false"]))
        rows = vocabulary_rows(Plan(tp=2), inputs)
        assert told == {name: int(count) for name, count in rows._asdict().items()}, case


def _ends(kind: str, tied: bool, divided: bool) -> dict[str, Any]:
    settings = {"vocab_parallel_lm_head": True} if divided else {}
    return {"type": kind, "tied": tied, "sizes": SIZES, "settings": settings}


@pytest.mark.parametrize("divided", [False, True])
def test_logits_are_priced_as_the_file_divides_them(divided: bool, tmp_path: Path) -> None:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", "deepspeed", global_batch=64, precision="bf16")
    if divided:
        inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["gathers_logits=false"]))
    files = launch_files(Plan(tp=8, num_microbatches=64), inputs, "deepspeed").files
    assert ("vocab_parallel_lm_head" in files["deepspeed.json"]) == divided
    given = Given(cluster="1x8:h100", model="llama-3.1-8b")
    read = question_of_file(write_folder(files, tmp_path / "run"), given)
    assert read.inputs.runtime.sharding.gathers_logits is not divided


@pytest.mark.parametrize(("model", "splits"), [("llama-3.1-8b", True), ("mixtral-8x7b", False), ("phi-4", False)])
def test_weights_are_split_of_models_whose_plan_autotp_takes(model: str, splits: bool) -> None:
    inputs = question(read_model(model), "1x8:h100", "deepspeed", global_batch=64)
    plan = Plan(tp=2, dp=4, zero=1, num_microbatches=16)
    if splits:
        assert export(plan, inputs, "deepspeed").plan == plan
        return
    with pytest.raises(InvalidSpec, match=r"splits weights of models of llama, .*\nPlan with --tp 1") as caught:
        export(plan, inputs, "deepspeed")
    assert [fault.where for fault in caught.value.faults] == ["plan"]


def test_the_batch_of_a_file_with_autotp_counts_every_tensor_parallel_rank(tmp_path: Path) -> None:
    settings = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
    settings |= {"zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": 2}}
    (tmp_path / "deepspeed.json").write_text(json.dumps(settings))
    given = Given(cluster="2x8:h100", model="llama-3.1-8b", values={"job.sequence_length": "4096"})
    read = question_of_file(tmp_path / "deepspeed.json", given)
    assert (read.inputs.job.global_batch, str(read.plan)) == (32, "tp2 pp1 dp8 zero1 mbs1 m4")
    assert any("train_batch_size 64 counts each sequence on all 2" in note for note in read.notes)
    other = replace(read.plan, tp=4, dp=4, num_microbatches=8)
    patch = patch_of(read, other, read.inputs)
    assert patch.settings == {
        "tensor_parallel.autotp_size": 4,
        "gradient_accumulation_steps": 8,
        "train_batch_size": None,
    }
    assert [line for line in patch.diff.splitlines() if line.startswith("-{") and '"train_batch_size": 64' in line]


@pytest.mark.parametrize("wide", [True, False])
def test_the_script_of_deepspeed_has_adapters_as_they_are_priced(tmp_path: Path, wide: bool) -> None:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", "deepspeed", lora_rank=8, precision="bf16")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, [] if wide else ["wide_adapters=false"]))
    plan = Plan(dp=8, zero=3, num_microbatches=inputs.job.global_batch // 8)
    folder = write_folder(launch_files(plan, inputs, "deepspeed").files, tmp_path / "run")
    assert f"ADAPTERS_IN_FP32 = {wide}" in (folder / "train.py").read_text("utf-8")
    again = question_of_file(folder, Given(cluster="1x8:h100", model="llama-3.1-8b")).inputs
    assert (again.runtime.storage.wide_adapters, again.job.lora_rank) == (wide, 8)
