"""The command: what each of its questions answers, on screen and as JSON."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints
from unittest import mock

import pytest

import meshwright
from commands import HANG_S, LLAMA, Hang, asked, hangs_after, question, refused
from meshwright.cli.commands import COMMANDS, command
from meshwright.cli.groups import JobOptions
from meshwright.cli.one_plan import PlanOptions
from meshwright.cli.options import AllowedRecomputation, Dispatcher
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.ranking.ties import choices
from meshwright.specs import catalog
from meshwright.specs.choices import CHOICES
from meshwright.specs.runtime.communication import Communication
from meshwright.specs.runtime.replaced import ReplacedBehaviour

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data" / "hf_configs"
LLAMA_8B = DATA / "meta-llama--Meta-Llama-3.1-8B.json"
VISION = DATA / "Qwen--Qwen3-VL-8B-Instruct.json"
SITE = """
accelerator = "h100"
nodes = 2
[[levels]]
name = "nvlink"
size = 8
bandwidth = "450GB/s"
[[levels]]
name = "spine"
size = 16
bandwidth = "400Gb/s"
latency = "9us"
"""


def planned(*arguments: str) -> dict[str, Any]:
    """The plan file that a command prints."""
    answer = asked(*arguments, "--json")
    assert (answer.code, answer.err) == (0, "")
    document: dict[str, Any] = answer.document
    return document


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    path.write_text(asked("plan", *LLAMA, "--json").out, "utf-8")
    return path


def test_plan_prints_a_screen() -> None:
    answer, best = asked("plan", *LLAMA), planned("plan", *LLAMA)["plans"][0]
    assert (answer.code, answer.err) == (0, "")
    assert "1 x 8 h100-sxm-80gb" in answer.out
    assert best["memory"]["verdict"] in answer.out
    assert f"tp{best['plan']['tp']} " in answer.out
    assert f"{best['mfu']:.1%}" in answer.out


def test_plan_prints_five_plans_or_as_many_as_asked() -> None:
    assert len(planned("plan", *LLAMA)["plans"]) == 5
    assert len(planned("plan", *LLAMA, "--top", "2")["plans"]) == 2
    everything = planned("plan", *LLAMA, "--top", "100000")
    plans = Plans.of(Plan.from_dict(each["plan"]) for each in everything["plans"])
    assert 5 < len(plans) <= everything["fitting"]
    assert len({*choices(plans)}) == len(plans)
    assert everything["other_splits"] == []


def test_the_answer_is_the_same_every_time() -> None:
    first, second = (asked("plan", *LLAMA, "--json").out for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("tokens", "sequences", "guessed"),
    [
        ("4M", 512, "4194304"),
        ("1.5M", 192, "1572864"),
        ("0.5M", 64, "524288"),
        ("512k", 64, "524288"),
        ("524288", 64, None),
        ("81920k", 10000, None),
    ],
)
def test_a_batch_in_tokens(tokens: str, sequences: int, guessed: str | None) -> None:
    document = planned("plan", *question(global_batch=None, global_batch_tokens=tokens))
    assert document["inputs"]["job"]["global_batch"] == sequences
    told = [line for line in document["assumptions"] if "tokens in a batch" in line]
    assert [tokens in line and guessed in line for line in told] == ([True] if guessed else [])


@pytest.mark.parametrize(
    ("option", "field", "text", "count"),
    [("seq_len", "sequence_length", "8k", 8192), ("global_batch", "global_batch", "0.064k", 64)],
)
def test_counts_take_a_prefix(option: str, field: str, text: str, count: int) -> None:
    assert planned("plan", *question(**{option: text}))["inputs"]["job"][field] == count


@pytest.mark.parametrize(
    ("option", "names"),
    [
        (get_type_hints(JobOptions, include_extras=True)["precision"], catalog.names("precisions")),
        (Dispatcher, get_args(Communication.model_fields["dispatcher"].annotation)),
        (AllowedRecomputation, CHOICES["recompute"].values()),
        (get_type_hints(PlanOptions, include_extras=True)["recompute"], CHOICES["recompute"].values()),
        (get_type_hints(PlanOptions, include_extras=True)["context_exchange"], CHOICES["context_exchange"].values()),
    ],
)
def test_help_lists_every_name(option: Any, names: Sequence[str]) -> None:
    listed = re.findall(r"[\w-]+", get_args(option)[1].help.partition(";")[0])
    assert sorted({*listed} - {"token", "dispatcher", "or"}) == sorted(names)


def test_a_precision_in_capitals() -> None:
    assert planned("plan", *question(precision="BF16"))["inputs"]["job"]["precision"] == "bf16"


def test_tokens_to_train_on_give_the_time() -> None:
    document = planned("plan", *LLAMA, "--tokens", "15T")
    assert document["inputs"]["job"]["tokens"] == 15 * 10**12
    days = 15e12 / (64 * 8192) * document["plans"][0]["step_time_s"] / 86400
    assert f"{days / 365.25:,.1f} years" in " ".join(asked("plan", *LLAMA, "--tokens", "15T").out.split())


def test_a_config_a_folder_a_name_and_a_link_are_the_same_model(tmp_path: Path) -> None:
    shutil.copy(LLAMA_8B, tmp_path / "config.json")
    (tmp_path / "link").symlink_to(tmp_path)
    sources = [str(LLAMA_8B), str(tmp_path), str(tmp_path / "link" / "config.json"), "LLAMA_3.1_8B"]
    answers = [asked("model", source, "--json").document["parameters"] for source in sources]
    assert answers == [8030261248] * 4
    times = {planned("plan", *question(model=source))["plans"][0]["step_time_s"] for source in sources}
    assert len(times) == 1


def test_of_a_multimodal_model_the_text_alone() -> None:
    document = planned("plan", *question(model=str(VISION)), "--text-only")
    assert document["inputs"]["model"]["family"].startswith("qwen3")
    assert any("vision" in line.lower() or "text" in line.lower() for line in document["assumptions"])


def test_a_cluster_from_a_file_a_name_and_a_short_form(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(SITE, "utf-8")
    described = planned("plan", *question(cluster=str(path)))["inputs"]["cluster"]
    assert (described["name"], described["num_nodes"], described["levels"][1]["latency_s"]) == ("site", 2, 9e-6)
    for cluster, ranks in (("2xdgx-h100", 16), ("dgx-h100", 8), (" 2X8:H100 ", 16), ("2×8:h100", 16)):
        given = planned("plan", *question(cluster=cluster))["inputs"]["cluster"]
        assert given["num_nodes"] * given["gpus_per_node"] == ranks


def test_fp16_on_an_accelerator_without_bf16() -> None:
    document = planned("plan", *question(model="gpt2-xl", cluster="1x8:v100", seq_len="1024", precision="fp16"))
    assert document["inputs"]["job"]["precision"] == "fp16"


@pytest.mark.parametrize("command", ["explain", "check"])
def test_that_no_plan_was_named_is_said(command: str) -> None:
    said = "No plan was named, so this is data parallelism alone; meshwright plan finds the best plan."
    assert " ".join(asked(command, *LLAMA).out.split()).startswith(said)
    assert said not in " ".join(asked(command, *LLAMA, "--tp", "2").out.split())


def test_so_it_is_where_its_files_are_written(tmp_path: Path) -> None:
    said = "No plan was named, so this is data parallelism alone; meshwright plan finds the best plan."
    written = asked("launch", *LLAMA, "--out", str(tmp_path / "unnamed"))
    assert written.out.splitlines()[0] == said
    assert said not in asked("launch", *LLAMA, "--tp", "2", "--out", str(tmp_path / "named")).out


@pytest.mark.parametrize("command", [("explain",), ("launch", "--out", "absent")])
def test_a_default_plan_that_is_not_legal_is_said_to_be_the_default(command: tuple[str, ...]) -> None:
    odd = question(model="llama-3.1-8b", cluster="3x8:h100", global_batch="64")
    text = refused(asked(*command, *odd))
    assert "no plan was named, and the default one, tp1 pp1 dp24 zero1 mbs1 m2, is not legal" in text
    assert "nearest global_batch: 48 or 72" in text
    assert "plan tp1 pp1 dp24 zero1 mbs1 m2 is not legal" in refused(asked(*command, *odd, "--dp", "24"))


def test_explain_fills_in_what_is_not_said() -> None:
    document = planned("explain", *LLAMA, "--tp", "2", "--pp", "2")
    (entry,) = document["plans"]
    assert entry["plan"] | {"tp": 2, "sp": True, "pp": 2, "dp": 2, "zero": 1, "num_microbatches": 32} == entry["plan"]
    assert [stage["stage"] for stage in entry["stages"]] == [0, 1]
    screen = asked("explain", *LLAMA, "--tp", "2", "--pp", "2")
    assert screen.code == 0
    assert "tp2 sp pp2 dp2 zero1 mbs1 m32" in screen.out
    assert entry["memory"]["verdict"] in screen.out


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["--tp", "2", "--no-sp"], {"sp": False}),
        (["--zero", "0"], {"zero": 0, "dp": 8}),
        (["--pp", "4", "--vpp", "4"], {"vpp": 4, "schedule": "interleaved"}),
        (["--pp", "4", "--schedule", "zb-v", "--vpp", "2", "--runtime", "zero-bubble"], {"vpp": 2, "schedule": "zb-v"}),
        (["--pp", "4", "--schedule", "gpipe", "--runtime", "nanotron"], {"vpp": 1, "schedule": "gpipe"}),
        (["--micro-batch", "2"], {"micro_batch": 2, "num_microbatches": 4}),
        (["--recompute", "selective"], {"recompute": "selective", "recompute_modules": ["core_attn"]}),
        (
            ["--recompute", "selective", "--recompute-modules", "mlp,core-attn"],
            {"recompute_modules": ["core_attn", "mlp"]},
        ),
        (["--tp", "8", "--dp", "1"], {"dp": 1, "zero": 0}),
    ],
)
def test_explain_takes_every_degree(options: list[str], fields: dict[str, Any]) -> None:
    plan = planned("explain", *LLAMA, *options)["plans"][0]["plan"]
    assert plan | fields == plan


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_explain_takes_a_plan_of_a_file(plan_file: Path, rank: int) -> None:
    wanted = json.loads(plan_file.read_text("utf-8"))["plans"][rank - 1]
    entry = planned("explain", str(plan_file), "--rank", str(rank))["plans"][0]
    assert {name: entry[name] for name in wanted if name != "lost"} == {k: v for k, v in wanted.items() if k != "lost"}
    assert asked("explain", str(plan_file), "--rank", str(rank)).code == 0


def test_an_explained_plan_is_a_plan_file_too(plan_file: Path, tmp_path: Path) -> None:
    again = tmp_path / "explained.json"
    again.write_text(asked("explain", str(plan_file), "--json").out, "utf-8")
    assert planned("explain", str(again))["plans"] == planned("explain", str(plan_file))["plans"]


def test_a_plan_file_with_a_byte_order_mark_is_read(plan_file: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + plan_file.read_bytes())
    assert planned("explain", str(marked))["plans"] == planned("explain", str(plan_file))["plans"]


def test_the_dispatcher_has_an_option_of_its_own(tmp_path: Path) -> None:
    """The same as with `--with`, also beside a plan file."""
    layout = ("--ep", "8", "--zero", "1", "--json")
    experts = ("--model", "mixtral-8x7b", "--cluster", "1x8:h100", "--seq-len", "4096", "--global-batch", "64")
    short = asked("explain", *experts, *layout, "--dispatcher", "all-gather").document
    long = asked("explain", *experts, *layout, "--with", "dispatcher=all_gather").document
    assert short["plans"] == long["plans"]
    plain = tmp_path / "plan.json"
    plain.write_text(asked("explain", *experts, *layout).out, encoding="utf-8")
    varied = asked("explain", str(plain), "--dispatcher", "all_gather", "--json").document
    assert varied["plans"][0]["step_time_s"] == short["plans"][0]["step_time_s"]
    assert (
        varied["plans"][0]["step_time_s"] != asked("explain", str(plain), "--json").document["plans"][0]["step_time_s"]
    )
    assert "all_to_all" in refused(asked("explain", *experts, *layout, "--dispatcher", "none"))


WITH = ("--with", "dispatcher=fused", "--with", "overlap.expert=0.7")
CONFIGS = Path(__file__).parent / "data" / "hf_configs"
MIXTRAL = ("--model", "mixtral-8x7b", "--cluster", "2x8:h100", "--seq-len", "4096", "--global-batch", "64")


@pytest.mark.parametrize("command", ["plan", "explain"])
def test_behaviours_are_replaced_for_the_question_and_told(command: str) -> None:
    document = planned(command, *LLAMA, *WITH)
    runtime = document["inputs"]["runtime"]
    assert (runtime["communication"]["dispatcher"], runtime["overlap"]["expert"]) == ("fused", 0.7)
    assert runtime["id"] == "megatron-core"
    told = [line for line in document["assumptions"] if line.startswith("replaced for this question")]
    replaced = [ReplacedBehaviour(**each) for each in runtime["replaced"]]
    assert [line.partition("above: ")[2] for line in told] == [str(each) for each in replaced]
    screen = " ".join(asked(command, *LLAMA, *WITH, "--more").out.split())
    assert "megatron-core with dispatcher fused, overlap.expert 0.7" in screen
    assert all(line in screen for line in told)


def test_a_replaced_behaviour_changes_the_answer() -> None:
    layout = ("--tp", "2", "--recompute", "full")
    plain, free = (
        planned("explain", *LLAMA, *layout, *more)["plans"][0] for more in ((), ("--with", "elementwise=eager"))
    )
    assert free["compute"]["elementwise_s"] > plain["compute"]["elementwise_s"]
    assert asked("check", *LLAMA, *layout, "--with", "host.graphs=iteration").code == 0


def test_behaviours_stay_in_the_plan_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(asked("plan", *MIXTRAL, *WITH, "--json").out, "utf-8")
    again = planned("explain", str(path))
    assert again["inputs"]["runtime"]["communication"]["dispatcher"] == "fused"
    assert again["plans"][0]["experts"]["dispatcher"] == "fused"


def test_behaviours_apply_to_every_runtime_that_has_them() -> None:
    question = ("--runtime", "all", "--with", "cross_entropy=chunked")
    runtimes = asked("plan", *LLAMA, *question, "--json").document["runtimes"]
    assert {"torchtitan", "accelerate", "pytorch-fsdp1"} <= {
        name for name, answer in runtimes.items() if "plans" in answer
    }
    assert "not among cross_entropies: unfused, native, fused" in runtimes["megatron-core"]["refused"]
    assert all(each["inputs"]["runtime"]["replaced"] for each in runtimes.values() if "plans" in each)
    screen = " ".join(asked("plan", *LLAMA, *question).out.split())
    assert "not among cross_entropies" in screen
    assert "Replaced in every runtime: cross_entropy chunked" in screen


def test_experts_get_unequal_shares_or_a_capacity() -> None:
    layout = ("--ep", "8", "--recompute", "full")
    options = (("--expert-imbalance", "1"), ("--expert-imbalance", "1.5"), ("--expert-capacity", "1.25"), ())
    even, hot, padded, usual = (planned("explain", *MIXTRAL, *layout, *more) for more in options)
    assert hot["inputs"]["job"]["expert_imbalance"] == 1.5
    assert padded["inputs"]["job"]["expert_capacity"] == 1.25
    step = [document["plans"][0]["step_time_s"] for document in (even, padded, hot)]
    assert step == sorted(step)
    assert len(set(step)) == 3
    assert even["plans"][0]["experts"]["imbalance"][2]["step_time_s"] == step[2]
    assert usual["inputs"]["job"]["expert_imbalance"] is None
    assert step[0] == usual["plans"][0]["routing"]["even"]["step_time_s"] < usual["plans"][0]["step_time_s"] < step[2]
    assert planned("plan", *MIXTRAL, "--expert-imbalance", "1.5")["inputs"]["job"]["expert_imbalance"] == 1.5


def test_multi_token_prediction_is_trained_as_asked(tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "deepseek-ai--DeepSeek-V3.json").read_text("utf-8"))
    small = tmp_path / "config.json"
    small.write_text(json.dumps(config | {"num_hidden_layers": 6}), "utf-8")
    deepseek = ("--model", str(small), *MIXTRAL[2:], "--pp", "2", "--ep", "8")
    usual, none, two = (
        planned("explain", *deepseek, *more) for more in ((), ("--mtp-layers", "0"), ("--mtp-layers", "2"))
    )
    assert [document["inputs"]["job"]["mtp_layers"] for document in (usual, none, two)] == [None, 0, 2]
    assert [document["plans"][0]["stages"][1]["mtp_layers"] for document in (usual, none, two)] == [1, 0, 2]
    step = [document["plans"][0]["step_time_s"] for document in (none, usual, two)]
    assert step == sorted(set(step))
    assert "+ 2 mtp" in " ".join(asked("explain", *deepseek, "--mtp-layers", "2", "--more").out.split())
    elsewhere = ("plan", *deepseek[:-4], "--runtime", "torchtitan", "--mtp-layers", "1")
    assert "layers of multi-token prediction are not modelled for torchtitan" in asked(*elsewhere).message


def test_explain_shows_experts_and_the_context_exchange() -> None:
    screen = " ".join(asked("explain", *MIXTRAL, "--ep", "8", "--cp", "2", "--more").out.split())
    assert "Experts ep 8 inside one node" in screen
    assert "Context exchange ring, cp 2 inside one node" in screen


def test_explain_shows_with_more_the_figures_that_it_gives_as_json() -> None:
    options = ["explain", *LLAMA, "--tp", "4", "--pp", "2"]
    text, plan = " ".join(asked(*options, "--more").out.split()), planned(*options)["plans"][0]
    assert "GiB there; at the accepted risk of 10%" in text
    assert sum(plan["from_peak"].values()) == pytest.approx(plan["step_time_s"], rel=1e-9)
    assert plan["neighbours"][0]["lost"].partition(":")[0] in text
    for each in plan["knobs"]["changes"]:
        assert f"{each['device_bytes'] / 2**30:.1f}" in text
    assert [axis["axis"] for axis in plan["placement"]] == ["tp", "pp"]
    assert "What one change would do" in text


def test_a_change_asked_for_by_itself_costs_what_the_table_says() -> None:
    changes = planned("explain", *LLAMA, "--tp", "4")["plans"][0]["knobs"]["changes"]
    told = {each["change"]: each for each in changes}
    for change, options in {
        "mbs 1 -> 2": ["--micro-batch", "2"],
        "recompute none -> full": ["--recompute", "full"],
        "sp on -> off": ["--no-sp"],
        "precision bf16 -> fp8": ["--precision", "fp8"],
        "gradients fp32 -> half": ["--gradients", "half"],
        "cross_entropy unfused -> native": ["--with", "cross_entropy=native"],
        "overlap.data_parallel 0.9 -> 0": ["--with", "overlap.data_parallel=0"],
    }.items():
        alone = planned("explain", *LLAMA, "--tp", "4", *options)["plans"][0]
        assert alone["step_time_s"] == pytest.approx(told[change]["step_time_s"], rel=1e-12)
        assert alone["memory"]["device_bytes"] == pytest.approx(told[change]["device_bytes"], rel=1e-12)
        assert alone["plan"] == told[change]["plan"]


def test_explain_writes_a_trace_beside_its_answer(plan_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    answer = asked("explain", str(plan_file), "--trace", str(path))
    assert (answer.code, answer.err) == (0, "")
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    step = planned("explain", str(plan_file))["plans"][0]["step_time_s"]
    assert max(event["ts"] + event["dur"] for event in events if event["ph"] == "X") == pytest.approx(1e6 * step)


def test_a_trace_that_cannot_be_written_is_refused_before_the_answer(plan_file: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "step.json", tmp_path):
        assert "--trace" in refused(asked("explain", str(plan_file), "--trace", str(path)))


@pytest.mark.parametrize("command", [["plan", *LLAMA], ["explain", *LLAMA, "--tp", "8"]])
def test_sources_are_cited_when_asked_for(command: list[str]) -> None:
    text, cited = " ".join(asked(*command, "--cite").out.split()), planned(*command, "--cite")["citations"]
    assert "citations" not in planned(*command)
    assert len(cited) > 20
    for each in cited:
        assert each["about"] in text
    assert any("aiconfigurator" in each["source"] for each in cited)


def test_plan_shows_what_to_trade_between_time_and_memory() -> None:
    front = planned("plan", *LLAMA, "--pareto")["pareto"]
    sizes = [each["memory"]["device_bytes"] for each in front]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 3
    text = asked("plan", *LLAMA, "--pareto").out
    assert "Time against memory" in text
    assert f"of {len(front)}, " in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("option", ["--pareto", "--cite"])
def test_what_is_about_one_runtime_is_refused_of_all(option: str) -> None:
    assert option in refused(asked("plan", *LLAMA, "--runtime", "all", option))


def test_limits_prints_a_line_for_each_and_the_plans() -> None:
    document, screen = asked("limits", *LLAMA, "--json").document, asked("limits", *LLAMA).out
    assert document["schema"] == "meshwright.limits/1"
    longest, fewest, largest = (document[name] for name in ("longest_sequence", "fewest_nodes", "largest_micro_batch"))
    assert longest["sequence_length"] > 8192
    assert longest["sequence_length"] % 1024 == 0
    assert (fewest["num_nodes"], fewest["num_gpus"]) == (1, 8)
    assert largest["micro_batch"] == largest["plan"]["micro_batch"]
    assert {entry["memory"]["verdict"] for entry in (longest, fewest, largest)} == {"safe"}
    assert f"Longest sequence: {longest['sequence_length']:,} tokens, {longest['global_batch']} a step" in screen
    assert "Fewest nodes: 1 node (8 accelerators) for 64 sequences of 8192" in screen
    assert f"Largest micro-batch: {largest['micro_batch']} sequences of 8192" in screen


def test_the_limits_are_plans_of_their_own_questions() -> None:
    longest = asked("limits", *LLAMA, "--json").document["longest_sequence"]
    changes = {"seq_len": str(longest["sequence_length"]), "global_batch": str(longest["global_batch"])}
    best = planned("plan", *question(**changes))["plans"][0]
    assert (best["plan"], best["step_time_s"]) == (longest["plan"], longest["step_time_s"])


def test_limits_without_a_length_say_which_one_they_take() -> None:
    document = asked("limits", *question(seq_len=None), "--json").document
    assert document["inputs"]["job"]["sequence_length"] == 8192
    assert any("set it with --seq-len" in line for line in document["assumptions"])


def test_model_counts() -> None:
    document = asked("model", "mixtral-8x7b", "--json").document
    assert (document["family"], document["parameters"]) == ("mixtral", 46702792704)
    assert document["active_parameters"] < document["parameters"] == sum(document["by_part"].values())
    screen = asked("model", "mixtral-8x7b")
    assert screen.code == 0
    assert "46702792704" in screen.out.replace(",", "")


def test_model_takes_the_text_alone() -> None:
    assert asked("model", str(VISION)).code == 2
    assert asked("model", str(VISION), "--text-only", "--json").document["family"].startswith("qwen3")


@pytest.mark.parametrize("kind", ["models", "accelerators", "clusters", "runtimes"])
def test_catalog_lists_and_shows(kind: str) -> None:
    listed = asked("catalog", kind, "--json").document
    assert listed == sorted(listed, key=lambda entry: str(entry["id"]))
    first = listed[0]["id"]
    assert first in asked("catalog", kind).out
    assert asked("catalog", kind, first, "--json").document["id"] == first
    assert first in asked("catalog", kind, first).out


def test_an_alias_finds_its_entry() -> None:
    assert asked("catalog", "accelerators", "H100_SXM", "--json").document["id"] == "h100-sxm-80gb"


def test_a_name_with_brackets_is_shown_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    kind = '[kinds."[/x]"]\nattention = { heads = 32, kv_heads = 8 }\nmlp = { ffn_size = 14336 }\n'
    path.write_text(f'name = "[bold]"\nhidden_size = 4096\nvocab_size = 32000\nlayers = 8\n{kind}', "utf-8")
    answer = asked("model", str(path))
    assert (answer.code, answer.err) == (0, "")
    assert "[bold]" in answer.out
    assert "[/x]" in answer.out


def installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "meshwright.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=os.environ | environment)


def test_exit_codes_reach_the_shell() -> None:
    fine, wrong = installed("catalog", "runtimes"), installed("catalog", "runtime")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "runtimes" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_a_terminal_without_unicode_still_gets_its_answer() -> None:
    ran = installed("plan", *LLAMA, PYTHONIOENCODING="ascii")
    assert "Traceback" not in ran.stderr
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["catalog", "models"], ["catalog", "models", "--json"], ["--help"], ["plan", "--help"], ["--version"]]
)
def test_a_full_disk_is_one_message(arguments: list[str], unbuffered: str) -> None:
    command = [sys.executable, "-m", "meshwright.cli", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG_S, env=environment)
    assert (ran.returncode, ran.stderr) == (1, "meshwright: cannot write the answer: No space left on device\n")


def test_only_a_refused_write_is_told_as_one() -> None:
    with mock.patch("meshwright.cli.catalog.show", side_effect=TimeoutError("the network is slow")):
        answer = asked("model", "llama-3.1-8b")
    assert answer.code == "traceback"
    assert "cannot write" not in answer.err


def test_a_hang_is_named_as_one() -> None:
    with pytest.raises(Hang, match=r"no answer within 0\.05 s of processor time"), hangs_after(0.05):
        all(math.factorial(100) for _ in itertools.count())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    assert (command(name).help or "").split("\n\n")[0] == COMMANDS[name].help


def test_the_version() -> None:
    answer = asked("--version")
    assert (answer.code, answer.out) == (0, f"meshwright {meshwright.__version__}\n")
