"""Runs: what logs measured beside what is predicted for their launch file, and rows that other commands take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import meshwright
from commands import asked, refused
from meshwright.errors import InvalidInput
from meshwright.specs.choices import Recompute
from meshwright.specs.recompute_modules import names_of
from meshwright.validation.logs.answer import runs
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows
from printed import BATCH, PRINTED, SECONDS, megatron

LAUNCH = f"""#!/bin/bash
torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 \\
  --num-attention-heads 64 --group-query-attention --num-query-groups 8 --swiglu --position-embedding-type rope \\
  --untie-embeddings-and-output-weights --normalization RMSNorm --disable-bias-linear --vocab-size 128256 \\
  --seq-length 8192 --micro-batch-size 1 --global-batch-size {BATCH} --bf16 --tensor-model-parallel-size 8 \\
  --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 10 --sequence-parallel \\
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"""
"""Llama-3.1-70B on 64 GPUs."""


@pytest.fixture
def launch(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(LAUNCH)
    return path


def logged(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_that_takes_what_is_predicted_differs_by_nothing(tmp_path: Path, launch: Path) -> None:
    log = logged(tmp_path / "a.log", megatron())
    (first,) = runs([log], launch, "8x8:h100")
    assert [each.step_time for each in runs(str(log), launch, "8x8:h100")] == [first.step_time]
    assert first.estimate is not None
    seconds = [first.estimate.step_time_s] * 30
    table = tmp_path / "runs.csv"
    (run,) = runs([logged(tmp_path / "b.log", megatron(seconds))], launch, "8x8:h100", output_file=table)
    assert run.step_time is not None
    assert run.step_time.error == pytest.approx(0, abs=1e-4)
    shown, step = " ".join(repr(run).split()), f"{run.step_time.measured:.3g} s"
    assert shown.startswith(f"<MeasuredRun {run.log.path}: {step} a step measured, {step} predicted (")
    assert run.memory is not None
    assert run.memory["allocated"].measured == pytest.approx(60)
    (outcome,) = outcomes_of(configurations(read_rows(table)))
    assert outcome.step_time is not None
    assert outcome.memory is not None
    assert outcome.step_time.error == pytest.approx(0, abs=1e-4)
    assert outcome.memory.predicted == pytest.approx(run.memory["allocated"].predicted)
    assert outcome.case is not None
    assert outcome.case.plan == run.estimate.plan  # type: ignore[union-attr]


@pytest.mark.parametrize("name", PRINTED)
def test_a_launch_file_turns_every_rate_into_a_step_time(tmp_path: Path, launch: Path, name: str) -> None:
    (run,) = runs([logged(tmp_path / "a.log", PRINTED[name]())], launch, "8x8:h100")
    assert run.step_time_s == pytest.approx(5.04, rel=0.1 if name == "trainer" else 5e-3)


def test_the_command_prints_both_and_the_difference(tmp_path: Path, launch: Path) -> None:
    log, table = logged(tmp_path / "a.log", megatron()), tmp_path / "runs.csv"
    command = ("runs", str(log), "--from", str(launch), "--cluster", "8x8:h100")
    screen = asked(*command, "--out", str(table))
    assert (screen.code, screen.err) == (0, "")
    assert "5.04 s" in screen.out
    assert "step time" in screen.out
    assert "31 (15 s, checkpoint)" in " ".join(screen.out.split())
    document = asked(*command, "--json").document
    (run,) = document["runs"]
    assert run["step_time_s"]["error"] == run["step_time_s"]["predicted"] / run["step_time_s"]["measured"] - 1
    assert run["lines"]["used"] == 30
    assert document["plan"]["tp"] == 8
    scored = asked("validate", "--runs", str(table), "--json").document
    assert scored["represented"] == 1
    question = (
        "plan",
        "--model",
        "llama-3.1-70b",
        "--cluster",
        "8x8:h100",
        "--seq-len",
        "8192",
        "--global-batch",
        "256",
    )
    close = logged(tmp_path / "b.log", megatron([run["step_time_s"]["predicted"]] * 20))
    asked("runs", str(close), "--from", str(launch), "--cluster", "8x8:h100", "--out", str(table))
    planned = asked(*question, "--tp", "8", "--cp", "1", "--pp", "2", "--measured", str(table), "--json")
    assert any("by 1 of its own runs" in each for each in planned.document["assumptions"])


def test_a_file_that_starts_another_number_of_accelerators_is_told(tmp_path: Path, launch: Path) -> None:
    """Where the log does not say how many there were, which would be refused."""
    silent = [line for line in megatron() if "world_size" not in line]
    question = "runs", str(logged(tmp_path / "a.log", silent)), "--from", str(launch), "--cluster"
    note = "the file starts 8 x 8 GPUs; asked about: 32 GPUs"
    told = [" ".join(asked(*question, f"{nodes}x8:h100").out.split()) for nodes in (8, 4)]
    assert [note in text for text in told] == [False, True]
    assert note in asked(*question, "4x8:h100", "--json").document["notes"]


def test_a_log_alone_is_measured(tmp_path: Path) -> None:
    log, table = logged(tmp_path / "a.log", PRINTED["torchtitan"]()), tmp_path / "runs.csv"
    assert "tokens/s/GPU" in asked("runs", str(log), "--out", str(table)).out
    (row,) = read_rows(table)
    assert float(row["tokens_per_s_per_gpu"]) == pytest.approx(BATCH * 8192 / 64 / 5.04, rel=1e-4)
    assert (row["memory_kind"], float(row["memory_gib"])) == ("reserved", 61.2)
    assert json.loads(asked("runs", str(log), "--json").out)["runs"][0]["step_time_s"] == {"measured": None}


def test_a_log_of_another_run_is_refused(tmp_path: Path, launch: Path) -> None:
    other = [line.replace(f"{'.' * 38} 8192", f"{'.' * 38} 4096") for line in megatron()]
    other = [line.replace(f"global batch size: {BATCH:5d}", "global batch size:   128") for line in other]
    with pytest.raises(
        InvalidInput, match=r"global batch size is 128 .* and 256 there; seq_length is 4096 .* and 8192"
    ):
        runs([logged(tmp_path / "a.log", other)], launch, "8x8:h100")


@pytest.mark.parametrize("batch", ["256", "1,024"])
def test_the_batch_that_a_trainer_prints_is_that_of_the_launch_file(tmp_path: Path, launch: Path, batch: str) -> None:
    said = f"[INFO|trainer.py:1625] 2026-08-01 >>   Total train batch size (w. parallel, accumulation) = {batch}"
    log = logged(tmp_path / "a.log", [said, *PRINTED["trainer"]()])
    if batch == str(BATCH):
        assert runs([log], launch, "8x8:h100")[0].row["global_batch_size"] == batch
    else:
        with pytest.raises(InvalidInput, match="global batch size is 1024 in the log and 256 there"):
            runs([log], launch, "8x8:h100")


def test_bad_questions_are_refused(tmp_path: Path, launch: Path) -> None:
    log = logged(tmp_path / "a.log", megatron())
    assert "name the file that started the run" in refused(asked("runs", str(log), "--cluster", "8x8:h100"))
    assert "name the file with --from" in refused(asked("runs", str(log), "--model", "llama-3.1-8b"))
    assert "looked for" in refused(asked("runs", str(launch)))
    assert "does not exist" in refused(asked("runs", str(log), "--out", str(tmp_path / "no" / "runs.csv")))
    assert not (tmp_path / "no").exists()


ARGUMENTS = {
    "num_layers": 80,
    "hidden_size": 8192,
    "ffn_hidden_size": 28672,
    "num_attention_heads": 64,
    "kv_channels": 128,
    "group_query_attention": True,
    "num_query_groups": 8,
    "swiglu": True,
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
    "normalization": "RMSNorm",
    "add_bias_linear": False,
    "vocab_size": 128256,
    "padded_vocab_size": None,
    "seq_length": 8192,
    "micro_batch_size": 1,
    "bf16": True,
    "global_batch_size": BATCH,
    "tensor_model_parallel_size": 8,
    "pipeline_model_parallel_size": 2,
    "num_virtual_stages_per_pipeline_rank": 4,
    "virtual_pipeline_model_parallel_size": 4,
    "sequence_parallel": True,
    "overlap_p2p_comm": True,
    "use_distributed_optimizer": True,
    "overlap_grad_reduce": True,
    "fp8": None,
    "overlap_param_gather": True,
    "accumulate_allreduce_grads_in_fp32": True,
    "num_experts": None,
    "multi_latent_attention": False,
    "kv_lora_rank": 32,
    "v_head_dim": 128,
    "moe_router_topk": 2,
    "fp8_recipe": "delayed",
    "recompute_granularity": None,
    "recompute_modules": None,
    "cp_comm_type": "['p2p']",
    "world_size": 64,
    "moe_token_dispatcher_type": "allgather",
    "data_path": "['$(touch x)', '`id`']",
    "data_parallel_size": 4,
}
"""Of the launch file, as `_print_args` of megatron-core 0.19.2 writes them, defaults too."""


def with_arguments(**changes: object) -> list[str]:
    printed = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in sorted((ARGUMENTS | changes).items())]
    return ["------------------------ arguments ------------------------", *printed, *megatron()[3:]]


def test_a_log_that_holds_its_arguments_needs_no_launch_file(tmp_path: Path, launch: Path) -> None:
    log = logged(tmp_path / "a.log", with_arguments())
    (alone,), (beside,) = (runs([log], file, "8x8:h100") for file in (None, launch))
    assert alone.estimate is not None
    assert beside.estimate is not None
    assert alone.estimate.plan == beside.estimate.plan
    assert alone.estimate.step_time_s == beside.estimate.step_time_s
    assert asked("runs", str(log), "--cluster", "8x8:h100").code == 0
    assert "world_size is 64 in the log and 128 there" in refused(asked("runs", str(log), "--cluster", "16x8:h100"))


def test_arguments_are_followed(tmp_path: Path) -> None:
    chunks = {"num_virtual_stages_per_pipeline_rank": None, "virtual_pipeline_model_parallel_size": None}
    recomputed = {"recompute_granularity": "selective", "recompute_modules": "['layernorm', 'mlp']"}
    lines = with_arguments(**chunks, **recomputed, overlap_p2p_comm=False)
    (run,) = runs([logged(tmp_path / "a.log", lines)], cluster="8x8:h100")
    assert run.estimate is not None
    assert (run.estimate.plan.vpp, run.estimate.plan.recompute) == (1, Recompute.SELECTIVE)
    assert names_of(run.estimate.plan.recompute_modules) == ["layernorm", "mlp"]
    assert not (tmp_path / "x").exists()


def test_python_asks_the_same(tmp_path: Path, launch: Path) -> None:
    (run,) = meshwright.runs([logged(tmp_path / "a.log", megatron(SECONDS))], launch, "8x8:h100")
    assert run.step_time_s == pytest.approx(5.04)


def test_runs_from_python_are_a_sequence_and_a_table(tmp_path: Path, launch: Path) -> None:
    answer = meshwright.runs([logged(tmp_path / f"{day}.log", megatron(SECONDS)) for day in "ab"], launch, "8x8:h100")
    assert len(answer) == 2
    assert answer[0].step_time is not None
    rows = answer.rows()
    assert [row["log"] for row in rows] == [str(tmp_path / "a.log"), str(tmp_path / "b.log")]
    assert rows[0]["step_time_measured_s"] == answer[0].step_time.measured
    assert rows[0]["step_time_predicted_s"] == answer[0].step_time.predicted
    assert rows[0].keys() == rows[1].keys()
    assert repr(answer).startswith("<RunsAnswer")
    assert "<table>" in answer._repr_html_()
    logs = [str(tmp_path / f"{day}.log") for day in "ab"]
    printed = asked("runs", *logs, "--from", str(launch), "--cluster", "8x8:h100", "--json")
    assert answer.to_dict() == json.loads(printed.out)


def test_a_launch_file_is_compared_from_python(launch: Path) -> None:
    """What `compare --from` does with a file beside another plan."""
    ours = meshwright.read_launch(launch, "8x8:h100")
    best = meshwright.plan(ours.inputs.model, ours.inputs.cluster, ours.inputs.job, runtime=ours.inputs.runtime).best[0]
    plans = {"ours": ours.plan, "best": best.plan}
    both = meshwright.compare(
        ours.inputs.model, ours.inputs.cluster, ours.inputs.job, plans=plans, runtime=ours.inputs.runtime
    )
    assert [row["name"] for row in both.rows()] == ["ours", "best"]
    assert both.rows()[1]["step_time_s"] == best.step_time_s
