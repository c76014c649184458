"""Trained: a configuration beside a training script of our own, where micro-batches and the model are the script's."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from meshwright.launch.export import Launch
from meshwright.launch.writers.comments import commented
from meshwright.launch.writers.start import ADDRESS, batch_file, start_script, torchrun
from meshwright.launch.writers.trees import json_text, yaml_text
from meshwright.specs.precision import FP32_BYTES
from meshwright.specs.weights import parameter_count
from meshwright.units import format_gib

TEMPLATES = resources.files("meshwright.launch.writers") / "templates"
CONFIGURATIONS = {"deepspeed": "deepspeed.json", "accelerate": "accelerate.yaml"}
ACCELERATE = (
    'accelerate launch --config_file "$HERE/accelerate.yaml" \\\n'
    '    --num_machines "${{NNODES:-{nodes}}}" --machine_rank "${{NODE_RANK:-0}}" \\\n'
    f"    --main_process_ip {ADDRESS[0]} --main_process_port {ADDRESS[1]} \\\n"
)


def trained_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The configuration, the training script, the start script and the Slurm batch file, by name.

    notes: what all say first.
    """
    notes = [*notes, *_host_memory(launch)]
    name, text = CONFIGURATIONS[launch.name], yaml_text if launch.table.file == "yaml" else json_text
    own = {key: value for key, value in launch.settings.items() if not key.startswith(("plan.", "job.", "runtime."))}
    command = torchrun(launch) if launch.name == "deepspeed" else ACCELERATE.format(nodes=launch.nodes)
    return {
        name: text(own, notes),
        "train.py": _script(launch, notes),
        "train.sh": start_script(launch, notes, f'{command}    "$HERE/train.py" "$@"', launch.to_fill),
        "job.slurm": batch_file(launch, notes),
    }


def _host_memory(launch: Launch) -> list[str]:
    """What the hosts need before ranks share the model, where every process makes all of it."""
    if launch.name != "accelerate" or launch.plan.tp > 1:
        return []
    whole, ranks = FP32_BYTES * parameter_count(launch.inputs.model), launch.ranks_per_node
    return [
        f"Host memory: {format_gib(ranks * whole)} a node. Each of its processes first makes the whole model there in "
        f"fp32, {format_gib(whole)}; processes a node: {ranks}."
    ]


def _script(launch: Launch, notes: Sequence[str]) -> str:
    template = (TEMPLATES / f"{launch.name}.py.txt").read_text("utf-8")
    head = [*commented(notes), "", "# The plan, which the configuration beside this script shares."]
    lines = [*head, *(f"{name} = {launch.fields[field]!r}" for name, field in launch.table.script.items())]
    return "\n".join(lines) + "\n\n" + template
