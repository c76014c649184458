"""A short run of the fuzzer with a fixed seed, and every input that it ever found, in a few lines each."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from fuzz_files import CONFIG, seeds
from fuzz_judge import ABSURD, AMOUNT, CONTROLS, judged
from fuzz_laws import broken_laws
from fuzz_questions import SHARES, all_commands
from fuzz_questions import question as random_question

from commands import LLAMA, asked, question, refused

pytestmark = pytest.mark.slow

QUESTIONS, PARTS, PROBLEMS = 480, 4, 20
"""Random questions, in so many parts, and random problems of up to 50 plans; `make fuzz` asks on with other seeds."""


def test_every_command_is_asked() -> None:
    assert {*SHARES} == all_commands()


@pytest.mark.parametrize("part", range(PARTS))
def test_random_questions_are_answered_or_refused(part: int, tmp_path: Path) -> None:
    wrong = []
    for seed in range(part, QUESTIONS, PARTS):
        each = random_question(random.Random(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        wrong += [(seed, each.words, fault) for fault in judged(each, folder).faults]
    assert not wrong


def test_random_questions_are_of_every_command_and_some_are_answered(tmp_path: Path) -> None:
    asked_of = Counter(random_question(random.Random(seed)).command for seed in range(QUESTIONS))
    assert {*asked_of} == all_commands()
    assert asked("model", str(_file(tmp_path, "config.json"))).code == 0
    assert asked("explain", str(_file(tmp_path, "plan.json"))).code == 0


def test_random_plans_keep_the_laws_of_memory_and_time() -> None:
    held, broken = zip(*(broken_laws(random.Random(seed)) for seed in range(PROBLEMS)), strict=True)
    assert sum(held) > 20 * PROBLEMS
    assert not [fault for faults in broken for fault in faults]


def test_the_judge_sees_what_is_wrong() -> None:
    assert CONTROLS.search("a\x1b[2J")
    assert CONTROLS.search("a\u202eb")
    assert not CONTROLS.search("a\tb\nc")
    assert ABSURD.search("step nan s")
    assert not ABSURD.search("inference of nano")
    assert AMOUNT.search(".memory.device_bytes")
    assert AMOUNT.search(".step_time_s")


def _file(folder: Path, name: str, **changed: str) -> Path:
    path = folder / changed.get("called", name)
    path.write_bytes(seeds()[name])
    return path


DIGITS = "9" * 5000
LONG = "9" * 30


@pytest.mark.parametrize("path", ["a\0b", "a\0b.json", "a\0b.toml", "\0/config.json"])
def test_a_path_with_a_nul_names_no_model(path: str) -> None:
    assert "\\x00" in refused(asked("plan", *question(model=path)))


def test_a_number_of_more_digits_than_python_converts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(f"hidden_size = {DIGITS}\n", "utf-8")
    assert "not TOML: it holds a number of more than 4,300 digits" in refused(asked("model", str(tmp_path / "m.toml")))
    (tmp_path / "m.json").write_text(f'{{"model_type": "llama", "hidden_size": {DIGITS}}}', "utf-8")
    assert "digits" in refused(asked("model", str(tmp_path / "m.json")))
    assert refused(asked("plan", *question(seq_len=DIGITS)))


def test_a_measured_group_of_more_ranks_than_there_are_is_refused(tmp_path: Path) -> None:
    document = json.loads(seeds()["plan.json"])
    for rows in document["inputs"]["cluster"]["accelerator"]["kernels"]["collectives"].values():
        rows[-1]["ranks"] = 10**400
    (tmp_path / "plan.json").write_text(json.dumps(document), "utf-8")
    assert "ranks" in refused(asked("check", str(tmp_path / "plan.json")))


def test_a_group_that_is_measured_twice_is_refused(tmp_path: Path) -> None:
    document = json.loads(seeds()["plan.json"])
    rows = document["inputs"]["cluster"]["accelerator"]["kernels"]["collectives"]["all_reduce"]
    rows[-1]["ranks"] = rows[-2]["ranks"]
    (tmp_path / "plan.json").write_text(json.dumps(document), "utf-8")
    assert "sizes must grow" in refused(asked("check", str(tmp_path / "plan.json")))


def test_an_alignment_that_no_row_can_have_is_refused(tmp_path: Path) -> None:
    document = json.loads(seeds()["plan.json"])
    document["inputs"]["cluster"]["accelerator"]["kernels"]["unaligned"][0]["bytes"] = 3
    (tmp_path / "plan.json").write_text(json.dumps(document), "utf-8")
    assert "power of two" in refused(asked("check", str(tmp_path / "plan.json")))


def test_more_stages_than_chunks_of_layers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "nemo.yaml").write_bytes(seeds()["nemo.yaml"])
    words = (*question(model=str(_file(tmp_path, "config.json"))), "--from", str(tmp_path / "nemo.yaml"), "--pp", "16")
    assert "not legal" in refused(asked("explain", *words))


@pytest.mark.parametrize("layout", [DIGITS, f"4,{DIGITS}", LONG])
def test_a_layout_of_more_layers_than_64_bits_hold_is_refused(layout: str) -> None:
    assert "at most 18 digits" in refused(asked("check", *LLAMA, "--pipeline-layout", layout))


def test_a_plan_file_whose_kernels_lack_a_source_is_checked(tmp_path: Path) -> None:
    document = json.loads(seeds()["plan.json"])
    document["inputs"]["cluster"]["accelerator"]["kernels"]["sources"].pop("unaligned")
    (tmp_path / "plan.json").write_text(json.dumps(document), "utf-8")
    assert asked("check", str(tmp_path / "plan.json")).code == 0


@pytest.mark.parametrize("degree", ["tp", "pp", "etp", "dp_replicate", "micro_batch"])
def test_a_plan_file_with_a_degree_of_none_is_refused(degree: str, tmp_path: Path) -> None:
    document = json.loads(seeds()["plan.json"])
    document["plans"][0]["plan"][degree] = 0
    (tmp_path / "plan.json").write_text(json.dumps(document), "utf-8")
    assert f"{degree}: is 0; it must be 1 or more" in refused(asked("check", str(tmp_path / "plan.json")))


@pytest.mark.parametrize("layout", ["Et*9|(t*10|)*6t*11L", "1,2", "33"])
def test_a_layout_of_other_layers_than_the_models_has_a_nearest_one(layout: str, tmp_path: Path) -> None:
    plan = _file(tmp_path, "plan.json")
    answer = asked("check", str(plan), "--tp", "1", "--pp", "4", "--pipeline-layout", layout, "--json")
    assert answer.document["variation"]["nearest"]["pp"] == 4


@pytest.mark.parametrize("option", ["--tp", "--pp", "--dp", "--cp", "--ep", "--vpp", "--micro-batch", "--dp-replicate"])
@pytest.mark.parametrize("number", [LONG, "9" * 4000, "18446744073709551616"])
def test_a_degree_beyond_64_bits_breaks_a_rule(option: str, number: str) -> None:
    answer = asked("check", *LLAMA, option, number)
    assert answer.code == 2
    assert 0 < len(answer.out + answer.err) < 12_000


@pytest.mark.parametrize(
    "options",
    [
        ("--pp", "2", "--vpp", "2", "--microbatch-group", LONG),
        ("--pp", "2", "--microbatch-group", LONG),
        ("--pp", "2", "--first-stage-layers", LONG),
        ("--pp", "2", "--last-stage-layers", LONG, "--first-stage-layers", LONG),
        ("--pp", "2", "--recompute", "full", "--recompute-layers", LONG),
        ("--pp", "2", "--pipeline-layout", f"{LONG},1"),
    ],
    ids=" ".join,
)
def test_a_number_of_layers_beyond_64_bits_breaks_a_rule(options: tuple[str, ...]) -> None:
    assert asked("check", *LLAMA, *options).code == 2


@pytest.mark.parametrize("options", [("--cp", "16"), ("--dp-replicate", "0"), ("--dp-replicate", "64", "--cp", "3")])
def test_replicas_that_no_ranks_can_have_break_a_rule(options: tuple[str, ...]) -> None:
    assert asked("check", *LLAMA, "--zero", "1", *options).code == 2


@pytest.mark.parametrize("seconds", ["0", "1e-320", "-1", "nan", "inf", "1e999"])
def test_a_step_time_that_nothing_takes_leaves_the_score_finite(seconds: str, tmp_path: Path) -> None:
    header, first, second, *_ = seeds()["runs.csv"].decode().split("\n")
    (tmp_path / "runs.csv").write_text("\n".join([header, first.replace("5.1", seconds), second]), "utf-8")
    answer = asked("validate", "--runs", str(tmp_path / "runs.csv"), "--json")
    assert answer.code in (0, 2, None)
    assert "Infinity" not in answer.out


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--cluster", "1x8:h100", "--from"),
        ("runs",),
        ("launch", *LLAMA, "--out"),
        ("memo", *LLAMA, "--out"),
        ("sweep", "--out", "o"),
        ("explain",),
    ],
    ids=lambda words: words[0],
)
def test_a_name_longer_than_a_name_can_be_is_refused(words: tuple[str, ...]) -> None:
    refused(asked(*words, "x" * 300))


def test_plans_that_are_compared_on_no_cluster_are_refused() -> None:
    words = ("compare", "--model", "gpt2", "--plan", "tp=2", "--plan", "tp=4")
    assert "none is given: add --cluster" in refused(asked(*words))


@pytest.mark.parametrize("command", ["explain", "memo"])
def test_a_limit_of_time_may_be_as_long_as_one_likes(command: str) -> None:
    assert asked(command, *LLAMA, "--time-limit", "1000000000000").code == 0


@pytest.mark.parametrize(
    "words", [("validate", "--runs"), ("model",), ("explain",), ("runs",), ("plan", *LLAMA, "--measured")]
)
def test_a_link_to_itself_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    refused(asked(*words, str(tmp_path / "loop")))


@pytest.mark.parametrize(("old", "new"), [("=4096", "=" + DIGITS[:4000]), ("8 / 3", "1e999"), ("8 / 3", "1e308")])
def test_a_width_that_no_float_holds_is_refused(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "intern.py").write_text(seeds()["intern.py"].decode().replace(old, new), "utf-8")
    assert asked("check", "--from", str(tmp_path / "intern.py"), "--cluster", "2x8:h100").code == 2


def test_what_a_worker_refuses_is_read(tmp_path: Path) -> None:
    for name in ("machines.json", "layers.json"):
        _file(tmp_path, name)
    (tmp_path / "layers.json").write_bytes(seeds()["layers.json"].replace(b"1.5,", b"1e308,"))
    options = ("--cluster-metadata", "machines.json", "--model-metadata", "layers.json", "--output", "o.json")
    with contextlib.chdir(tmp_path):
        assert "is inf; it must be a finite number" in refused(asked("textbook", "search", *options))


def test_a_sweep_file_of_thousands_of_faults_is_refused_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.HANG_S", 20)
    text = seeds()["sweep.toml"].decode() + "".join(f"k{number} = {number}\n" for number in range(3000))
    (tmp_path / "sweep.toml").write_text(text, "utf-8")
    assert "k2999" in refused(asked("sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "o")))


def test_a_price_at_which_a_training_costs_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_bytes(seeds()["sweep.toml"].partition(b"[prices]")[0] + b"[prices]\nh100 = 1e308\n")
    assert "must be a price" in refused(asked("sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "swept")))


@pytest.mark.parametrize("workers", ["0", "1000000000000", LONG])
def test_more_workers_than_a_machine_has_are_refused(workers: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    sweep = ("sweep", str(_file(tmp_path, "sweep.toml")), "--out", str(tmp_path / "o"), "--workers")
    assert "1 to 1024" in refused(asked(*sweep, workers)) or workers == "0"


@pytest.mark.parametrize("name", ["nan", "inf", "None", "true", "-"])
def test_a_model_may_be_called_anything(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    _file(folder, "config.json")
    assert asked("model", str(folder), "--json").document["family"] == CONFIG["model_type"]
