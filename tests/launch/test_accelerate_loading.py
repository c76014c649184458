"""Accelerate's script makes the weights on one process, and every rank gets its part of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch_configs import TINY_LLAMA
from meshwright.answers.launch.files import launch_files
from meshwright.layout.plan import Plan
from meshwright.specs.reading.model import read_model
from strategies import question


@pytest.mark.slow
@pytest.mark.clients("accelerate", "transformers")
def test_a_rank_without_weights_gets_those_of_the_first_with_its_own_rotary_buffers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY_LLAMA))
    inputs = question(read_model(str(tmp_path)), "1x2:h100", "accelerate", sequence_length=64, global_batch=2)
    script = tmp_path / "train.py"
    script.write_text(launch_files(Plan(dp=2, zero=3), inputs, "accelerate").files["train.py"])
    loaded = Path(__file__).parent / "loaded_by_accelerate.py"
    command = [sys.executable, str(loaded), str(script), str(tmp_path / "store")]
    environment = os.environ | {"MODEL": str(tmp_path), "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}
    ranks = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ended = [rank.communicate() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors for _, errors in ended)
    told = json.loads(ended[1][0].splitlines()[-1])
    assert len(told["same"]) == 21
    assert all(told["same"])
    assert 0 < told["loss"] < 2 * math.log(TINY_LLAMA["vocab_size"])
    assert all(1 < total < 2 for total in told["buffers"])
