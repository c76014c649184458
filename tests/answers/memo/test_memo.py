"""The memo: what its text says adds up, agrees with the planner, and is what the shipped examples show."""

from __future__ import annotations

import json
import re
from math import isclose, prod
from pathlib import Path

import pytest
from memos_asked import FITTING, NAMES, figures, given, printed, recommended

import memos
from commands import LLAMA, Answer, asked, refused
from meshwright.answers.memo.bottleneck import LOCAL
from meshwright.answers.memo.memo import usual_baseline
from meshwright.answers.step_parts import from_peak
from meshwright.answers.words import percent
from meshwright.cost.memory.fit import Verdict
from meshwright.layout.plan import Plan

pytestmark = pytest.mark.slow

UNITS = re.compile(r"(\S+)\s(GiB|MiB|GB/s|ms|us|tokens/s)\b")
NUMBER = re.compile(r"^[(`*]*[<+-]?\d[\d,.]*[kMBT]?(e[+-]\d+)?$")


def text(name: str) -> str:
    """A memo as it is shipped, which is what is printed now."""
    return str(memos.path(name).read_text("utf-8").partition("\n\n")[2])


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_memos_are_what_is_printed_now(name: str) -> None:
    """Rewrite them with `make memos` when an answer has changed for a reason, and read them."""
    assert memos.path(name).read_text("utf-8") == memos.page(name, printed(name).out)
    assert printed(name).code == (0 if name in FITTING else memos.NOTHING_FITS)


def test_a_memo_is_written_as_a_command_of_its_own_prints_it() -> None:
    assert memos.path("own-adapters").read_text("utf-8") == memos.written("own-adapters")


@pytest.mark.parametrize("name", FITTING)
def test_the_question_of_the_json_is_the_one_that_was_asked(name: str) -> None:
    assert given(figures(name)) == recommended(name).inputs


@pytest.mark.parametrize("name", FITTING)
def test_degrees_multiply_to_the_cluster_and_to_the_batch(name: str) -> None:
    inputs = given(figures(name))
    products = re.findall(r"((?:\w+ \d+ x )+\w+ \d+) = (\d+) accelerators", text(name))
    assert products
    for factors, total in products:
        assert prod(int(number) for number in re.findall(r" (\d+)", f" {factors}")) == int(total)
        assert int(total) == inputs.cluster.num_gpus
    (batch,) = re.findall(r"dp (\d+) x micro-batch (\d+) x m (\d+) = (\d+) sequences", text(name))
    assert prod(map(int, batch[:3])) == int(batch[3]) == inputs.job.global_batch


@pytest.mark.parametrize("name", FITTING)
def test_exposed_seconds_add_up_to_the_waterfall(name: str) -> None:
    document = figures(name)
    time = document["recommendation"]["time"]
    communication = sum(time[f"exposed_{axis}_s"] for axis in ("tp", "cp", "ep", "pp", "dp"))
    assert sum(each["exposed_s"] for each in document["exchanges"]) == pytest.approx(communication, rel=1e-9, abs=1e-12)
    for each in document["exchanges"]:
        assert 0 <= each["exposed_s"] <= each["seconds"] * (1 + 1e-9)
        assert each["sent_bytes"] > 0
        assert each["ranks"] > 1


@pytest.mark.parametrize("name", FITTING)
def test_the_table_of_exchanges_shows_sums_of_its_rows_and_bytes_that_agree_with_seconds(name: str) -> None:
    rows = [line.split("|") for line in text(name).splitlines() if re.search(r"\| \d+ in \d+ domains?", line)]
    (total,) = [line for line in text(name).splitlines() if line.startswith("| **all**")]
    for column in (-3, -2):
        parts = [_seconds(row[column]) for row in rows]
        assert sum(parts) == pytest.approx(_seconds(total.split("|")[column].replace("*", "")), rel=0.02)
    for row in rows:
        sent, times, effective, seconds = (cell.strip() for cell in row[-6:-2])
        number, unit = sent.split()
        size = float(number.replace(",", "")) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
        assert float(effective) == pytest.approx(size * int(times.replace(",", "")) / _seconds(seconds) / 1e9, rel=0.04)


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_bottleneck_and_one_mitigation(name: str) -> None:
    fits = name in FITTING
    of_scaling = fits and "; scaling from " in text(name)
    assert text(name).count("Most likely bottleneck: ") == int(fits and not of_scaling)
    assert text(name).count("Most likely bottleneck of scaling: ") == int(of_scaling)
    assert text(name).count("First mitigation: ") == int(fits)
    assert text(name).count("First thing to try") == int(not fits)


@pytest.mark.parametrize("name", FITTING)
def test_the_loss_is_scaled_in_fp16_alone(name: str) -> None:
    scaled = re.search(r"loss.scal|scal\w* the loss|loss is scaled", text(name), re.IGNORECASE)
    assert bool(scaled) == ("fp16" in memos.QUESTIONS[name])
    assert ("found-inf over all ranks" in text(name)) == bool(scaled)


@pytest.mark.parametrize("name", NAMES)
def test_every_unit_follows_a_number(name: str) -> None:
    prose = [line for line in text(name).splitlines() if not line.startswith(("|", "*", "<!--"))]
    for line in prose:
        for word, unit in UNITS.findall(line):
            assert NUMBER.match(word), f"{word} {unit} in: {line}"
    assert not re.search(r"\b(nan|inf|None(?! of)|e[+-]\d\d GiB)\b", "\n".join(prose).replace("found-inf", ""))


@pytest.mark.parametrize("name", FITTING)
def test_points_of_scaling_are_the_planners_prices(name: str) -> None:
    document, target = figures(name), given(figures(name))
    strong, weak = document["scaling"]["strong"], document["scaling"]["weak"]
    assert strong[-1]["gpus"] == weak[-1]["gpus"] == target.cluster.num_gpus
    assert all(point["verdict"] != "out-of-memory" for point in (*strong, *weak))
    assert strong[-1]["step_time_s"] == pytest.approx(document["recommendation"]["step_time_s"], rel=1e-12)
    for point in (*strong, *weak):
        plan = Plan.from_dict(point["plan"])
        assert plan.tp * plan.cp * plan.pp * plan.dp == point["gpus"]
        assert plan.dp * plan.micro_batch * plan.num_microbatches == point["global_batch"]
    assert {point["global_batch"] for point in strong} == {target.job.global_batch}


@pytest.mark.parametrize("name", FITTING)
def test_the_bottleneck_is_the_part_that_grows_most(name: str) -> None:
    """From the parts of two plans priced by themselves; where none grows, the largest that ranks have together."""
    named, target = recommended(name).bottleneck, recommended(name)
    after = from_peak(target.best, target.inputs)
    ranks = target.inputs.cluster.num_gpus
    if not named.reference:
        return
    before = from_peak(named.reference.estimate, named.reference.inputs)
    grown = {part: after[part] * ranks - before[part] * named.reference.gpus for part in after if part != "ideal_s"}
    most = max(grown, key=lambda part: grown[part])
    if named.grows:
        assert named.chosen.part == most
    else:
        assert grown[most] < 0.02 * target.best.step_time_s * ranks
        together = max((part for part in grown if part not in LOCAL), key=lambda part: after[part])
        small = after[together] < 0.02 * target.best.step_time_s
        assert named.chosen.part == (max(grown, key=lambda part: after[part]) if small else together)


def test_a_shared_adapter_makes_another_plan_the_best_and_slower_than_one_for_each() -> None:
    own, shared = (recommended(name).best for name in ("own-adapters", "shared-adapter"))
    assert shared.plan != own.plan
    assert shared.step_time_s > own.step_time_s


@pytest.mark.parametrize("name", FITTING)
def test_budgets_are_before_and_after(name: str) -> None:
    held = recommended(name).budgets
    assert held.one.memory.states == pytest.approx(held.replicated.memory.states, rel=1e-9)
    assert held.chosen.memory.states <= held.one.memory.states
    if held.without_zero:
        assert held.without_zero.memory.device > held.chosen.memory.device
    if held.fully_sharded:
        assert held.fully_sharded.plan.zero == 3
    if held.one.verdict == Verdict.OUT_OF_MEMORY:
        assert "data parallelism divides the work of a step" in text(name)


def test_where_nothing_fits_the_memo_is_about_what_would() -> None:
    answer = printed("cannot-fit")
    assert answer.code == 3
    document = figures("cannot-fit")
    assert document["fits"] is False
    assert "recommendation" not in document
    assert "Train with" not in answer.out
    for would in document["what_would_fit"]:
        assert would["words"][1:20] in answer.out.replace("\\", "")
        assert would["verdict"] == "safe"
        assert would["step_time_s"] > 0
    states = document["budgets"]["one"]["memory"]["components"]
    total = sum(states[name] for name in ("parameters", "gradients", "optimizer_states"))
    visible = document["leanest"]["memory"]["visible_bytes"]
    assert (document["least_accelerators_for_states"] - 1) * visible < total
    assert total <= document["least_accelerators_for_states"] * visible


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_files_are_written_whole(tmp_path: Path, suffix: str) -> None:
    answer = asked("memo", *LLAMA, "--out", str(tmp_path / f"memo{suffix}"))
    assert answer.code == 0
    assert {*answer.out.splitlines()} == {str(each) for each in tmp_path.iterdir()}
    written = (tmp_path / f"memo{suffix}").read_text("utf-8")
    assert "Most likely bottleneck" in written
    pictures = {each.name for each in tmp_path.iterdir()} - {f"memo{suffix}"}
    for name in pictures:
        assert f"({name})" in written
    assert bool(pictures) == (suffix == ".md")
    assert "http://" not in written.replace("http://www.w3.org", "")
    assert "https://" not in written


def test_a_pdf_is_written(tmp_path: Path) -> None:
    pytest.importorskip("typst")
    assert asked("memo", *LLAMA, "--out", str(tmp_path / "memo.pdf")).code == 0
    assert (tmp_path / "memo.pdf").read_bytes().startswith(b"%PDF-")


def test_json_holds_the_figures_beside_a_file(tmp_path: Path) -> None:
    answer: Answer = asked("memo", *LLAMA, "--out", str(tmp_path / "memo.md"), "--json")
    document = answer.document
    assert document["schema"] == "meshwright.memo/1"
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (tmp_path / "memo.md").exists()
    assert str(tmp_path / "memo.md") in answer.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "memo.docx"], "a memo is written as .md, .html, .pdf"),
        (["--out", "nowhere/memo.md"], "does not exist"),
        (["--baseline-gpus", "16"], "the baseline of 16 accelerators exceeds the cluster's 8; use 8 or fewer"),
        (["--baseline-gpus", "0"], "it must be 1 or more"),
        (["--runtime", "all"], "a memo recommends a plan for one runtime"),
    ],
)
def test_wrong_questions_are_refused(options: list[str], said: str) -> None:
    assert said in refused(asked("memo", *LLAMA, *options))


def test_a_baseline_between_nodes_is_refused() -> None:
    wide = ("--model", "llama-3.1-8b", "--cluster", "2x8:h100", "--seq-len", "8192", "--global-batch", "64")
    assert "no whole number of nodes of 8; the nearest: 8 or 16" in refused(
        asked("memo", *wide, "--baseline-gpus", "12")
    )


def test_a_model_that_fits_one_accelerator_is_told_so() -> None:
    small = ("--model", "qwen3-0.6b", "--cluster", "1x8:h100", "--seq-len", "4096", "--global-batch", "8")
    answer = asked("memo", *small)
    assert answer.code == 0
    assert "It fits, so every split below is for speed" in answer.out
    assert "from 1, the fewest that hold a plan safely, to 8" in answer.out


@pytest.mark.parametrize(("share", "said"), [(0.5, "50.0%"), (0.0299, "3.0%"), (0.00299, "0.30%"), (1e-9, "0%")])
def test_shares_are_told_with_the_digits_that_they_need(share: float, said: str) -> None:
    assert percent(share) == said


def test_the_usual_baseline_is_a_node_of_several() -> None:
    assert usual_baseline(given(figures("own-adapters"))) == 8
    assert isclose(figures("own-adapters")["scaling"]["baseline"], 8)


def test_where_no_change_would_fit_other_runtimes_are_named() -> None:
    wide = ("--model", "llama-3.1-405b", "--cluster", "2x8:a100-80gb", "--seq-len", "4096", "--global-batch", "64")
    answer = asked("memo", *wide, "--runtime", "pytorch-ddp")
    assert answer.code == 3
    assert "With `pytorch-ddp` no plan fits even with 32 times the nodes" in answer.out


def test_tensor_parallelism_on_one_node_crosses_nothing() -> None:
    answer = asked("memo", *LLAMA, "--runtime", "megatron-lm")
    assert answer.code == 0
    assert "it crosses" not in answer.out
    assert "the cluster has no slower links" in answer.out


AT_RISK = ("memo", "qwen3-8b", "1x4:a100-40gb", "--seq-len", "4096", "--global-batch", "64")


def test_a_plan_at_risk_is_not_asked_for() -> None:
    text = asked(*AT_RISK).out
    assert "**No plan fits safely; the least risky**" in text
    assert "Train with this plan" not in text
    assert "no plan for this batch fits safely" in text
    said = text[text.index("What would fit safely") : text.index("predicted")]
    assert "optimizer_states=bf16" in said
    decision = text[text.index("Decision asked") : text.index("Approved")]
    assert decision.count("Do not commit 4 accelerators") == 1
    assert "Plan again with --with optimizer_states=bf16." in decision
    document = json.loads(asked(*AT_RISK, "--json").out)
    assert document["what_would_fit"]


@pytest.mark.parametrize(
    ("model", "cluster", "batch", "least", "most", "words"),
    [
        ("mixtral-8x7b", "8x8:h100", "512", 1.0, 1.1, "does not fit safely"),
        ("llama-3.1-70b", "8x8:h100", "512", 1.2, 9.0, "does not fit"),
        ("qwen3-0.6b", "1x8:h100", "16", 0.0, 0.8, "still fits"),
    ],
)
def test_a_memo_tells_apart_what_without_zero_fits_is_at_risk_and_does_not_fit(
    model: str, cluster: str, batch: str, least: float, most: float, words: str
) -> None:
    text = asked("memo", model, cluster, "--seq-len", "4096", "--global-batch", batch).out
    [(needed, told)] = re.findall(r"without it the plan needs ([\d,.]+) GiB, which ([a-z ]+)\.", text)
    [usable] = set(re.findall(r"of ([\d.]+) GiB usable", text))
    assert least <= float(needed.replace(",", "")) / float(usable) <= most
    assert told == words


@pytest.mark.parametrize(("graphs", "told"), [("none", False), ("router", True)])
def test_what_cuda_graphs_hold_is_no_fragmentation(graphs: str, told: bool) -> None:
    question = ("qwen3-30b-a3b", "1x8:h200", "--seq-len", "4096", "--global-batch", "64", "--ep", "8")
    words = asked("memo", *question, "--with", f"host.graphs={graphs}").out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in words.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows].count("CUDA graphs") == told
    assert bool(re.search(r"GiB of fragmentation, [\d.]+ GiB of CUDA graphs and", words)) == told
