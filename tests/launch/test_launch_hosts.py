"""Hosts of launch files: a rack that was asked about as one node starts on its trays."""

from __future__ import annotations

import pytest

from meshwright.answers.launch.files import LaunchFiles, launch_files
from meshwright.answers.screen import headline
from meshwright.layout.plan import Plan
from strategies import llama_8b, question


def written(cluster: str, plan: Plan) -> LaunchFiles:
    return launch_files(plan, question(llama_8b(), cluster, global_batch=216), "megatron-core")


@pytest.mark.parametrize("cluster", ["3x72:gb300", "54x4:gb300", "6x36:gb300"])
def test_a_rack_starts_on_its_hosts(cluster: str) -> None:
    made = written(cluster, Plan(dp=216, zero=1))
    assert "#SBATCH --nodes=54\n" in made.files["job.slurm"]
    assert "#SBATCH --gpus-per-node=4\n" in made.files["job.slurm"]
    assert '--nnodes "${NNODES:-54}" --nproc-per-node 4 ' in made.files["train.sh"]
    assert not made.warnings
    said = [line for line in made.hosts if "4 processes on each of 54 hosts" in line]
    assert len(said) == (0 if ":gb300" in cluster and "x4:" in cluster else 1)


def test_a_rack_of_one_node_names_the_network_between_its_hosts() -> None:
    made = written("1x72:gb300", Plan(dp=72, zero=1, num_microbatches=3))
    assert "Slurm numbers nodes in the order of SLURM_NODEID" in made.files["job.slurm"]


def test_a_node_that_no_machine_has_is_told_of_first() -> None:
    made = written("1x16:h100", Plan(dp=8, tp=2, zero=1, num_microbatches=27))
    (warning,) = made.warnings
    assert "No node of 16 h100-sxm-80gb is in the catalogue; the largest has 8. Nearest: 2x8:h100-sxm-80gb" in warning
    assert warning.split()[0] in made.files["train.sh"].splitlines()[1]


@pytest.mark.parametrize(("cluster", "told"), [("1x16:h100", True), ("2x16:v100", False), ("3x72:gb300", False)])
def test_the_first_screen_says_that_no_such_node_is_known(cluster: str, told: bool) -> None:
    lines = headline(question(llama_8b(), cluster)).lines
    assert any("is in the catalogue" in line for line in lines) == told
