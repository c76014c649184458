"""Files for a rank that shares states with no other, where frameworks drop settings that several ranks have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch_configs import TINY_LLAMA
from launch_read_back import read_back
from meshwright.answers.launch.files import LaunchFiles, launch_files
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from strategies import question

LLAMA = read_model("llama-3.2-1b")
OFFLOADED = "optimizer_states=offloaded"
RECOMPUTED = Plan(num_microbatches=8, recompute=Recompute.FULL)


def asked(framework: str, *behaviours: str, cluster: str = "1x1:h100", **job: Any) -> Inputs:
    inputs = question(LLAMA, cluster, framework, global_batch=8, precision="bf16", **job)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [*behaviours]))


def of_deepspeed(zero: int, *behaviours: str, tp: int = 1, **job: Any) -> LaunchFiles:
    inputs = asked("deepspeed", *behaviours, cluster=f"1x{tp}:h100", **job)
    return launch_files(Plan(tp=tp, zero=zero, num_microbatches=8), inputs, "deepspeed")


@pytest.mark.parametrize("tp", [1, 8])
@pytest.mark.parametrize(
    ("zero", "behaviours", "gradients", "stage"),
    [
        (0, [], None, 0),
        (1, [], None, 1),
        (3, [], None, 3),
        (0, [], "fp32", 1),
        (2, [], "fp32", 2),
        (0, [OFFLOADED], None, 1),
        (1, [OFFLOADED], None, 1),
        (3, [OFFLOADED], None, 3),
    ],
)
def test_deepspeed_keeps_the_stage_of_a_rank_that_divides_nothing(
    tp: int, zero: int, behaviours: list[str], gradients: str | None, stage: int
) -> None:
    """Stage 0 passes offload_optimizer over, and refuses gradients of another type than the weights' (DeepSpeed 0.19.8
    runtime/engine.py, _do_optimizer_sanity_check).
    """
    files = of_deepspeed(zero, *behaviours, tp=tp, gradients=gradients).files
    written = json.loads(files["deepspeed.json"])
    assert written["zero_optimization"]["stage"] == stage
    assert written["data_types"]["grad_accum_dtype"] == (gradients or "bf16")
    assert ("offload_optimizer" in written["zero_optimization"]) == bool(behaviours)


def test_a_bucket_that_is_not_priced_is_small_where_one_rank_offloads() -> None:
    """DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, setup_buckets: 5e8 elements unless told otherwise."""
    zero = json.loads(of_deepspeed(0, OFFLOADED).files["deepspeed.json"])["zero_optimization"]
    assert zero["reduce_bucket_size"] == 50_000_000


@pytest.mark.slow
@pytest.mark.clients("deepspeed")
def test_deepspeed_takes_the_types_of_one_rank(tmp_path: Path) -> None:
    written = [of_deepspeed(zero, gradients="fp32") for zero in (0, 1, 3)]
    told = read_back("objects_deepspeed.py", written, tmp_path)
    assert [(each["zero"], each["gradients"]) for each in told] == [(1, "fp32"), (1, "fp32"), (3, "fp32")]


def test_llm_foundry_recomputes_nothing_on_one_process() -> None:
    """mosaicml/llm-foundry@8c8dd48f7216 llmfoundry/command_utils/train.py: fsdp_config is dropped on one, which
    composer/distributed/dist_strategy.py has activation_checkpointing from.
    """
    with pytest.raises(
        InvalidSpec, match=r"no setting for recomputation full, and would run none(?s:.*)--recompute none"
    ):
        export(RECOMPUTED, asked("llm-foundry"), "llm-foundry")
    files = launch_files(Plan(num_microbatches=8), asked("llm-foundry"), "llm-foundry").files
    fsdp = yaml.safe_load(files["llm-foundry.yaml"])["fsdp_config"]
    assert (fsdp["sharding_strategy"], fsdp["activation_checkpointing"]) == ("NO_SHARD", False)


def test_llm_foundry_has_no_8_bits_on_one_process() -> None:
    """amp_fp8 opens no autocast (mosaicml/composer@640518880 composer/core/precision.py, get_precision_context), so
    that without FSDP queries are fp32, which FlashAttention does not take.
    """
    inputs = asked("llm-foundry")
    quantised = inputs.replace(job=inputs.job.replace(precision="fp8-delayed"))
    with pytest.raises(InvalidSpec, match="fp8-delayed, and would run bf16"):
        export(Plan(num_microbatches=8), quantised, "llm-foundry")


RECOMPUTES = """
import os, sys
from pathlib import Path
os.environ |= {"DATA": "", "CHECKPOINTS": "", "STEPS": "1", "LEARNING_RATE": "1"}
script = {}
exec(Path(sys.argv[1]).read_text("utf-8").partition("def optimizer")[0], script)
print(script["model"]().is_gradient_checkpointing)
"""


@pytest.mark.slow
@pytest.mark.clients("accelerate", "transformers")
@pytest.mark.parametrize(("cluster", "sharded"), [("1x1:h100", False), ("1x8:h100", True)])
def test_the_script_of_accelerate_recomputes_where_fsdp_does_not(tmp_path: Path, cluster: str, sharded: bool) -> None:
    """accelerate 1.15.0 accelerator.py has layers recomputed by the plugin of FSDP alone, which a single rank lacks."""
    (tmp_path / "config.json").write_text(json.dumps(TINY_LLAMA))
    job = {"sequence_length": 64, "global_batch": 8, "precision": "bf16"}
    inputs = question(read_model(str(tmp_path)), cluster, "accelerate", **job)
    plan = Plan(dp=8, zero=3, recompute=Recompute.FULL) if sharded else RECOMPUTED
    files = launch_files(plan, inputs, "accelerate").files
    assert f"distributed_type: {'FSDP' if sharded else 'MULTI_GPU'}" in files["accelerate.yaml"]
    (tmp_path / "train.py").write_text(files["train.py"])
    command = [sys.executable, "-c", RECOMPUTES, str(tmp_path / "train.py")]
    told = {"MODEL": str(tmp_path), "ACCELERATE_USE_FSDP": str(sharded).lower()}
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == str(not sharded)


@pytest.mark.parametrize("recompute", [Recompute.NONE, Recompute.FULL])
def test_the_script_of_accelerate_says_whether_layers_are_recomputed(recompute: Recompute) -> None:
    plan = Plan(num_microbatches=8, recompute=recompute)
    files = launch_files(plan, asked("accelerate"), "accelerate").files
    assert f"\nRECOMPUTES = {recompute == Recompute.FULL}\n" in files["train.py"]
