"""Full weights in the host's memory: launch files ask for it, and are read as they were priced."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.launch.export import export
from meshwright.launch.fields import differences
from meshwright.launch.imports.question import Given, question_of_file
from meshwright.launch.writers import files_of
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from strategies import llama_8b, question

FILES = {
    "accelerate": ("accelerate.yaml", "fsdp_offload_params: true"),
    "torchtitan": ("meshwright_plan.py", "enable_cpu_offload=True"),
}
SAID = {"job.sequence_length": "4096", "job.global_batch": "16", "plan.micro_batch": "2"}


@pytest.mark.parametrize("framework", FILES)
@pytest.mark.parametrize("gpus", [1, 8])
def test_what_is_written_is_read_as_offloaded(framework: str, gpus: int, tmp_path: Path) -> None:
    name, setting = FILES[framework]
    usual = question(llama_8b(), f"1x{gpus}:h100", framework, global_batch=16)
    inputs = usual.replace(runtime=with_behaviours(usual.runtime, ["optimizer_states=offloaded"]))
    plan = Plan(dp=gpus, zero=3, micro_batch=2, num_microbatches=8 // gpus, recompute=Recompute.FULL)
    written = files_of(export(plan, inputs, framework), [])
    (tmp_path / name).write_text(written[name])
    assert setting in written[name]
    assert setting not in files_of(export(plan, usual, framework), [])[name]
    said = SAID if framework == "accelerate" else {}
    given = Given(cluster=f"1x{gpus}:h100", model="llama-3.1-8b", runtime=framework, values=said)
    read = question_of_file(tmp_path / name, given)
    assert differences(plan, inputs, read.plan, read.inputs) == []
    assert read.inputs.runtime.storage.offloads_weights
    assert not [note for note in read.notes if note.startswith("priced as if")]
    assert not read.understood.unpriced


def test_axolotl_asks_for_it_too(tmp_path: Path) -> None:
    text = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\nbf16: true\n"
    section = "gradient_accumulation_steps: 1\nfsdp_version: 2\nfsdp_config: {offload_params: true}\n"
    (tmp_path / "a.yaml").write_text(text + section)
    read = question_of_file(tmp_path / "a.yaml", Given(cluster="1x8:h100"))
    assert read.inputs.runtime.storage.offloads_weights
