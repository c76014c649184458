"""Python: a configuration module of torchtitan, with what starts it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshwright.launch.export import Launch
from meshwright.launch.registry import rotary_changes
from meshwright.launch.writers.comments import commented, used_imports
from meshwright.launch.writers.start import batch_file, start_script, torchrun

STANDARD = "import os\nfrom dataclasses import replace"
IMPORTS = """\
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.quantization import Float8GroupedExpertsConverter, Float8LinearConverter
from torchtitan.components.quantization import MXFP8GroupedExpertsConverter, MXFP8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.{family} import model_registry
from torchtitan.trainer import Trainer
"""
LOSSES = {
    "ChunkedLossWrapper": "ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config({vocabulary}))",
    "CrossEntropyLoss": "CrossEntropyLoss.Config({vocabulary})",
}
VOCABULARY = "global_vocab_size=decoder_vocab_size(model_spec)"
CONVERTERS = {
    "none": [],
    "float8 rowwise": ["Float8LinearConverter.Config(filter_fqns={kept}, model_compile_enabled={compiled})"],
    "mxfp8": [
        "MXFP8LinearConverter.Config(fqns=['attention', 'feed_forward', 'shared_experts'], "
        "model_compile_enabled={compiled})"
    ],
}
EXPERTS = {
    "none": [],
    "float8 rowwise": ["Float8GroupedExpertsConverter.Config(model_compile_enabled={compiled})"],
    "mxfp8": ["MXFP8GroupedExpertsConverter.Config(model_compile_enabled={compiled})"],
}
"""What quantises the products of experts, which are no linear layers."""
KEPT, ROUTER = ["lm_head"], ["router.gate"]
"""Linear layers that stay in bf16, of every model and of those with experts (models/deepseek_v3/config_registry.py)."""
FILLED = {"hf_assets_path": "HF_ASSETS_PATH", "dataloader.dataset": "DATASET", "training.steps": "STEPS"}
"""Variables of the environment that hold what a plan does not know."""
OWN = {"LEARNING_RATE": "learning rate", "CHECKPOINTS": "folder of checkpoints"}
ENVIRONMENT = """\
export PYTHONPATH="$HERE:${PYTHONPATH:-}"
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
"""
ROTARY = """\
    for layer in model_spec.model.layers:  # {why}
        layer.attention.rope = replace(layer.attention.rope, {changes})"""
SECTIONS = {"parallelism": "ParallelismConfig", "training": "TrainingConfig", "compile": "CompileConfig"}


def python_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The configuration module, the start script and the Slurm batch file, by name. notes: what all say first."""
    command = f"{ENVIRONMENT}{torchrun(launch)}    {launch.table.start}"
    asked = {name: launch.to_fill[key] for key, name in FILLED.items()} | OWN
    return {
        launch.table.configuration: _module(launch, notes),
        "train.sh": start_script(launch, notes, command, asked),
        "job.slurm": batch_file(launch, notes),
    }


def _module(launch: Launch, notes: Sequence[str]) -> str:
    settings = launch.settings
    family, flavor = str(settings["model_spec"]).split()
    options = _converters(launch)
    if exchange := settings.get("model_spec.moe_comm_backend"):
        options = f', moe_comm_backend="{exchange}"{options}'
    options = f', attn_backend="{settings["model_spec.attn_backend"]}"{options}'
    recompute = settings["activation_checkpoint"]
    lines = ["def plan() -> Trainer.Config:", f'    model_spec = model_registry("{flavor}"{options})']
    lines += _rotary(launch, family)
    lines += ["    return Trainer.Config(", "        model_spec=model_spec,"]
    lines += [f"        loss={LOSSES[str(settings['loss'])].format(vocabulary=VOCABULARY)},"]
    for section, kind in SECTIONS.items():
        lines += _section(section, kind, settings)
    lines += [f"        activation_checkpoint={recompute}{'' if recompute == 'None' else '.Config()'},"]
    lines += ["        # FILL IN what the plan does not know: train.sh stops at the first that is missing."]
    lines += ['        optimizer=default_adamw(lr=float(os.environ["LEARNING_RATE"])),']
    lines += [
        '        checkpoint=CheckpointManager.Config(enable=True, folder=os.environ["CHECKPOINTS"], interval=1000),'
    ]
    lines += ['        hf_assets_path=os.environ["HF_ASSETS_PATH"],  # folder of the tokenizer']
    lines += ['        dataloader=HuggingFaceTextDataLoader.Config(dataset=os.environ["DATASET"]),', "    )", ""]
    body = "\n".join(lines)
    parts = [used_imports(each, body) for each in (STANDARD, IMPORTS.format(family=family))]
    return "\n".join([*commented(notes), "", *parts[0], "", *parts[1], "", "", body])


def _converters(launch: Launch) -> str:
    """The argument that quantises the products of the model, or nothing."""
    settings, experts = launch.settings, launch.inputs.model.is_moe
    name, compiled = str(settings["model_spec.converters"]), "compile.enable" in settings
    made = CONVERTERS[name] + (EXPERTS[name] if experts else [])
    kept = KEPT + (ROUTER if experts else [])
    return f", converters=[{', '.join(each.format(kept=kept, compiled=compiled) for each in made)}]" if made else ""


def _rotary(launch: Launch, family: str) -> list[str]:
    """Rotary positions of the model or the job that the registry has otherwise."""
    positions, length = launch.table.registered_positions[family], launch.inputs.job.sequence_length
    scaled = rotary_changes(launch.inputs.model, launch.table, str(launch.settings["model_spec"]))
    reasons = ["the registry has other rotary positions than the model's config.json"] if scaled else []
    if length > positions:
        reasons.append(f"the registry has {positions} positions, and refuses longer sequences")
        scaled["max_seq_len"] = length
    changes = ", ".join(f"{name}={value!r}" for name, value in scaled.items())
    return [ROTARY.format(why="; ".join(reasons), changes=changes)] if scaled else []


def _section(section: str, kind: str, settings: dict[str, Any]) -> list[str]:
    inside = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith(f"{section}.")}
    if not inside:
        return []
    lines = [f"        {section}={kind}("]
    for name, value in inside.items():
        if name == "module_fqns_per_model_part":
            lines += [f"            {name}=[", *(f"                {part!r}," for part in value), "            ],"]
        else:
            lines.append(f"            {name}={value!r},")
    if section == "training":
        lines.append('            steps=int(os.environ["STEPS"]),')
    return [*lines, "        ),"]
