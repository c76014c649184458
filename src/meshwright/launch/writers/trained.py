"""Trained: a configuration beside a training script of our own, where micro-batches and the model are the script's."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from meshwright.launch.attention import windows_as_masks
from meshwright.launch.export import Launch
from meshwright.launch.writers.comments import commented
from meshwright.launch.writers.start import ADDRESS, batch_file, start_script, torchrun
from meshwright.launch.writers.trees import json_text, yaml_text
from meshwright.layout.plan import FULLY_SHARDED
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.weights import parameter_count
from meshwright.units import format_gib

TEMPLATES = resources.files("meshwright.launch.writers") / "templates"
_OF_THE_SCRIPT = ("model.", "plan.", "job.", "runtime.")
EFFICIENT_LOADING = "fsdp_config.fsdp_cpu_ram_efficient_loading"
"""With it the first process alone makes the weights."""
ACCELERATE = (
    'accelerate launch --config_file "$HERE/accelerate.yaml" \\\n'
    '    --num_machines "${{NNODES:-{nodes}}}" --machine_rank "${{NODE_RANK:-0}}" \\\n'
    f"    --main_process_ip {ADDRESS[0]} --main_process_port {ADDRESS[1]} \\\n"
)


def trained_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The configuration, the training script, the start script and the Slurm batch file, by name.

    notes: what all say first.
    """
    notes = [*notes, *_host_memory(launch), *_masked_windows(launch)]
    name, text = launch.table.configuration, yaml_text if launch.table.file == "yaml" else json_text
    own = {key: value for key, value in launch.settings.items() if not key.startswith(_OF_THE_SCRIPT)}
    command = torchrun(launch) if launch.table.launcher == "torchrun" else ACCELERATE.format(nodes=launch.nodes)
    return {
        name: text(own, notes),
        "train.py": _script(launch, notes),
        "train.sh": start_script(launch, notes, f'{command}    "$HERE/train.py" "$@"', launch.to_fill),
        "job.slurm": batch_file(launch, notes),
    }


def _host_memory(launch: Launch) -> list[str]:
    """What the hosts need before ranks share the model, where a process makes all of it: packed weights are made on the
    device.
    """
    if launch.inputs.packs_weights or (launch.table.made_sharded and launch.plan.zero == FULLY_SHARDED):
        return []
    half = HALF_BYTES, launch.inputs.recipe.half
    in_fp32 = launch.table.made_in == "fp32" and not launch.inputs.freezes_weights
    each, dtype = (FP32_BYTES, "fp32") if in_fp32 else half
    whole = each * parameter_count(launch.inputs.model)
    if launch.settings.get(EFFICIENT_LOADING):
        return [f"Host memory: {format_gib(whole)} a node, where one process makes the whole model in {dtype}."]
    ranks = launch.ranks_per_node
    return [
        f"Host memory: {format_gib(ranks * whole)} a node. Each of its processes first makes the whole model there in "
        f"{dtype}, {format_gib(whole)}; processes a node: {ranks}."
    ]


def _masked_windows(launch: Launch) -> list[str]:
    """What windows cost beyond the prediction, where PyTorch gets them as masks.

    Source: transformers 5.23.0 integrations/sdpa_attention.py, sdpa_attention_forward: kernels of FlashAttention and
    cuDNN take the flag `is_causal` and no mask.
    """
    if not windows_as_masks(launch.inputs, launch.table):
        return []
    return [
        "Attention windows: transformers passes them to scaled_dot_product_attention as a mask, which its kernels of "
        "FlashAttention and cuDNN do not take. Layers with windows take longer than predicted. "
        "--with attention_kernel=flash-2 prices and writes FlashAttention-2, which has windows."
    ]


def _script(launch: Launch, notes: Sequence[str]) -> str:
    template = (TEMPLATES / f"{launch.name}.py.txt").read_text("utf-8")
    head = [*commented(notes), "", "# The plan, which the configuration beside this script shares."]
    lines = [*head, *(f"{name} = {_written(launch, field)!r}" for name, field in launch.table.script.items())]
    return "\n".join(lines) + "\n\n" + template


def _written(launch: Launch, field: str) -> Any:
    """The value of a field as the framework has it."""
    return launch.settings.get(launch.table.rows[field].key, launch.fields[field])
