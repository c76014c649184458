"""The folder of launch files: whole or not at all, never over another unasked, and nothing outside of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from commands import LLAMA, asked
from meshwright.answers.launch.folder import write_folder
from meshwright.errors import InvalidInput


def test_a_folder_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    folder = write_folder({"train.sh": "one", "plan.py": "two"}, tmp_path / "run")
    assert sorted(each.name for each in folder.iterdir()) == ["plan.py", "train.sh"]
    with pytest.raises(InvalidInput, match="is there; give another folder, or --overwrite"):
        write_folder({"train.sh": "three"}, tmp_path / "run")
    assert (folder / "train.sh").read_text() == "one"
    write_folder({"train.sh": "three"}, tmp_path / "run", overwrite=True)
    assert (folder / "train.sh").read_text() == "three"
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file; give a folder"):
        write_folder({"a": ""}, tmp_path / "file", overwrite=True)
    with pytest.raises(InvalidInput, match="--out is an empty name"):
        write_folder({"a": ""}, Path(" "))
    with pytest.raises(InvalidInput, match="does not exist"):
        write_folder({"train.sh": "four"}, tmp_path / "no" / "run")
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_folder({"a/b": "five"}, tmp_path / "other")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "run"]


def test_files_stay_where_they_were_if_the_disk_refuses_one(tmp_path: Path) -> None:
    folder = write_folder({"train.sh": "one"}, tmp_path / "run")
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_folder({"train.sh": "two", "a/b": "three"}, folder, overwrite=True)
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("train.sh", "one")]
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_nothing_is_written_through_a_link_in_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.write_text("mine")
    folder.mkdir()
    (folder / "train.sh").symlink_to(outside)
    write_folder({"train.sh": "new"}, folder, overwrite=True)
    assert outside.read_text() == "mine"
    assert not (folder / "train.sh").is_symlink()


def test_plan_launches_its_best_plan_or_the_one_of_a_number(tmp_path: Path) -> None:
    for rank in (1, 3):
        folder = tmp_path / f"run{rank}"
        answer = asked("plan", *LLAMA, "--json", "--launch", str(folder), "--rank", str(rank))
        assert answer.code == 0
        ranked = json.loads(answer.out)["plans"][rank - 1]["name"]
        assert f"Megatron-LM (megatron-core 0.19.2), {ranked}" in answer.err
        assert ranked in (folder / "train.sh").read_text()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--rank", "2"], "--rank is about launch files; add --launch DIR"),
        (["--launch", "{}", "--rank", "90"], "--rank 90 is too large"),
        (["--launch", "{}", "--runtime", "all"], "--launch writes files for one runtime"),
        (["--launch", "{}", "--runtime", "internevo"], "no launch files are written for internevo, the runtime of"),
        (["--launch", "{}", "--runtime", "internevo"], "Add --to FRAMEWORK --nearest"),
        (["--launch", "{}", "--runtime", "megatron-lm"], "Add --to megatron-lm --nearest"),
        (["--launch", "{}", "--runtime", "megatron-bridge@26.04"], "Add --to megatron-bridge --nearest"),
        (["--launch", "{}", "--runtime", "megatron-lm", "--to", "megatron-lm"], "whose runtime is megatron-core"),
        (["--launch", "{}", "--to", "torchtitan"], "torchtitan, which says whether it has a plan that fits, or add"),
        (["--launch", "{}/no/run"], "does not exist"),
    ],
)
def test_plan_says_why_it_launches_nothing(tmp_path: Path, options: list[str], what: str) -> None:
    answer = asked("plan", *LLAMA, *(each.format(tmp_path / "run") for each in options))
    assert answer.code == 2
    assert what in answer.message
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_refused_before_the_search(tmp_path: Path) -> None:
    answer = asked("plan", *LLAMA, "--launch", str(tmp_path))
    assert answer.code == 2
    assert not answer.out
    assert "is there; give another folder, or --overwrite" in answer.message


@pytest.mark.parametrize("command", ["launch", "plan"])
@pytest.mark.parametrize(("model", "warned"), [("llama-3.1-8b", False), ("llama-3.1-70b", True)])
def test_files_of_a_plan_that_will_not_fit_warn_first(command: str, model: str, warned: bool, tmp_path: Path) -> None:
    """70B on 16 H100 may fit, and more likely does not; the files are written all the same."""
    words = (model, "2x8:h100", "--seq-len", "8k", "--global-batch", "16", "--tp", "8", "--zero", "1")
    words += ("--recompute", "full", "--pp", "2", "--micro-batch", "1")
    answer = asked(command, *words, "--launch" if command == "plan" else "--out", str(tmp_path / "run"))
    assert answer.code == 0, answer
    said = answer.message if command == "plan" else answer.out
    head = (tmp_path / "run" / "train.sh").read_text().splitlines()[1]
    assert ("WARNING: this plan will probably run out of memory" in said) == warned
    assert head.startswith("# WARNING: this plan will probably run out of memory") == warned


def test_files_of_a_plan_that_needs_far_too_much_say_what_it_needs(tmp_path: Path) -> None:
    words = ("llama-3.1-70b", "2x8:h100", "--seq-len", "8k", "--global-batch", "16", "--tp", "8", "--zero", "1")
    said = asked("launch", *words, "--out", str(tmp_path / "run")).out
    assert re.match(
        r"WARNING: this plan will run out of memory: stage 0 needs [\d.]+ GiB of 79.1 GiB \(\d{3}%\). ", said
    )


def test_a_nearest_plan_that_does_not_fit_is_not_written(tmp_path: Path) -> None:
    plan = ["llama-3.1-70b", "3x8:h100", "--global-batch", "96", "--seq-len", "8k", "--tp", "8", "--pp", "3"]
    answer = asked("launch", *plan, "--to", "deepspeed", "--nearest", "--out", str(tmp_path / "run"))
    assert answer.code == 3, answer
    assert "does not fit in memory, and no files were written" in answer.message
    assert "Other plans of deepspeed fit: plan with --runtime deepspeed" in answer.message
    assert asked("plan", *plan[:6], "--runtime", "deepspeed").code == 0
    smaller = ["llama-3.1-70b", "1x8:h100", *plan[2:6], "--tp", "8"]
    answer = asked("launch", *smaller, "--to", "deepspeed", "--nearest", "--out", str(tmp_path / "run"))
    assert "No plan of deepspeed fits here" in answer.message
    assert asked("plan", *smaller[:6], "--runtime", "deepspeed").code == 3
    assert not list(tmp_path.iterdir())


def test_launch_takes_the_framework_of_the_plan_unless_told(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(asked("plan", *LLAMA, "--runtime", "torchtitan", "--json").out)
    assert asked("launch", str(plan), "--out", str(tmp_path / "run")).code == 0
    assert (tmp_path / "run" / "meshwright_plan.py").is_file()
