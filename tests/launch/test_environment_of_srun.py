"""What srun and env hand on of the environment of a script, and the numbers that Slurm is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_file_rules import SCRIPT

from commands import asked
from meshwright.launch.imports.machines import Machines, machines_of
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.settings import LaunchSettings

EXPORTS = "export A=1\nB=2\nexport B\nexport C=3\n"
PROGRAM = "python pretrain_gpt.py --num-layers 2 --hidden-size 8\n"


def read(folder: Path, text: str) -> LaunchSettings:
    path = folder / "run.slurm"
    path.write_text(f"#!/bin/bash\n{text}")
    return read_launch_file(path)


@pytest.mark.parametrize(
    ("start", "environment"),
    [
        ("srun ", {"A": "1", "B": "2", "C": "3"}),
        ("srun --export=ALL,A=5 ", {"A": "5", "B": "2", "C": "3"}),
        ("srun --export=A=5,B ", {"A": "5", "B": "2"}),
        ("srun --export B,D=4 ", {"B": "2", "D": "4"}),
        ("srun --export=NONE ", {}),
        ("D=4 srun --export=D ", {"D": "4"}),
        ("srun env A=7 D=4 ", {"A": "7", "B": "2", "C": "3", "D": "4"}),
        ("torchrun --export=NONE ", {"A": "1", "B": "2", "C": "3"}),
    ],
)
def test_variables_that_a_program_is_started_with(tmp_path: Path, start: str, environment: dict[str, str]) -> None:
    assert read(tmp_path, EXPORTS + start + PROGRAM).environment == environment


def test_a_shell_that_srun_starts_exports_for_itself(tmp_path: Path) -> None:
    inner = f"srun --export=B bash -c 'export D=4; {PROGRAM.strip()}'\nexport A=9\n"
    settings = read(tmp_path, EXPORTS + inner)
    assert settings.environment == {"B": "2", "D": "4"}
    assert settings.withheld == ("A", "C")


def test_srun_hands_on_what_sbatch_is_told_to(tmp_path: Path) -> None:
    """By a variable, which a script can unset."""
    job = f"#SBATCH --export=NONE\n{EXPORTS}srun {PROGRAM}"
    assert read(tmp_path, job).environment == {}
    assert read(tmp_path, job.replace("srun", "unset SLURM_EXPORT_ENV\nsrun")).environment.keys() == {"A", "B", "C"}
    assert read(tmp_path, job.replace("srun", "srun --export=ALL")).environment.keys() == {"A", "B", "C"}


def test_what_is_not_handed_on_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT.replace("torchrun", "srun --export=NCCL_DEBUG=INFO torchrun"))
    out = " ".join(asked("check", "--from", str(path), "--cluster", "8x8:h100").out.split())
    assert "and not CUDA_DEVICE_MAX_CONNECTIONS, which the script exports: with ALL among them" in out
    assert "Megatron-LM refuses this file unless" in out


@pytest.mark.parametrize(
    ("text", "machines"),
    [
        ("#SBATCH --nodes=4 --gpus-per-node=h100:8\nsrun ", Machines(4, 8, 32)),
        ("#SBATCH --gpus=a100:32\nsrun ", Machines(None, None, 32)),
        ("#SBATCH -G 16\nsrun ", Machines(None, None, 16)),
        ("#SBATCH --ntasks=64\nsrun ", Machines(None, None, 64)),
        ("#SBATCH --ntasks=8 --nodes=2 --ntasks-per-node=4\nsrun ", Machines(2, 4, 8)),
        ("NNODES=2 NPROC_PER_NODE=4 ", Machines(2, 4, 8)),
        ("torchrun --nproc_per_node=4 ", Machines(1, 4, 4)),
        ("torchrun --nproc_per_node=4 --nnodes=$NODES ", Machines(None, 4, None)),
        ("NPROC_PER_NODE=4 ", Machines(1, 4, 4)),
        ("NNODES=$WORLD_SIZE NPROC_PER_NODE=8 ", Machines(None, 8, None)),
    ],
)
def test_counts_of_nodes_and_accelerators(tmp_path: Path, text: str, machines: Machines) -> None:
    assert machines_of(read(tmp_path, text + PROGRAM), []) == machines
