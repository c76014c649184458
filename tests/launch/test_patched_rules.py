"""The change of a launch file removes what contradicts it, stands where its like stand, and breaks no rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from meshwright.launch.imports.patch import Patch, patch_of
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

MODEL = """--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention
  --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --swiglu
  --disable-bias-linear --normalization RMSNorm --untie-embeddings-and-output-weights --vocab-size 128256"""
BATCH = "--micro-batch-size 1 --global-batch-size 256 --bf16"
ARRAYS = f"""export CUDA_DEVICE_MAX_CONNECTIONS=1
MODEL_ARGS=(
  {MODEL}
)
PAR_ARGS=(
  --tensor-model-parallel-size 8
  --pipeline-model-parallel-size 4
  --num-layers-per-virtual-pipeline-stage 5
  --sequence-parallel
  --use-distributed-optimizer
)
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py "${{MODEL_ARGS[@]}}" "${{PAR_ARGS[@]}}" {BATCH}
"""
TEXTS = f"""MODEL="
  {MODEL}"
PAR="--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --context-parallel-size 1
  --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer"
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py $MODEL $PAR {BATCH}
"""
CHUNKS = "--num-virtual-stages-per-pipeline-rank"
PER_CHUNK = "--num-layers-per-virtual-pipeline-stage"
HALF = {"tp": 4, "dp": 4, "num_microbatches": 64}


def read(folder: Path, text: str) -> LaunchQuestion:
    path = folder / "run.sh"
    path.write_text(text)
    return question_of_file(path, Given(cluster="8x8:h100"))


def patched(question: LaunchQuestion, **changes: Any) -> Patch:
    return patch_of(question, replace(question.plan, **changes), question.inputs)


def changed_lines(patch: Patch) -> list[str]:
    return [line for line in patch.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("split", "number", "layers"),
    [
        ("--decoder-first-pipeline-num-layers 26 --decoder-last-pipeline-num-layers 18", 20, 20),
        ("--decoder-first-pipeline-num-layers 26 --decoder-last-pipeline-num-layers 18", 26, 0),
        ("--pipeline-model-parallel-layout 'Et*18|t*20|t*24|t*18L'", 20, 20),
        ("--pipeline-model-parallel-layout 'Et*18|t*20|t*24|t*18L'", 24, 0),
        ("", 20, 0),
        ("", 19, 19),
    ],
)
def test_layers_that_are_recomputed_are_held_against_the_fullest_chunk(
    tmp_path: Path, split: str, number: int, layers: int
) -> None:
    """A stage of 26 layers of which 20 are recomputed was read, and priced, as if all of them were."""
    block = f"{split} --recompute-granularity full --recompute-method block --recompute-num-layers {number}"
    question = read(tmp_path, ARRAYS.replace(f"{PER_CHUNK} 5", block))
    assert question.plan.recompute.name == "FULL"
    assert question.plan.recompute_layers == layers


def test_chunks_stay_counted_as_the_file_counts_them(tmp_path: Path) -> None:
    patch = patched(read(tmp_path, ARRAYS), vpp=5)
    assert changed_lines(patch) == [f"-  {PER_CHUNK} 5", f"+  {PER_CHUNK} 4"]
    assert patch.settings == {PER_CHUNK: 4}


def test_without_interleaving_the_layers_of_a_chunk_go_with_their_line(tmp_path: Path) -> None:
    patch = patched(read(tmp_path, ARRAYS), vpp=1, schedule="1f1b", **HALF)
    assert changed_lines(patch) == [
        "-  --tensor-model-parallel-size 8",
        "+  --tensor-model-parallel-size 4",
        f"-  {PER_CHUNK} 5",
    ]
    assert patch.settings[PER_CHUNK] is None


def test_stages_of_unequal_layers_replace_the_layers_of_a_chunk(tmp_path: Path) -> None:
    ends = {"first_stage_layers": 19, "last_stage_layers": 19, "vpp": 1, "schedule": "1f1b"}
    patch = patched(read(tmp_path, TEXTS), **ends)
    assert "--decoder-first-pipeline-num-layers 19 --decoder-last-pipeline-num-layers 19" in patch.diff
    assert not any(PER_CHUNK in line for line in changed_lines(patch) if line.startswith("+"))


@pytest.mark.parametrize(("layers", "counted"), [(78, ""), (80, f"{CHUNKS} 3")])
def test_unequal_chunks_that_megatron_refuses_are_named_in_a_layout(tmp_path: Path, layers: int, counted: str) -> None:
    text = ARRAYS.replace("--num-layers 80", f"--num-layers {layers}").replace(f"{PER_CHUNK} 5", counted)
    question = read(tmp_path, text)
    assert [rule.name for rule in question.rules if not rule.kept]
    patch = patched(question, **HALF)
    assert "--pipeline-model-parallel-layout" in patch.settings
    assert "--pipeline-model-parallel-layout 'Et*" in patch.diff
    assert patch.settings.get(CHUNKS) is None


@pytest.mark.parametrize("text", [ARRAYS, TEXTS])
def test_flags_stand_where_their_like_stand(tmp_path: Path, text: str) -> None:
    patch = patched(read(tmp_path, text), tp=4, cp=2, context_exchange="all_gather")
    added = [line for line in changed_lines(patch) if line.startswith("+")]
    assert any("--context-parallel-size 2" in line for line in added)
    assert any("--cp-comm-type all_gather" in line for line in added)
    assert not any("--num-layers 80" in line or "--seq-length" in line for line in added)


def test_what_breaks_a_rule_is_listed_with_the_rule_and_is_no_patch(tmp_path: Path) -> None:
    question = read(tmp_path, ARRAYS.replace("--sequence-parallel", "--sequence-parallel\n  --tp-comm-overlap"))
    patch = patched(question, tp=1, sp=False, dp=16, num_microbatches=16)
    assert not patch.diff
    assert len(patch.besides) == 1
    assert "leave out --tp-comm-overlap with one tensor-parallel rank" in patch.besides[0]


def test_a_rule_that_the_file_breaks_already_stands_in_no_way(tmp_path: Path) -> None:
    question = read(tmp_path, ARRAYS.replace("CONNECTIONS=1", "CONNECTIONS=8"))
    assert [rule.name for rule in question.rules if not rule.kept] == ["one_connection"]
    assert "+  --tensor-model-parallel-size 4" in patched(question, **HALF).diff


def test_the_list_says_whether_the_file_computes_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    options = ("--from", str(path), "--cluster", "8x8:h100", "--tp", "4")
    path.write_text(ARRAYS.replace("parallel-size 8", "parallel-size $((4 + 4))"))
    assert "run.sh computes some of them or takes them from outside" in asked("explain", *options).out
    path.write_text(ARRAYS.replace("--sequence-parallel", "--tp-comm-overlap --sequence-parallel"))
    answer = asked("explain", *options[:-2], "--tp", "1").out
    assert "Change these by hand, in run.sh:" in answer
    assert "- leave out --sequence-parallel" in answer
    assert "leave out --tp-comm-overlap" in answer
