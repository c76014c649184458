"""Kernels that a question replaced: written where files can ask for them, refused where they would run others."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import asked
from meshwright.answers.launch.files import launch_files
from meshwright.errors import InvalidSpec
from meshwright.launch.export import export
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.table import launch_table, launch_tables
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import question

PLAN = Plan(dp=8, zero=3, num_microbatches=8)
LOSSES = ["chunked_compiled", "compiled", "chunked", "eager"]


def _asked(runtime: str, *behaviours: str) -> Inputs:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", runtime, global_batch=64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, list(behaviours)))


@pytest.mark.parametrize(
    ("runtime", "change", "instead"),
    [
        ("accelerate", "cross_entropy=chunked", "the cross-entropy chunked, and would run eager"),
        ("accelerate", "cross_entropy=in_place", "the cross-entropy in_place, and would run eager"),
        ("accelerate", "compiled=true", "element-wise kernels fused, and would run transformers"),
        ("deepspeed", "elementwise=eager", "element-wise kernels eager, and would run transformers"),
        ("torchtitan", "cross_entropy=fused", "the cross-entropy fused, and would run eager, compiled, chunked or"),
        ("megatron-bridge", "cross_entropy=unfused", "the cross-entropy unfused, and would run fused"),
    ],
)
def test_kernels_that_files_cannot_ask_for_are_refused(runtime: str, change: str, instead: str) -> None:
    with pytest.raises(InvalidSpec, match=instead):
        export(PLAN, _asked(runtime, change), read_runtime(runtime).launch)


@pytest.mark.parametrize("model", ["compiled=true", "compiled=false"])
@pytest.mark.parametrize("loss", LOSSES)
def test_torchtitan_compiles_what_is_priced_as_compiled(model: str, loss: str, tmp_path: Path) -> None:
    inputs = _asked("torchtitan", model, f"cross_entropy={loss}")
    folder = tmp_path / "run"
    folder.mkdir()
    for name, text in launch_files(PLAN, inputs, "torchtitan").files.items():
        (folder / name).write_text(text, "utf-8")
    read = question_of_file(folder, Given(cluster="1x8:h100")).inputs.runtime.kernels
    assert (read.cross_entropy, read.elementwise) == (loss, inputs.runtime.kernels.elementwise)


def test_losses_that_are_offered_can_be_launched() -> None:
    for name in catalog.names("runtimes"):
        runtime = read_runtime(name)
        if runtime.launch in launch_tables():
            run = launch_table(runtime.launch).kernels["cross_entropy"].keys()
            assert {runtime.kernels.cross_entropy, *runtime.kernels.other_cross_entropies} <= run


def test_a_ranking_of_changes_names_no_loss_that_files_refuse() -> None:
    words = (
        "explain",
        "llama-3.1-8b",
        "1x8:h100",
        "--runtime",
        "accelerate",
        "--seq-len",
        "8192",
        "--global-batch",
        "64",
    )
    assert "cross_entropy" not in asked(*words, "--zero", "3", "--micro-batch", "1", "--more").out
