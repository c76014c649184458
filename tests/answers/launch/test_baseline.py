"""The plan of an existing launch file is the one that a search, a memo and a comparison have to beat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import asked, refused
from meshwright.answers.plan_file import json_schema, read_plan_file

jsonschema = pytest.importorskip("jsonschema")
SCRIPT = """TP=8
ARGS=(
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 128256 --swiglu --bf16
    --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --untie-embeddings-and-output-weights
    --disable-bias-linear --normalization RMSNorm --position-embedding-type rope --seq-length 8192
    --micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer --sequence-parallel
)
torchrun --nnodes 1 --nproc_per_node 8 t.py ${ARGS[@]} --tensor-model-parallel-size $TP
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("launch") / "run.sh"
    path.write_text(SCRIPT)
    return str(path)


def test_a_file_of_the_best_plan_asks_for_the_same_plan(tmp_path: Path) -> None:
    """How context-parallel ranks would exchange, of which there are none, is in no file."""
    question = ("gpt-oss-20b", "1x8:b200", "--seq-len", "4096", "--global-batch", "64")
    asked("plan", *question, "--launch", str(tmp_path / "launch"))
    told = asked("plan", "--from", str(tmp_path / "launch"), "--cluster", "1x8:b200").out
    assert "Compared with the best plan it is the same plan" in told


def test_a_search_sets_the_plan_of_a_file_beside_the_best(script: str) -> None:
    document = asked("plan", "--from", script, "--cluster", "h100", "--json").document
    best, baseline = document["plans"][0], document["baseline"]
    assert baseline["plan"]["tp"] == 8
    assert baseline["price"]["step_time_s"] > best["step_time_s"]
    assert "slower" in baseline["lost"]
    assert document["launch_patch"]["plan"] == best["plan"]
    screen = asked("plan", "--from", script, "--cluster", "h100").out
    assert "run.sh asks for tp8 sp pp1 dp1 zero1 mbs1 m64" in screen
    assert "As a change of run.sh" in screen


def test_options_change_the_question_of_a_file_and_limit_the_search(script: str) -> None:
    options = ("--from", script, "--cluster", "h100", "--global-batch", "32", "--tp", "4", "--json")
    document = asked("plan", *options).document
    assert document["inputs"]["job"]["global_batch"] == 32
    assert document["baseline"]["plan"]["num_microbatches"] == 32
    assert {each["plan"]["tp"] for each in document["plans"]} == {4}


@pytest.mark.parametrize("command", ["plan", "explain"])
def test_answers_of_a_file_are_plan_files(script: str, command: str, tmp_path: Path) -> None:
    answer = asked(command, "--from", script, "--cluster", "h100", "--json")
    jsonschema.Draft202012Validator(json_schema()).validate(answer.document)
    path = tmp_path / "plan.json"
    path.write_text(answer.out)
    assert read_plan_file(path)[0].model.num_layers == 32


def test_the_patch_to_the_best_plan_makes_the_file_that_plan(script: str) -> None:
    document = asked("plan", "--from", script, "--cluster", "h100", "--pp", "4", "--json").document
    added = [line[1:] for line in document["launch_patch"]["patch"].split("\n") if line.startswith("+")]
    assert any("'Et" in line or "--pipeline-model-parallel-size 4" in line for line in added)


def test_a_memo_says_what_runs_today(script: str) -> None:
    answer = asked("memo", "--from", script, "--cluster", "h100")
    assert "| today's step" in answer.out
    assert "### The launch file today" in answer.out
    document = asked("memo", "--from", script, "--cluster", "h100", "--json").document
    assert document["baseline"]["name"] == "tp8 sp pp1 dp1 zero1 mbs1 m64"


def test_a_plan_that_does_not_fit_takes_no_step(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT.replace("TP=8", "TP=1").replace("--micro-batch-size 1", "--micro-batch-size 8"))
    question = ("--from", str(path), "--cluster", "h100")
    screen = " ".join(asked("plan", *question).out.split())
    assert re.search(r"asks for tp1 .*: \S+ GiB, out-of-memory; if it did fit, \S+ s a step", screen)
    assert re.search(r"\| today's step +\| none ", asked("memo", *question).out)


def test_a_comparison_takes_files_beside_the_best_plan_and_beside_others(script: str, tmp_path: Path) -> None:
    alone = asked("compare", "--from", script, "--cluster", "h100", "--json").document
    assert [each["file"] for each in alone["plans"]] == [script, "the best plan of a search"]
    assert alone["best"] == "B"
    other = tmp_path / "other.sh"
    other.write_text(SCRIPT.replace("TP=8", "TP=2"))
    both = ("compare", "--from", script, "--from", str(other), "--cluster", "1x8:h100")
    plans = asked(*both, "--plan", "tp=4", "--json").document["plans"]
    assert [each["plan"]["tp"] for each in plans] == [8, 2, 4]
    other.write_text(SCRIPT.replace("64", "32"))
    assert "hold different questions: global batch 64 and 32" in refused(asked(*both))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "--from", "@", "--cluster", "h100", "--runtime", "all"), "a launch file belongs to one framework"),
        (("plan", "--from", "@", "--cluster", "h100", "--text-only"), "--text-only cannot be combined with --from"),
        (("memo", "--set", "A=1"), "--set is about a launch file"),
        (
            ("compare", "--from", "@", "--cluster", "h100", "--seq-len", "8k"),
            "--seq-len cannot be combined with --from",
        ),
        (("compare", "--framework", "nanotron"), "--framework is about a launch file"),
    ],
)
def test_options_that_go_with_no_file_are_refused(script: str, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(asked(*(script if each == "@" else each for each in arguments)))


def test_what_a_shell_would_split_is_quoted(script: str, tmp_path: Path) -> None:
    document = asked("plan", "--from", script, "--cluster", "h100", "--pp", "2", "--tp", "1", "--json").document
    value = document["launch_patch"]["settings"].get("--pipeline-model-parallel-layout")
    if value is not None:
        assert f"'{value}'" in document["launch_patch"]["patch"]
    bare = tmp_path / "bare.sh"
    bare.write_text(SCRIPT.replace("--bf16", "--bf16 --pipeline-model-parallel-layout Et*16|t*16L"))
    assert "line 3: an array holds '|' without quotes" in refused(
        asked("check", "--from", str(bare), "--cluster", "h100")
    )


def test_the_plan_of_a_file_that_breaks_a_rule_is_told_with_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT.replace("TP=8", "TP=2").replace("micro-batch-size 1", "micro-batch-size 3"))
    document = asked("plan", "--from", str(path), "--cluster", "h100", "--json").document
    assert [each["rule"] for each in document["baseline"]["broken"]]
    assert document["baseline"]["price"] is None
    assert document["baseline"]["lost"] == "not legal, and not priced"
