"""Fields of configurations that their framework does not have, and sections that are misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.imports.rules.demands import FileRule

TITAN = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[metrics]
log_freq = 10
[parallelism]
data_parallel_shard_degree = 8
"""
ZERO = '{"train_batch_size": 64, "bf16": {"enabled": true},\n "zero_optimization": {"stage": 3, "overlap_comm": true}}'
SAID = {"job.sequence_length": "4096", "plan.micro_batch": "1", "plan.zero": "3"}


def rule_of(path: Path, text: str, **said: str) -> FileRule:
    path.write_text(text)
    question = question_of_file(path, Given(cluster="1x8:h100", model="llama-3.1-8b", values=said))
    return next(rule for rule in question.rules if rule.name == "known_keys")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "seq_len = 8192",
            "seq_len = 8192\nseq_length = 8192",
            "line 7: training.seq_length (nearest: training.seq_len)",
        ),
        ("log_freq", "log_frequency", "line 8: metrics.log_frequency (nearest: metrics.log_freq)"),
        ("log_freq", "zeal", "line 8: metrics.zeal: no field of any release"),
    ],
)
def test_torchtitan_refuses_fields_that_it_has_not(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert rule_of(tmp_path / "a.toml", TITAN).kept
    rule = rule_of(tmp_path / "a.toml", TITAN.replace(old, new))
    assert (rule.kept, told in rule.reason) == (False, True)
    assert asked("check", "--from", str(tmp_path / "a.toml"), "--cluster", "1x8:h100").code == 2


@pytest.mark.parametrize(
    "more",
    [
        '[hf_transformers]\nmodel = "Qwen/Qwen3-8B"\n',
        "[optimizer]\nearly_step_in_backward = false\n",
    ],
)
def test_fields_of_a_class_that_a_command_line_may_name_are_not_refused(tmp_path: Path, more: str) -> None:
    assert rule_of(tmp_path / "a.toml", TITAN + more).kept


def test_a_class_with_fields_of_its_own_leaves_them_unchecked(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(TITAN + '[job]\ncustom_config_module = "my.config"\n[optimizer]\nmine = 1\n')
    rules = question_of_file(path, Given(cluster="1x8:h100")).rules
    assert "known_keys" not in {rule.name for rule in rules}


def test_a_section_that_is_nearly_one_of_deepspeed_is_broken(tmp_path: Path) -> None:
    assert rule_of(tmp_path / "ds.json", ZERO, **SAID).kept
    rule = rule_of(tmp_path / "ds.json", ZERO.replace("optimization", "optimisation"), **SAID)
    assert not rule.kept
    assert rule.reason.startswith("line 2: zero_optimisation (nearest: zero_optimization): no setting of DeepSpeed")
    assert rule_of(tmp_path / "ds.json", ZERO.replace('"bf16"', '"my_own": {"a": 1}, "bf16"'), **SAID).kept
