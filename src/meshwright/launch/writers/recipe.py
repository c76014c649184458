"""Recipe: Megatron-LM's arguments as a Python recipe of Megatron-Bridge, with what starts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meshwright.errors import Fault, InvalidSpec
from meshwright.launch.export import Launch
from meshwright.launch.forms import read_value
from meshwright.launch.spelling import Settings
from meshwright.launch.table import Value
from meshwright.launch.writers.comments import commented
from meshwright.launch.writers.start import batch_file, start_script, torchrun

FILE = "meshwright_plan.py"
IMPORTS = """\
import os

import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain
from megatron.core.activations import squared_relu
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.transformer.utils import openai_gelu
"""
HEAD = """\
def config():
    cfg = _pretrain_common()
    cfg.mixed_precision = get_mixed_precision_config("{half}_mixed")
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)
    cfg.ddp.use_distributed_optimizer = False
    cfg.optimizer.use_distributed_optimizer = False
    cfg.ddp.overlap_grad_reduce = False
    cfg.ddp.overlap_param_gather = False
    cfg.model = {provider}(
"""
TAIL = """\
    # FILL IN what the plan does not know: train.sh stops at the first that is missing.
    cfg.tokenizer.tokenizer_model = os.environ["TOKENIZER"]
    cfg.tokenizer.use_tokenizer_vocab_size = False
    cfg.dataset.blend = ([os.environ["DATA_PATH"]], None)
    cfg.train.train_iters = int(os.environ["STEPS"])
    cfg.optimizer.lr = float(os.environ["LEARNING_RATE"])
    cfg.checkpoint.save = cfg.checkpoint.load = os.environ["CHECKPOINTS"]
    return cfg


if __name__ == "__main__":
    pretrain(config(), forward_step)
"""


def recipe_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The recipe, the start script and the Slurm batch file, by name. notes: what all say first.

    Raises `InvalidSpec` for as many learned positions as a sequence has not: the provider takes its length for both.
    """
    learned, length = launch.inputs.model.learned_positions, launch.inputs.job.sequence_length
    if learned not in (0, length):
        fault = Fault("model.learned_positions", f"it has no setting for {learned}, and would run {length}")
        raise InvalidSpec(f"a launch of {launch.table.framework} ({launch.table.release}) with this plan", [fault])
    command = f'{torchrun(launch)}    "$HERE/{FILE}" "$@"'
    return {
        FILE: _recipe(launch, notes),
        "train.sh": start_script(launch, notes, command, launch.table.to_fill),
        "job.slurm": batch_file(launch, notes),
    }


def _recipe(launch: Launch, notes: Sequence[str]) -> str:
    settings, chunks = launch.settings, launch.plan.vpp
    assigned = dict(_assigned(launch))
    if chunks > 1:
        assigned["model.virtual_pipeline_model_parallel_size"] = str(chunks)
    if "--multi-latent-attention" in settings and "--q-lora-rank" not in settings:
        assigned["model.q_lora_rank"] = "None"
    assigned.setdefault("model.gradient_accumulation_fusion", "True")
    assigned["model.bias_activation_fusion"] = str(_fuses_activation(settings))
    half = "fp16" if "--fp16" in settings else "bf16"
    assigned["model.pipeline_dtype"] = "torch.half" if half == "fp16" else "torch.bfloat16"
    model = {key.partition(".")[2]: value for key, value in assigned.items() if key.startswith("model.")}
    provider = "MLAModelProvider" if "--multi-latent-attention" in settings else "GPTModelProvider"
    lines = [*commented(notes), "", IMPORTS, "", HEAD.format(half=half, provider=provider).rstrip()]
    lines += [f"        {name}={value}," for name, value in model.items()]
    lines += ["        should_pad_vocab=True,", "    )"]
    lines += [f"    cfg.{key} = {value}" for key, value in assigned.items() if not key.startswith("model.")]
    return "\n".join(lines) + "\n" + TAIL


def _fuses_activation(settings: Settings) -> bool:
    """Whether Megatron-core has one kernel for biases and activation: of gated ones, and of GELU with biases.

    Source: transformer_config.py of megatron-core 0.19.2, __post_init__, bias_activation_fusion.
    """
    gated, unfused = {"--swiglu", "--quick-geglu"}, {"--squared-relu", "--openai-gelu", "--disable-bias-linear"}
    return bool(gated & settings.keys()) or not unfused & settings.keys()


def _assigned(launch: Launch) -> Iterator[tuple[str, str]]:
    """Fields of the recipe with the Python of their values."""
    for key, value in launch.settings.items():
        if not key.startswith("--") or value is False:
            continue
        own = "model." + key.removeprefix("--").replace("-", "_")
        targets = launch.table.recipe.get(f"{key} {value}") or launch.table.recipe.get(key, (own,))
        for target in targets:
            name, _, expression = target.partition(" = ")
            yield name, expression or _python(key, value)


def _python(key: str, value: Value) -> str:
    """A value as Python: counts of a pair or a list as such, marks of layers as the list that they are."""
    text: Any = value
    if key in ("--moe-layer-freq", "--window-attn-skip-freq"):
        return repr(list(read_value("layer_marks", key, value)))
    if key == "--window-size":
        return f"({str(value).replace(',', ', ')})"
    if key == "--hierarchical-context-parallel-sizes":
        return repr([int(each) for each in str(value).split()])
    return repr(text)
