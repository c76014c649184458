"""Launch files read back from the objects of frameworks that no package installs, where a variable names a checkout.

NANOTRON and MEGATRON_DEEPSPEED name folders of their repositories, at the commits of our launch tables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from launch_read_back import JOBS, agrees, drawn, read_back, sharded
from meshwright.cost.memory.stage_parameters import stage_parameters
from meshwright.cost.shapes import pipelines_of
from meshwright.layout.plans import Plans

NANOTRON, MEGATRON_DEEPSPEED = (Path(os.environ.get(name, "")) for name in ("NANOTRON", "MEGATRON_DEEPSPEED"))
DACITE = Path(sys.prefix) / "dacite"
"""Where `make launch-files` puts what nanotron reads its configuration with."""
LONG = JOBS | {name: {"sequence_length": 32768} for name in ("llama-3.1-70b", "qwen2.5-7b")}
"""With sequences that context parallelism splits."""


@pytest.mark.slow
@pytest.mark.clients("torch", "transformers")
@pytest.mark.skipif(
    not ((NANOTRON / "src/nanotron").is_dir() and (DACITE / "dacite").is_dir()),
    reason="NANOTRON names no checkout of nanotron, or dacite is not installed: make launch-files NANOTRON=...",
)
def test_nanotron_reads_what_was_planned(tmp_path: Path) -> None:
    models = ("llama-3.1-8b", "llama-2-13b", "llama-3.2-3b", "llama-3.1-70b", "qwen2.5-7b", "qwen2.5-72b")
    written = drawn("nanotron", models, 5, LONG)
    answers = read_back("objects_nanotron.py", written, tmp_path, (str(DACITE), str(NANOTRON / "src")))
    for files, told in zip(written, answers, strict=True):
        pipelines, _ = pipelines_of(Plans.of([files.launch.plan]), files.launch.inputs, keep_all_stages=True)
        held = stage_parameters(pipelines.plans, pipelines.stages, files.launch.inputs)
        assert told.pop("parameters", None) == held.dense[0], (files.launch.plan, told)
    agrees(written, answers)


@pytest.mark.slow
@pytest.mark.clients("deepspeed", "transformers")
@pytest.mark.skipif(
    not (MEGATRON_DEEPSPEED / "pretrain_gpt.py").is_file(),
    reason="MEGATRON_DEEPSPEED names no checkout of it: make launch-files MEGATRON_DEEPSPEED=...",
)
def test_megatron_deepspeed_reads_what_was_planned(tmp_path: Path) -> None:
    written = drawn(
        "megatron-deepspeed", ("llama-3.1-8b", "llama-2-13b", "mixtral-8x7b", "gpt2-xl", "llama-3.1-70b"), 6, LONG
    )
    answers = read_back("objects_megatron_deepspeed.py", written, tmp_path, (str(MEGATRON_DEEPSPEED),))
    agrees(written, sharded(written, answers))
