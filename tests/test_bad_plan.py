"""Bad plans, plan files and catalogue names: one clear error with the nearest thing that works, exit code 2."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import LLAMA, asked, question, refused
from meshwright.answers.plan_file import read_plan_file
from meshwright.layout.plan import Plan

INFINITE, NAN = float("inf"), float("nan")
Change = Callable[[dict[str, Any]], Any]

DEGREES: list[tuple[str, dict[str, str], list[str]]] = [
    ("--tp 3", {}, ["tp 3 x cp 1 x pp 1 x dp 2 = 6", "8 accelerators", "tp 2 or 4"]),
    (
        "--tp 2 --dp 3",
        {},
        ["= 6, but the cluster has 8", "dp 4 makes it 8", "with dp 4, num_microbatches 16 makes it so"],
    ),
    ("--tp 2 --dp 8", {}, ["= 16, but the cluster has 8", "dp 4 makes it 8"]),
    ("--tp 16", {}, ["tp 16", "8 accelerators", "tp 8 would divide it"]),
    ("--pp 16", {}, ["pp 16", "8 accelerators", "pp 8 would divide it"]),
    ("--tp 12", {"cluster": "3x4:h100", "model": "llama-3.1-70b"}, ["64 query heads", "tp 12", "nearest tp: 8 or 16"]),
    (
        "--tp 12",
        {"cluster": "3x4:h100"},
        ["8 key-value heads are neither a multiple nor a divisor", "nearest tp: 8 or 16"],
    ),
    ("--tp 12", {"cluster": "3x4:h100"}, ["FFN size 14336", "nearest tp: 8 or 14"]),
    ("--tp 64", {"cluster": "8x8:h100"}, ["32 query heads", "nearest tp: 32"]),
    ("--tp 4", {"model": "falcon-7b"}, ["71 query heads", "nearest tp: 1 or 71"]),
    (
        "--pp 3 --vpp 12",
        {"cluster": "1x3:h100", "global_batch": "48"},
        ["32 layers do not fill pp 3 x vpp 12 = 36 chunks", "nearest pp: 1", "nearest vpp: 10"],
    ),
    (
        "--tp 8 --pp 16 --vpp 8",
        {"model": "llama-3.1-405b", "cluster": "256x8:h100", "global_batch": "256"},
        [
            "126 layers do not fill",
            "nearest pp: 8;",
            "count both ends as a layer: --embedding-as-layer --head-as-layer",
        ],
    ),
    ("--pp 2 --vpp 20", {}, ["32 layers", "vpp 20", "nearest vpp: 16"]),
    ("--vpp 2", {}, ["vpp 2 needs pp 2 or more"]),
    ("--pp 2 --vpp 2", {"global_batch": "12"}, ["there are 3", "nearest num_microbatches: 2 or 4", "or vpp 1"]),
    ("--pp 2 --vpp 2", {"global_batch": "4"}, ["there are 1", "nearest num_microbatches: 2"]),
    (
        "--micro-batch 3",
        {},
        ["global_batch 64", "micro_batch 3 x dp 8 = 24", "48 or 72", "nearest micro_batch: 2 or 4"],
    ),
    ("--micro-batch 128", {}, ["global_batch 64", "micro_batch 128", "nearest"]),
    ("--tp 2", {"global_batch": "66"}, ["global_batch 66", "nearest global_batch: 64 or 68"]),
    ("--sp", {}, ["sp needs tp 2 or more"]),
    ("--tp 8", {"seq_len": "1001"}, ["sequence length 1001", "tp 8", "nearest tp: 7 or 11, or no sp"]),
    ("--tp 2 --sp", {"runtime": "megatron-lm"}, ["sp with tp 2: megatron-lm splits no norms"]),
    ("--ep 2", {}, ["ep 2", "has no experts", "nearest ep: 1"]),
    ("--etp 2", {}, ["etp 2", "has no experts", "nearest etp: 1"]),
    ("--ep 3", {"model": "mixtral-8x7b"}, ["8 experts", "ep 3", "nearest ep: 2 or 4"]),
    ("--zero 2 --pp 2", {}, ["zero 2 does not go with pp 2 in megatron-core", "nearest zero: 1", "nearest pp: 1"]),
    ("--zero 1", {"runtime": "nanotron"}, ["nearest zero: 0", "nanotron@2025-05 had it"]),
    ("--zero 3", {"runtime": "nanotron"}, ["ZeRO 3 is not modelled for nanotron", "stages: 0"]),
    ("--zero 4", {}, ["--zero", "3"]),
    ("--recompute some", {}, ["unknown recompute 'some'", "none, selective, full"]),
    ("--recompute", {}, ["--recompute"]),
    (
        "--recompute-modules mlp",
        {},
        ["--recompute-modules mlp without --recompute selective", "add --recompute selective"],
    ),
    ("--recompute full --recompute-modules mlp", {}, ["full has no modules", "add --recompute selective"]),
    (
        "--recompute selective --recompute-modules mlp,head",
        {},
        ["unknown recompute module 'head'", "core_attn, layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts"],
    ),
    ("--recompute selective --recompute-modules ,", {}, ["--recompute-modules", "names no module", "core_attn"]),
    (
        "--recompute selective --recompute-modules mlp,moe",
        {},
        ["recompute_modules moe, but", "0 layers with experts", "nearest recompute_modules: mlp"],
    ),
    ("--tp 0", {}, ["--tp", "1"]),
    ("--tp -1", {}, ["--tp", "1"]),
    ("--dp 0", {}, ["--dp", "1"]),
    ("--micro-batch 0", {}, ["--micro-batch", "1"]),
    ("--rank 0", {}, ["--rank", "1"]),
    ("--tp 100000000000000000000", {}, ["tp: must be a whole number of at most 2147483647"]),
    ("--tp 1000000007", {}, ["tp 1000000007", "nearest tp: 32"]),
    ("--micro-batch 999999999999999999999", {}, ["micro_batch: must be a whole number of at most 2147483647"]),
    ("--bogus 3", {}, ["--bogus"]),
]


@pytest.mark.parametrize(("degrees", "changes", "says"), DEGREES, ids=[f"{row[0]} {row[1] or ''}" for row in DEGREES])
def test_an_impossible_plan_is_refused_with_the_nearest(degrees: str, changes: dict[str, str], says: list[str]) -> None:
    message = refused(asked("explain", *question(**changes), *degrees.split()))
    assert [text for text in says if text not in message] == []


def test_every_broken_rule_is_told_at_once() -> None:
    message = refused(asked("explain", *LLAMA, "--tp", "3", "--pp", "3", "--vpp", "15"))
    for rule in ("world_size", "query_heads", "kv_heads", "ffn_size", "layers_fill_chunks", "sequence_parallel"):
        assert rule in message


def test_the_hint_for_pp_leaves_room_for_tp() -> None:
    """Of 8 accelerators, tp 4 leaves 2: no larger pp may be suggested."""
    message = refused(asked("explain", *LLAMA, "--tp", "4", "--pp", "3"))
    assert "pp 2 would divide it" in message


def test_explain_says_what_it_needs() -> None:
    assert "a model and a cluster must be given" in refused(asked("explain"))
    assert "as in meshwright explain gpt2 8x8:h100; or a plan file" in refused(asked("explain", "--model", "gpt2"))
    assert "a model must be given, as in" in refused(asked("explain", *question(model=None)))


def test_options_beside_a_plan_file_are_not_dropped_in_silence(file: Path) -> None:
    for options in (["--tp", "9"], ["--model", "llama-3.1-7b"], ["--global-batch", "9"]):
        assert options[1] in refused(asked("explain", str(file), *options))


def test_a_rank_without_a_plan_file_is_not_dropped_in_silence() -> None:
    assert "--rank" in refused(asked("explain", *LLAMA, "--rank", "2"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(asked("plan", *LLAMA, "--json", "--top", "2").out, "utf-8")
    return path


TEXTS: list[tuple[str, Callable[[str], bytes], list[str]]] = [
    ("empty", lambda _: b"", ["is not a plan file"]),
    ("not JSON", lambda _: b"tp: 8", ["is not a plan file", "line 1 column 1"]),
    ("truncated", lambda text: text[: len(text) // 2].encode(), ["is not a plan file", "line"]),
    ("binary", lambda _: bytes(range(128, 256)), ["is not UTF-8 text (line 1, byte 0)"]),
    ("an array", lambda _: b"[]", ["not a plan file of schema 'meshwright.plan/2'", "None"]),
    ("a model's config", lambda _: b'{"model_type": "llama"}', ["not a plan file of schema", "None"]),
    ("deep", lambda _: b"[" * 200_000, ["is not a plan file"]),
    ("long digits", lambda _: b'{"schema": ' + b"9" * 5000 + b"}", ["is not a plan file", "4,300 digits"]),
]


@pytest.mark.parametrize(("text", "says"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_what_is_no_plan_file_is_refused(text: Callable[[str], bytes], says: list[str], file: Path) -> None:
    other = file.parent / "other.json"
    other.write_bytes(text(file.read_text("utf-8")))
    message = refused(asked("explain", str(other)))
    assert [part for part in ("other.json", *says) if part not in message] == []


def plan(name: str, value: Any) -> Change:
    """Change one field of the first plan."""
    return lambda document: document["plans"][0]["plan"].__setitem__(name, value)


def given(path: str, value: Any) -> Change:
    """Change one value of the inputs, at a path such as `job.tokens`."""

    def change(document: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        inner: Any = document["inputs"]
        for step in outer:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[last] = value

    return change


CHANGES: list[tuple[str, Change, list[str]]] = [
    (
        "a later version",
        lambda file: file.update(schema="meshwright.plan/3", written_by="meshwright 9.0"),
        ["plan/2' or earlier", "found: 'meshwright.plan/3', written by 'meshwright 9.0'"],
    ),
    (
        "a fault of another version",
        lambda file: file["inputs"].update(written_by=file.update(written_by="meshwright 0.0.1")),
        ["written_by: is meshwright 0.0.1, and this is meshwright ", "ask its question again"],
    ),
    (
        "a fault of an earlier form",
        lambda file: file["inputs"].update(form=file.update(schema="meshwright.plan/1")),
        ["schema: is meshwright.plan/1", "ask its question again with meshwright plan ... --json"],
    ),
    ("no version", lambda file: file.pop("schema"), ["meshwright.plan/2", "None"]),
    ("no plans", lambda file: file.pop("plans"), ["plans: must hold at least one plan"]),
    ("empty plans", lambda file: file.update(plans=[]), ["plans: must hold at least one plan"]),
    ("plans that are numbers", lambda file: file.update(plans=[3]), ["plans[0].plan: is missing"]),
    ("an empty plan", lambda file: file["plans"][0].update(plan={}), ["plans[0].plan.tp: is missing", "schedule"]),
    ("the second plan", lambda file: file["plans"][1]["plan"].update(tp="8"), ["plans[1].plan.tp", "'8'"]),
    ("no inputs", lambda file: file.pop("inputs"), ["inputs: must hold model, cluster, job and runtime"]),
    ("inputs as a list", lambda file: file.update(inputs=[]), ["inputs: must hold"]),
    ("empty inputs", lambda file: file.update(inputs={}), ["model", "cluster", "job", "runtime"]),
    ("an unknown key", lambda file: file.update(note="mine"), ["note", "is not a key of a plan file"]),
    ("an input of a name that Python takes", lambda file: file["inputs"].update(self=1), ["inputs.self"]),
    ("an unknown input", lambda file: file["inputs"].update(weather="fine"), ["weather"]),
    ("a model by name", lambda file: file["inputs"].update(model="gpt2"), ["model", "gpt2"]),
    ("an unknown field", plan("tpp", 8), ["plans[0].plan.tpp: is not a field of a plan"]),
    ("a degree as text", plan("tp", "8"), ["plans[0].plan.tp: must be of type int: '8'"]),
    ("a degree as a float", plan("tp", 8.0), ["plans[0].plan.tp: must be of type int: 8.0"]),
    ("a degree as a boolean", plan("tp", True), ["plans[0].plan.tp: must be of type int: True"]),
    ("a degree that is NaN", plan("tp", NAN), ["plans[0].plan.tp", "nan"]),
    ("a degree that is null", plan("tp", None), ["plans[0].plan.tp", "None"]),
    ("sp as a number", plan("sp", 1), ["plans[0].plan.sp: must be of type bool: 1"]),
    ("tp of 0", plan("tp", 0), ["tp: is 0; it must be 1 or more"]),
    ("pp of -2", plan("pp", -2), ["pp: is -2; it must be 1 or more"]),
    ("a huge tp", plan("tp", 10**30), ["tp: must be a whole number of at most 2147483647", "1" + "0" * 30]),
    (
        "an unknown recompute",
        plan("recompute", "some"),
        ["plans[0].plan.recompute: is 'some'", "none, selective, full"],
    ),
    ("an unknown module", plan("recompute_modules", ["head"]), ["plans[0].plan.recompute_modules: is ['head']", "mlp"]),
    ("a module in a list", plan("recompute_modules", [["mlp"]]), ["plans[0].plan.recompute_modules: is [['mlp']]"]),
    ("modules as text", plan("recompute_modules", "mlp"), ["plans[0].plan.recompute_modules: must be of type list"]),
    (
        "an unknown schedule",
        plan("schedule", "pipedream"),
        ["plans[0].plan.schedule: is 'pipedream'", "1f1b, interleaved"],
    ),
    ("a schedule as a list", plan("schedule", []), ["plans[0].plan.schedule: must be of type str"]),
    ("another schedule", plan("schedule", "interleaved"), ["vpp 1 runs the 1f1b schedule", "set schedule to 1f1b"]),
    ("zero 3", plan("zero", 3), ["zero 3 does not go with pp 2", "nearest zero: 1"]),
    ("zero -1", plan("zero", -1), ["ZeRO -1", "0, 1, 2, 3"]),
    ("ep 2", plan("ep", 2), ["ep 2", "nearest ep: 1"]),
    ("dp 3", plan("dp", 3), ["8 accelerators", "makes it 8"]),
    ("micro-batches", plan("num_microbatches", 7), ["num_microbatches 7", "global_batch is 64"]),
    ("fewer nodes", given("cluster.gpus_per_node", 4), ["the cluster has 4 accelerators"]),
    ("more nodes", given("cluster.num_nodes", 4), ["'nvlink' holds 8 ranks", "4 x 8 = 32"]),
    ("no nodes", given("cluster.num_nodes", 0), ["cluster.num_nodes", "0"]),
    ("no levels", given("cluster.levels", []), ["cluster.levels"]),
    ("a batch of 66", given("job.global_batch", 66), ["global_batch is 66"]),
    ("a batch that is NaN", given("job.global_batch", NAN), ["job.global_batch", "nan"]),
    ("a sequence of 0", given("job.sequence_length", 0), ["job.sequence_length", "0"]),
    ("a sequence of true", given("job.sequence_length", True), ["job.sequence_length", "True"]),
    ("a sequence of 1e30", given("job.sequence_length", 10**30), ["sequence_length"]),
    ("int4", given("job.precision", "int4"), ["job.precision", "int4", "bf16"]),
    ("fp9", given("job.precision", "fp9"), ["job.precision", "'fp9'", "bf16", "nvfp4"]),
    ("an unknown key of the job", given("job.batch", 8), ["job.batch"]),
    ("no bf16", given("cluster.accelerator.peak_flops", {"fp16": 1e15}), ["no bf16", "fp16"]),
    ("no memory", given("cluster.accelerator.memory_bandwidth", NAN), ["accelerator.memory_bandwidth", "nan"]),
    ("no layers", given("model.layer_pattern", []), ["model.layer_pattern"]),
    ("an unknown kind", given("model.layer_pattern", [5]), ["layer_pattern", "[5]"]),
    ("1 layer by pp 2", given("model.layer_pattern", [0]), ["1 layers", "nearest pp"]),
    ("a negative size", given("model.hidden_size", -1), ["model.hidden_size", "-1"]),
    ("a size without end", given("model.hidden_size", INFINITE), ["model.hidden_size", "inf"]),
    (
        "more parameters than any model has",
        lambda file: file["inputs"]["model"].update(hidden_size=2**30, vocab_size=2**30),
        ["inputs.model: has", "parameters; at most 1000T"],
    ),
    ("a size of 1e25", given("model.hidden_size", 10**25), ["hidden_size"]),
    ("an unknown rule", given("runtime.rules", [{"name": "nope", "source": "x"}]), ["runtime.rules", "nope"]),
    (
        "an unknown cross-entropy",
        given("runtime.kernels.cross_entropy", "nope"),
        ["runtime.kernels.cross_entropy", "nope", "unfused"],
    ),
    ("no cross-entropies", given("runtime.cross_entropies", {}), ["runtime.kernels.cross_entrop", "unfused"]),
    ("no rank order", given("runtime.plans.rank_order", []), ["runtime.plans.rank_order"]),
    ("a rank order of tp alone", given("runtime.plans.rank_order", ["tp", "tp"]), ["runtime.plans.rank_order"]),
    ("a host without end", given("runtime.host.host_s_per_step", INFINITE), ["runtime.host.host_s_per_step"]),
    ("an endless slowdown", given("runtime.kernels.weight_gradient_slowdown", INFINITE), ["weight_gradient_slowdown"]),
    ("endless fragmentation", given("runtime.memory.fragmentation", INFINITE), ["fragmentation"]),
    ("a huge vocabulary multiple", given("runtime.storage.vocabulary_multiple", 10**30), ["vocabulary_multiple"]),
    (
        "gradients of 3 bytes",
        given("runtime.storage.gradient_bytes", 3),
        ["runtime.storage.gradient_bytes", "2 or 4", "3"],
    ),
    (
        "attention that never speeds up",
        given("cluster.accelerator.kernels.attention.half_sequence", INFINITE),
        ["attention.half_sequence"],
    ),
    (
        "more multiprocessors for messages than there are",
        given("cluster.accelerator.kernels.communication_multiprocessors", 100_000),
        ["communication_multiprocessors", "132"],
    ),
]


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_plan_file_that_is_wrong_inside_is_refused(change: Change, says: list[str], file: Path) -> None:
    document = copy.deepcopy(json.loads(file.read_text("utf-8")))
    document["plans"][0]["plan"] = Plan(tp=2, sp=True, pp=2, dp=2, zero=1, num_microbatches=32).to_dict()
    change(document)
    other = file.parent / "changed.json"
    other.write_text(json.dumps(document), "utf-8")
    message = refused(asked("explain", str(other)))
    assert [part for part in says if part not in message] == []


def test_faults_of_the_inputs_name_the_file_and_the_path_in_it(file: Path) -> None:
    document = json.loads(file.read_text("utf-8"))
    document["inputs"]["job"]["global_batch"] = 0
    other = file.parent / "changed.json"
    other.write_text(json.dumps(document), "utf-8")
    message = refused(asked("explain", str(other)))
    assert "changed.json" in message
    assert "inputs.job.global_batch" in message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nope.json", "no plan file"),
        (".", "directory"),
        ("", "plan file"),
        ("x" * 300, "cannot read the plan file"),
        ("a\0b", "null byte"),
    ],
)
def test_a_plan_file_that_is_none_is_named(path: str, says: str) -> None:
    assert says in refused(asked("explain", path))


def test_a_rank_beyond_the_file_is_answered_with_the_last(file: Path) -> None:
    held = len(read_plan_file(file)[1])
    message = refused(asked("explain", str(file), "--rank", str(held + 1)))
    assert f"holds {held} plans" in message
    assert f"1 to {held}" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["modles"], ["'modles'", "nearest: models"]),
        (["Models"], ["'Models'", "nearest: models"]),
        (["kernels"], ["'kernels'", "models", "runtimes"]),
        ([""], ["accelerators", "models"]),
        ([], ["KIND"]),
        (["models", "llama-3.1-7b"], ["unknown model 'llama-3.1-7b'", "llama-3.1-8b"]),
        (["models", "../../secrets"], ["unknown model '../../secrets'"]),
        (["accelerators", "h1000"], ["unknown accelerator 'h1000'", "h100-sxm-80gb"]),
        (["clusters", "selena"], ["unknown cluster 'selena'", "nearest: selene"]),
        (["runtimes", "megatron-cor"], ["unknown runtime 'megatron-cor'", "nearest: megatron-core"]),
        (["runtimes", "\0"], ["unknown runtime '\\x00'"]),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_an_unknown_catalogue_name_is_answered_with_the_nearest(
    arguments: list[str], says: list[str], flags: list[str]
) -> None:
    message = refused(asked("catalog", *arguments, *flags))
    assert [text for text in says if text not in message] == []


@pytest.mark.parametrize("arguments", [["plam"], ["plan", "--modle", "x"], ["model"], ["catalog", "models", "a", "b"]])
def test_a_mistyped_command_is_refused(arguments: list[str]) -> None:
    refused(asked(*arguments))
