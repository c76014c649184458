"""The command `verify`: its exit codes, what it prints, and what it says when it cannot run a plan."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest

from commands import LLAMA, asked
from meshwright.pytorch.processes import process

TITAN = (*LLAMA, "--runtime", "torchtitan")


@pytest.mark.clients("torch")
def test_a_plan_file_is_run_and_agrees(tmp_path: Path) -> None:
    plans = tmp_path / "plans.json"
    plans.write_text(asked("plan", *TITAN, "--top", "1", "--json").out)
    answer = asked("verify", str(plans))
    assert answer.code == 0
    heading = " ".join(answer.out.split())
    agreed = r"(PyTorch|torchtitan [\d.]+) agrees with all \d+ figures compared \(\d+ s\)"
    assert re.search(rf"{agreed}, extrapolated from two and four layers", heading)


@pytest.mark.clients("torch")
def test_a_figure_that_is_off_makes_the_exit_code_1() -> None:
    """A runtime that is said to keep no statistics of its norms."""
    answer = asked("verify", *TITAN, "--with", "keeps_statistics=false", "--json")
    document = json.loads(answer.out)
    assert answer.code == 1
    assert not document["holds"]
    off = [each["name"] for stage in document["stages"] for each in stage["quantities"] if not each["holds"]]
    assert off == ["activations per layer"]


@pytest.mark.parametrize(
    ("version", "told"),
    [(metadata.PackageNotFoundError("torch"), "torch is not installed"), ("2.9.1+cpu", "torch 2.9.1+cpu is installed")],
)
def test_torch_that_is_missing_or_another_is_told_with_what_to_install(version: object, told: str) -> None:
    effect = {"side_effect": version} if isinstance(version, Exception) else {"return_value": version}
    with mock.patch.object(process.metadata, "version", **effect):
        answer = asked("verify", *TITAN)
    assert answer.code == 2
    assert told in answer.message
    assert "pip install 'meshwright[torch]'" in answer.message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--with", "cross_entropy=fused"), "use --with cross_entropy=eager"),
        (("--real", "7"), "2 to 4 processes"),
        (("--real", "2", "--full"), "leave out one or the other"),
        (("--tp", "3"), "tp 3"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_change(options: tuple[str, ...], told: str) -> None:
    with mock.patch.object(process.metadata, "version", return_value="2.13.0"):
        answer = asked("verify", *TITAN, *options)
    assert answer.code == 2
    assert told in answer.message


def test_a_model_that_the_trainer_has_not_is_refused_with_every_reason() -> None:
    question = ("--model", "deepseek-v3", "--cluster", "8x8:h100", "--seq-len", "4096", "--global-batch", "512")
    answer = asked("verify", *question, "--tp", "8", "--ep", "8", "--zero", "1")
    assert answer.code == 2
    assert "latent attention, which the trainer lacks" in answer.message
    assert "shared, biased or ungated experts" in answer.message
