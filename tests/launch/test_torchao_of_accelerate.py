"""Files of accelerate in 8 bits, whose products are torchao's: what it refuses beside them, and how it gathers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from launch_read_back import read_back
from meshwright.answers.launch.files import LaunchFiles, launch_files
from meshwright.launch.settings import launch_settings
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import llama_8b, question

PLAN = Plan(dp=8, zero=3, num_microbatches=8)


def asked(*behaviours: str, precision: str = "fp8") -> Inputs:
    inputs = question(llama_8b(), "1x8:h100", "accelerate", global_batch=64, precision=precision)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [*behaviours]))


def written(*behaviours: str, precision: str = "fp8") -> LaunchFiles:
    return launch_files(PLAN, asked(*behaviours, precision=precision), "accelerate")


def settings(files: LaunchFiles) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(files.files["accelerate.yaml"])
    return tree


@pytest.mark.parametrize(("precision", "by_one", "host"), [("bf16", True, "29.9 GiB"), ("fp8", False, "239.3 GiB")])
def test_every_process_makes_the_weights_beside_torchao(precision: str, by_one: bool, host: str) -> None:
    """accelerate 1.15.0 accelerator.py, Accelerator.__init__: a ValueError of both, as it is on by default."""
    files = written(precision=precision)
    assert settings(files)["fsdp_config"]["fsdp_cpu_ram_efficient_loading"] is by_one
    assert f"Host memory: {host} a node" in files.files["train.sh"]
    told = [each for each in launch_settings(PLAN, asked(precision=precision)) if each.name == "loading_beside_torchao"]
    assert bool(told) is not by_one


@pytest.mark.parametrize(("behaviours", "gathered"), [([], False), (['quantised_weight_gathers=["fp8"]'], True)])
def test_weights_are_gathered_as_they_are_priced(behaviours: list[str], gathered: bool) -> None:
    """accelerate 1.15.0 commands/launch.py: in 8 bits unless told otherwise."""
    assert settings(written(*behaviours))["fp8_config"] == {"backend": "AO", "enable_fsdp_float8_all_gather": gathered}


@pytest.mark.slow
@pytest.mark.clients("accelerate")
def test_accelerate_takes_files_in_8_bits(tmp_path: Path) -> None:
    (told,) = read_back("objects_accelerate.py", [written()], tmp_path)
    assert (told["precision"], told["dp"], told["zero"]) == ("fp8", 8, 3)
