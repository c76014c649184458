"""Shell scripts are read as far as they say what they would start, and nothing of them is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.settings import LaunchSettings


def read(folder: Path, text: str, **given: str) -> LaunchSettings:
    path = folder / "run.sh"
    path.write_text(text)
    return read_launch_file(path, given)


def values(settings: LaunchSettings) -> dict[str, object]:
    return {each.key: each.value for each in settings.settings}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("torchrun train.py --tp 8 --bf16", {"--tp": "8", "--bf16": True}),
        ("torchrun train.py \\\n  --tp 8 \\\n  --pp=2 # four\n", {"--tp": "8", "--pp": "2"}),
        ("TP=4\nPP=$((2*$TP))\npython train.py --tp $TP --pp ${PP}", {"--tp": "4", "--pp": "8"}),
        ("python train.py --tp ${TP:-8}", {"--tp": "8"}),
        (
            'A=(\n  --tp 2 # two\n  "--pp 4"\n)\nA+=(--cp 8)\npython t.py ${A[@]}',
            {"--tp": "2", "--pp": "4", "--cp": "8"},
        ),
        ('O="--tp 2 \\\n --moe-layer-freq ([0]*3)"\npython t.py $O', {"--tp": "2", "--moe-layer-freq": "([0]*3)"}),
        ("C=\"python t.py --tp 2 --split '9,1'\"\neval $C", {"--tp": "2", "--split": "9,1"}),
        ('srun bash -c "cd x; python t.py --tp $((1 + 1)) --n \\$SLURM"', {"--tp": "2", "--n": "\ue000SLURM\ue001"}),
        ("cloudrun -p 8 --env 'A=1' -c 'python t.py \\\n--tp 2 \\\n--bf16'", {"--tp": "2", "--bf16": True}),
        ('pdsh -w node[1-4] "cd x && A=1 torchrun t.py --tp 2"', {"--tp": "2"}),
        ('if [ -z "$TP" ]; then TP=2; fi\npython t.py --tp $TP', {"--tp": "2"}),
        ("M=b\ncase $M in a) TP=1;; b|c) TP=2;; esac\npython t.py --tp $TP", {"--tp": "2"}),
        ("M=70\nif [[ $M -eq 8 ]]; then T=1; elif [[ $M -eq 70 ]]; then T=8; fi\npython t.py --tp $T", {"--tp": "8"}),
        ("f() { python t.py --tp $T; }\nT=4\nf", {"--tp": "4"}),
        ("python t.py --tp 1 --tp 2", {"--tp": "2"}),
        ("python -m torch.distributed.run t.py --modules mlp moe", {"--modules": ["mlp", "moe"]}),
        ("python t.py trainer.num_nodes=4 ++model.x=2", {"trainer.num_nodes": "4", "model.x": "2"}),
        ("[ -f x ] || { echo no; exit 1; }\npython t.py --tp 2", {"--tp": "2"}),
        ('A=(--tp 2 --pp 4)\nsrun bash -c "python t.py ${A[*]} --cp 8"', {"--tp": "2", "--pp": "4", "--cp": "8"}),
        ('python t.py --x "${X:-it\'s}" --tp "${TP:-2}"', {"--x": "it's", "--tp": "2"}),
        ("python t.py --x ${X:-'a}b'} --tp 2", {"--x": "a}b", "--tp": "2"}),
        (
            "A=(\n  --tp 2\n  # the model's (own\n  --pp 4 --x a#b\n)\npython t.py ${A[@]}",
            {"--tp": "2", "--pp": "4", "--x": "a#b"},
        ),
        ("X=abc.sh\npython t.py --x ${X%.sh} --y ${X,,}", {"--x": "abc", "--y": "abc.sh"}),
    ],
)
def test_constructs_of_launch_scripts(tmp_path: Path, script: str, expected: dict[str, object]) -> None:
    assert values(read(tmp_path, script)) == expected


def test_a_script_in_a_here_document_is_followed(tmp_path: Path) -> None:
    script = "GBS=8\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nsrun python t.py --gbs $GBS --rank \\$RANK\nEOF\n"
    settings = read(tmp_path, script)
    assert values(settings)["--gbs"] == "8"
    assert [(each.key, each.value) for each in settings.launcher if each.key == "--nodes"] == [("--nodes", "4")]


def test_here_documents_written_to_files_are_kept(tmp_path: Path) -> None:
    script = 'B=2\ncat <<EOT > ds.json\n{"batch": $B}\nEOT\npython t.py --deepspeed_config ds.json --tp 1'
    assert read(tmp_path, script).documents == {"ds.json": '{"batch": 2}\n'}


def test_a_value_is_traced_to_where_it_is_written(tmp_path: Path) -> None:
    settings = read(tmp_path, "TP=8\n\npython t.py --x 1 \\\n --tp $TP").by_key()["--tp"]
    assert (settings.line, settings.span) == (4, (3, 4))


def test_what_a_script_leaves_open_is_named_and_can_be_given(tmp_path: Path) -> None:
    script = "MODEL=$1\nif [ $MODEL = 8B ]; then L=32; else L=80; fi\npython t.py --num-layers $L --gbs $BATCH"
    settings = read(tmp_path, script)
    assert settings.by_key()["--num-layers"].open == ("L",)
    assert settings.by_key()["--gbs"].open == ("BATCH",)
    assert settings.undecided == {2: ("1",)}
    given = read(tmp_path, script, **{"1": "8B", "BATCH": "512"})
    assert values(given) == {"--num-layers": "32", "--gbs": "512"}


def test_the_commands_of_a_task_are_a_script_at_their_lines(tmp_path: Path) -> None:
    """SkyPilot's YAML: counts of nodes and GPUs are known to the commands."""
    path = tmp_path / "task.yaml"
    path.write_text(
        "resources:\n  accelerators: H100:8\nnum_nodes: 4\nenvs: {TP: 2}\nrun: |\n  N=$((SKYPILOT_NUM_NODES * 8))\n"
        "  torchrun --nnodes $SKYPILOT_NUM_NODES t.py --ranks $N \\\n    --tp $TP\n"
    )
    settings = read_launch_file(path, {})
    assert values(settings) == {"--ranks": "32", "--tp": "2"}
    assert settings.by_key()["--tp"].line == 8
    assert ("--gpus-per-node", "8") in [(each.key, each.value) for each in settings.launcher]


def test_sourced_scripts_of_the_same_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "common.sh").write_text("TP=4\n")
    assert values(read(tmp_path, ". `pwd`/common.sh\npython t.py --tp $TP")) == {"--tp": "4"}


def test_nothing_is_run_and_no_other_file_is_opened(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = (
        f"touch {mark}\nX=$(touch {mark})`touch {mark}`\nsource /etc/profile\neval touch {mark}\npython t.py --x $X"
    )
    read(tmp_path, script)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('echo ok\nX="abc\n', 'line 2: a " is never closed'),
        ("if true; then\npython t.py --x 1\n", "line 1: if without fi"),
        ("python t.py --x 1\nfi\n", "line 2: 'fi' opens nothing"),
        ("cat <<EOF\nabc\n", "never ends with 'EOF'"),
        ("case $x in\n a) b;;\n", "case without esac"),
        ("echo hello\n", "starts no program with options"),
        ("A=x\n" + "A=$A$A$A$A\n" * 20 + "python t.py --x $A", "grow beyond"),
        ("f() { f; }\nf\n", "within one another"),
    ],
)
def test_a_script_that_cannot_be_followed_says_where_and_why(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=None) as raised:
        read(tmp_path, script)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "beside", "reason"),
    [
        (
            'set -e\nif [ -z "$DATA" ]; then\n  exit 1\nfi\npython a.py --bf16\n',
            {},
            "it ends with `exit` in line 3 by the condition of line 2: --set DATA=...",
        ),
        (
            'if [ "$#" -lt 2 ]; then exit 1; fi\npython a.py --bf16\n',
            {},
            "it ends with `exit` in line 1 by the condition of line 1: --set 1=...",
        ),
        ("TP=2\nARGS+=(--bf16)\n", {}, "up to its end, line 3, it only sets variables: name the script that reads it"),
        ("source ./plan.sh\necho done\n", {}, "line 1 names './plan.sh', which is not beside it"),
        (
            'if [ "$(hostname)" = a ]; then\n  python a.py --bf16\nfi\n',
            {},
            "conditions on line 1 depend on what is not given: --set NAME=... says it",
        ),
        ("./submit.sh\nbash submit.sh\n", {"submit.sh": "sbatch job.sh\n"}, "a script beside it names 'job.sh', which"),
    ],
)
def test_a_script_that_starts_nothing_says_why(text: str, beside: dict[str, str], reason: str, tmp_path: Path) -> None:
    for name, of in beside.items():
        (tmp_path / name).write_text(of)
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, text)
    assert reason in str(raised.value)


def test_scripts_that_are_not_there_are_named_and_directives_of_those_handed_to_slurm_read(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#SBATCH --ntasks-per-node=8\nsrun python a.py --bf16\n")
    settings = read(tmp_path, "source $HOME/env.sh\nsbatch --nodes=2 job.sh\n")
    assert settings.absent == {1: "$HOME/env.sh"}
    assert {"--nodes": "2", "--ntasks-per-node": "8"}.items() <= {
        each.key: each.value for each in settings.launcher
    }.items()
