"""Recipe: Megatron-LM's arguments as a Python recipe of Megatron-Bridge, with what starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from meshwright.errors import InvalidSpec
from meshwright.launch.export import Launch
from meshwright.launch.forms import read_value
from meshwright.launch.framework import Value
from meshwright.launch.refusals import refusal
from meshwright.launch.spelling import Settings
from meshwright.launch.writers.comments import commented, used_imports
from meshwright.launch.writers.start import batch_file, start_script, torchrun

STANDARD = "import json\nimport os\nimport sys\nfrom functools import partial"
IMPORTS = """\
import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.peft.canonical_lora import CanonicalLoRA
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.recipes.common import _pretrain_common
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain
from megatron.core.activations import squared_relu
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer.utils import openai_gelu
"""
HEAD = """\
def config():
    cfg = _pretrain_common()
    cfg.mixed_precision = get_mixed_precision_config("{half}_mixed")
"""
ON_UNLESS_SAID = (
    "ddp.use_distributed_optimizer",
    "optimizer.use_distributed_optimizer",
    "ddp.overlap_grad_reduce",
    "ddp.overlap_param_gather",
)
"""What `_pretrain_common` switches on."""
PLACES = {
    "ROTARY_BASE": 'rotary_base=float(os.environ["ROTARY_BASE"])',
    "NORM_EPSILON": 'layernorm_epsilon=float(os.environ["NORM_EPSILON"])',
    "ROPE_TYPE": 'rope_type=os.environ["ROPE_TYPE"]',
    "ROTARY_SCALING_FACTOR": 'rotary_scaling_factor=float(os.environ["ROTARY_SCALING_FACTOR"])',
    "ROUTER": '**(json.loads(os.environ["ROUTER"]) or sys.exit("ROUTER is empty: nothing would balance the experts"))',
}
"""What the provider is given of what a plan does not know."""
YARN = ("--rotary-scaling-factor", "--mscale", "--mscale-all-dim")
"""Of scaled positions, which GPTModelProvider has with `yarn_` before; MLAModelProvider has them as they are."""
YARN_UNLESS_SAID = {
    "model.yarn_rotary_scaling_factor": "1.0",
    "model.yarn_original_max_position_embeddings": "4096",
    "model.yarn_beta_fast": "32.0",
    "model.yarn_beta_slow": "1.0",
    "model.yarn_correction_range_round_to_int": "True",
}
"""What Megatron-LM takes (argument_utils.py, _apply_yarn_config_from_args) where GPTModelProvider has None, with which
YarnRotaryEmbedding cannot calculate."""
TAIL = """\
    # FILL IN what the plan does not know: train.sh stops at the first that is missing.
    cfg.tokenizer.tokenizer_model = os.environ["TOKENIZER"]
    cfg.tokenizer.use_tokenizer_vocab_size = False
    cfg.dataset.blend = ([os.environ["DATA_PATH"]], None)
    cfg.train.train_iters = int(os.environ["STEPS"])
    cfg.optimizer.lr = float(os.environ["LEARNING_RATE"])
    cfg.optimizer.min_lr = min(cfg.optimizer.min_lr, cfg.optimizer.lr)
    cfg.checkpoint.save = cfg.checkpoint.load = os.environ["CHECKPOINTS"]
{pretrained}    return cfg


if __name__ == "__main__":
    {train}(config(), forward_step)
"""
PRETRAINED = '    cfg.checkpoint.pretrained_checkpoint = os.environ["PRETRAINED"]\n'
RANK, MODULES, CANONICAL = "peft.dim", "peft.target_modules", "peft.canonical"


def recipe_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The recipe, the start script and the Slurm batch file, by name. notes: what all say first.

    Raises `InvalidSpec` for as many learned positions as a sequence has not: the provider takes its length for both.
    """
    learned, length = launch.inputs.model.learned_positions, launch.inputs.job.sequence_length
    if learned not in (0, length):
        fault = refusal("model.learned_positions", length, learned)
        raise InvalidSpec(f"a launch of {launch.table.framework} ({launch.table.release}) with this plan", [fault])
    command = f"{torchrun(launch)}    {launch.table.start}"
    return {
        launch.table.configuration: _recipe(launch, notes),
        "train.sh": start_script(launch, notes, command, launch.to_fill),
        "job.slurm": batch_file(launch, notes),
    }


def _recipe(launch: Launch, notes: Sequence[str]) -> str:
    settings, fields = launch.settings, _fields(launch)
    half = "fp16" if "--fp16" in settings else "bf16"
    provider = "MLAModelProvider" if "--multi-latent-attention" in settings else "GPTModelProvider"
    lines = [HEAD.format(half=half).rstrip(), *_call("comm_overlap", "CommOverlapConfig", fields)]
    lines += _call("model", provider, fields, [text for name, text in PLACES.items() if name in launch.to_fill])
    others = {key: value for key, value in fields.items() if key.partition(".")[0] not in ("comm_overlap", "model")}
    lines += [f"    cfg.{key} = {value}" for key, value in others.items()]
    tail = TAIL.replace("{pretrained}", "").replace("{train}", "pretrain")
    if RANK in settings:
        lines += _adapters(settings)
        tail = TAIL.replace("{pretrained}", PRETRAINED).replace("{train}", "finetune")
    body = "\n".join(lines) + "\n" + tail
    parts = [used_imports(each, body) for each in (STANDARD, IMPORTS)]
    return "\n".join([*commented(notes), "", *parts[0], "", *parts[1], "", "", body])


def _adapters(settings: Settings) -> list[str]:
    """The adapters of the recipe; the scale of their outputs is that of Megatron-Bridge."""
    kind = "CanonicalLoRA" if settings.get(CANONICAL) else "LoRA"
    return [f"    cfg.peft = {kind}(target_modules={settings[MODULES]!r}, dim={settings[RANK]})"]


def _call(name: str, called: str, fields: Mapping[str, str], more: Sequence[str] = ()) -> list[str]:
    """An object of the recipe, made with the fields that are its own."""
    own = [f"{key.partition('.')[2]}={value}" for key, value in fields.items() if key.startswith(f"{name}.")]
    return [f"    cfg.{name} = {called}(", *(f"        {each}," for each in (*own, *more)), "    )"]


def _fields(launch: Launch) -> dict[str, str]:
    """Every field that the recipe sets, with the Python of its value."""
    settings, chunks = launch.settings, launch.plan.vpp
    fields = {
        "comm_overlap.tp_comm_overlap": "False",
        **dict.fromkeys(ON_UNLESS_SAID, "False"),
        **dict(_assigned(launch)),
    }
    if chunks > 1:
        fields["model.virtual_pipeline_model_parallel_size"] = str(chunks)
    if "--multi-latent-attention" in settings and "--q-lora-rank" not in settings:
        fields["model.q_lora_rank"] = "None"
    if settings.get("--position-embedding-type") == "yarn":
        fields = YARN_UNLESS_SAID | fields
    if "ROPE_TYPE" in launch.to_fill:
        fields["model.apply_rope_fusion"] = 'os.environ["ROPE_TYPE"] == "yarn"'
    fields.setdefault("model.gradient_accumulation_fusion", "True")
    if "--num-experts" in settings:
        fields.setdefault("model.moe_permute_fusion", "False")
        fields.setdefault("model.moe_grouped_gemm", "False")
    fields.setdefault("model.bias_activation_fusion", str(_fuses_activation(settings)))
    fields["model.pipeline_dtype"] = "torch.half" if "--fp16" in settings else "torch.bfloat16"
    return fields | {"model.should_pad_vocab": "True"}


def _fuses_activation(settings: Settings) -> bool:
    """Whether Megatron-core has one kernel for biases and activation: of gated ones, and of GELU with biases.

    Source: transformer_config.py of megatron-core 0.19.2, __post_init__, bias_activation_fusion.
    """
    gated, unfused = {"--swiglu", "--quick-geglu"}, {"--squared-relu", "--openai-gelu", "--disable-bias-linear"}
    return bool(gated & settings.keys()) or not unfused & settings.keys()


def _assigned(launch: Launch) -> Iterator[tuple[str, str]]:
    """Fields of the recipe with the Python of their values."""
    for key, value in launch.settings.items():
        if key.startswith("model."):
            yield key, str(value)
        if not key.startswith("--") or value is False:
            continue
        prefixed = key in YARN and "--multi-latent-attention" not in launch.settings
        for target in launch.table.recipe_targets(f"--yarn-{key.removeprefix('--')}" if prefixed else key, value):
            name, _, expression = target.partition(" = ")
            yield name, expression or _python(key, value)


def _python(key: str, value: Value) -> str:
    """A value as Python: counts of a pair or a list as such, marks of layers as the list that they are."""
    text: Any = value
    if key in ("--moe-layer-freq", "--window-attn-skip-freq"):
        runs = [(mark, len(list(same))) for mark, same in groupby(read_value("layer_marks", key, value))]
        return " + ".join(f"[{mark}] * {count}" for mark, count in runs)
    if key == "--window-size":
        return f"({str(value).replace(',', ', ')})"
    if key == "--hierarchical-context-parallel-sizes":
        return repr([int(each) for each in str(value).split()])
    return repr(text)
