"""Pipeline schedules as files of torchtitan and of the zero-bubble fork name them, and what is not modelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.layout.legality import faults

TOML = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
global_batch_size = 64
seq_len = 8192
[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "ZBVZeroBubble"
[activation_checkpoint]
mode = "none"
"""

FORK = """torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
    --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 32 \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --untie-embeddings-and-output-weights --bf16 \\
    --no-overlap-p2p-communication --zero-bubble-max-pending-backward 4 --enable-zb-runtime --enable-zero-bubble"""


def imported(folder: Path, text: str = TOML, name: str = "train.toml") -> LaunchQuestion:
    path = folder / name
    path.write_text(text)
    return question_of_file(path, Given(cluster="2x8:h100" if name == "train.toml" else "h100"))


def test_a_file_without_compilation_is_priced_without(tmp_path: Path) -> None:
    """A schedule that splits the backward pass runs beside such layers alone."""
    question = imported(tmp_path)
    assert str(question.plan).endswith("zb-v")
    assert question.inputs.runtime.kernels.cross_entropy == "eager"
    assert not faults(question.plan, question.inputs)
    compiled = imported(tmp_path, TOML + "[compile]\nenable = true\n")
    assert compiled.inputs.runtime.kernels.cross_entropy == "compiled"
    (fault,) = faults(compiled.plan, compiled.inputs)
    assert "cannot do with compiled layers" in str(fault)


def test_a_schedule_in_a_file_of_its_own_is_refused(tmp_path: Path) -> None:
    listed = TOML.replace('schedule = "ZBVZeroBubble"', 'schedule_csv = "order.csv"')
    with pytest.raises(InvalidInput, match=r"line 11: parallelism\.pipeline_parallel_schedule_csv is of pipeline sch"):
        imported(tmp_path, listed)
    assert imported(tmp_path, listed.replace("order.csv", "")).plan.pp == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--num-seq-splits 4", "--num-seq-splits is of pipelines along which sequences are cut"),
        ("--interleave-group-size 2", "--interleave-group-size is of pipelines whose chunks are"),
        ("--recompute-granularity full --recompute-method chunk --recompute-num-layers 2", "--recompute-method chunk"),
    ],
)
def test_schedules_of_the_fork_that_are_not_modelled_are_refused(tmp_path: Path, options: str, message: str) -> None:
    assert imported(tmp_path, FORK, "run.sh").plan.schedule.record.name == "zb-1p"
    with pytest.raises(InvalidInput, match=message):
        imported(tmp_path, f"{FORK} {options}", "run.sh")
    plain = f"{FORK} --num-seq-splits 1 --interleave-group-size 0 --offload-chunk-num 1"
    question = imported(tmp_path, plain, "run.sh")
    assert (question.dialect.name, question.plan.pp) == ("zero-bubble", 4)
    assert "--offload-chunk-num" in question.understood.unpriced
