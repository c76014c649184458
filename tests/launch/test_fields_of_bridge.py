"""People who write recipes of Megatron-Bridge are told its fields, not flags of Megatron-LM."""

from __future__ import annotations

from pathlib import Path

from test_file_rules import BRIDGE

from commands import asked
from meshwright.launch.table import launch_table

CLUSTER = ("--cluster", "8x8:h100")


def test_what_a_recipe_lacks_is_asked_for_by_its_fields_and_taken_by_them(tmp_path: Path) -> None:
    path = tmp_path / "b.py"
    lacking = BRIDGE.replace("seq_length=8192, ", "").replace("    cfg.dataset.seq_length = 8192\n", "")
    path.write_text(lacking.replace("    cfg.train.micro_batch_size = 1\n", ""))
    message = asked("check", "--from", str(path), *CLUSTER).message
    asks = ("--set model.seq_length=...", "--set train.micro_batch_size=...")
    assert all(each in message for each in asks)
    assert "--seq-length" not in message
    said = ("--set", "model.seq_length=8192", "--set", "train.micro_batch_size=1")
    assert asked("check", "--from", str(path), *CLUSTER, *said).code == 0


def test_changes_and_what_is_priced_are_told_as_fields(tmp_path: Path) -> None:
    path = tmp_path / "b.py"
    path.write_text(BRIDGE)
    told = " ".join(asked("explain", "--from", str(path), *CLUSTER, "--tp", "4", "--seq-len", "4096").out.split())
    assert "- set model.tensor_model_parallel_size = 4 - set model.seq_length = 4096" in told
    assert "priced as if the file set model.cross_entropy_loss_fusion = True" in told
    assert "set --" not in told
    assert "if --" not in told


def test_flags_of_frameworks_without_recipes_stay_flags() -> None:
    bridge, megatron = launch_table("megatron-bridge"), launch_table("megatron-lm")
    assert bridge.assignments("--swiglu", True)[0] == "model.gated_linear_unit = True"
    assert bridge.assignments("--recompute-granularity", "full") == ["model.recompute_granularity = 'full'"]
    assert bridge.key_in_file("--micro-batch-size") == "train.micro_batch_size"
    assert megatron.assignments("--recompute-granularity", "full") == ["--recompute-granularity full"]
    assert megatron.key_in_file("--micro-batch-size") == "--micro-batch-size"
