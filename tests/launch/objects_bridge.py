"""Run recipes of Megatron-Bridge and read them back, without a GPU. argv: a JSON file of {"folder", "ranks",
"capability"}; prints JSON.

Transformer Engine and other packages that want a GPU are stand-ins. One process a recipe, because Megatron-core keeps
what was set.
"""

from __future__ import annotations

import inspect
import os
import runpy
from dataclasses import fields
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from objects import bare, in_a_process, print_answers, stand_in, started
from objects_megatron import DEVICE, layers_of, pretend, recomputation

ABSENT = (
    "transformer_engine",
    "transformer_engine_torch",
    "datasets",
    "megatron.energon",
    "PIL",
    "torch.utils.tensorboard",
    "modelopt",
    "nvidia_resiliency_ext",
)
PACKAGES = ("megatron.bridge", "megatron.bridge.recipes")
FILLED = {"TOKENIZER": "gpt2", "DATA_PATH": "/data", "STEPS": "1000", "LEARNING_RATE": "1e-5", "ROTARY_BASE": "500000"}
FILLED |= {"NORM_EPSILON": "1e-5", "ROPE_TYPE": "yarn", "ROTARY_SCALING_FACTOR": "40", "CHECKPOINTS": "/checkpoints"}
FILLED |= {"PRETRAINED": str(Path(__file__).parent)}
FILLED |= {"ROUTER": '{"moe_router_pre_softmax": true}'}


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-Bridge makes of one recipe."""
    from megatron.bridge.training.config import runtime_config_update
    from megatron.bridge.training.optim import _get_scheduler
    from megatron.core.num_microbatches_calculator import get_num_microbatches, init_num_microbatches_calculator

    if "fields" in case:
        return {"unknown": unknown_fields(case["fields"])}
    DEVICE.major = int(case["capability"])
    folder = Path(case["folder"])
    _, variables = started(folder, "meshwright_plan.py", FILLED)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(FILLED | variables, WORLD_SIZE=str(case["ranks"]), RANK="0")
    config = runpy.run_path(str(folder / "meshwright_plan.py"))["config"]()
    runtime_config_update(config)
    _get_scheduler(config.optimizer, config.scheduler, SimpleNamespace(param_groups=[]))
    model, train, ddp = config.model, config.train, config.ddp
    batches = train.global_batch_size, train.micro_batch_size
    init_num_microbatches_calculator(0, train.rampup_batch_size, *batches, config.data_parallel_size, False)
    half = "fp16" if model.fp16 else "bf16" if model.bf16 else "fp32"
    return {
        "tp": model.tensor_model_parallel_size,
        "cp": model.context_parallel_size,
        "pp": model.pipeline_model_parallel_size,
        "dp": config.data_parallel_size,
        "dp_replicate": ddp.num_distributed_optimizer_instances,
        "ep": model.expert_model_parallel_size,
        "etp": model.expert_tensor_parallel_size,
        "sp": bool(model.sequence_parallel),
        "micro_batch": train.micro_batch_size,
        "num_microbatches": get_num_microbatches(),
        "global_batch": train.global_batch_size,
        "layers": layers_of(model, model),
        "layer_kinds": kinds_of(model),
        "precision": half,
        "number_format": number_format(model) or half,
        "gradients": "fp32" if ddp.grad_reduce_in_fp32 else half,
        **recomputation(model),
        "zero": {"optim_grads": 2, "optim_grads_params": 3}[ddp.data_parallel_sharding_strategy]
        if ddp.use_megatron_fsdp
        else int(config.optimizer.use_distributed_optimizer),
        "hidden_size": model.hidden_size,
        "heads": model.num_attention_heads,
        "vocab_size": model.vocab_size,
        "lora_rank": config.peft.dim if config.peft else 0,
        **({"adapters": [type(config.peft).__name__, *config.peft.target_modules]} if config.peft else {}),
    }


def kinds_of(model: Any) -> list[tuple[bool, bool]]:
    """Of every layer that the provider builds, whether its attention is latent and whether it has experts; the chunks
    of all ranks one after the other.
    """
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    stages, chunks = model.pipeline_model_parallel_size, model.virtual_pipeline_model_parallel_size
    kinds, spec = [], model.transformer_layer_spec
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks)
    for chunk, stage in product(range(chunks) if chunks else [None], range(stages)):
        parallel_state.set_pipeline_model_parallel_rank(stage)
        if "vp_stage" in inspect.signature(spec).parameters:
            layers = spec(model, vp_stage=chunk).layer_specs
        else:
            layers = [spec(model)] * get_num_layers_to_build(model, vp_stage=chunk)
        kinds += [_kind(layer.submodules) for layer in layers]
    return kinds


def _kind(layer: Any) -> tuple[bool, bool]:
    return layer.self_attention.module.__name__ == "MLASelfAttention", "MoELayer" in str(layer.mlp)


def unknown_fields(names: list[str]) -> list[str]:
    """Fields of a recipe that Megatron-Bridge has not; a section of a model with latent attention, which has all."""
    from megatron.bridge.models.mla_provider import MLAModelProvider
    from megatron.bridge.recipes.common import _pretrain_common
    from megatron.bridge.training.comm_overlap import CommOverlapConfig
    from megatron.bridge.training.mixed_precision import get_mixed_precision_config

    config = _pretrain_common()
    config.model, config.comm_overlap = MLAModelProvider, CommOverlapConfig(tp_comm_overlap=False)
    config.mixed_precision = get_mixed_precision_config("bf16_mixed")
    sections = {name: getattr(config, name.partition(".")[0], None) for name in names}
    known = {name: {each.name for each in fields(section)} if section else set() for name, section in sections.items()}
    return [name for name in names if name.partition(".")[2] not in known[name]]


def number_format(model: Any) -> str:
    """The 8- or 4-bit numbers of a model's products by the name of their recipe, or nothing."""
    eight = {None: "", "tensorwise": "fp8", "blockwise": "fp8-blockwise", "mxfp8": "mxfp8", "delayed": "fp8-delayed"}
    return {None: "", "nvfp4": "nvfp4"}[model.fp4 and model.fp4_recipe] or eight[model.fp8 and model.fp8_recipe]


def enter() -> None:
    """Import Megatron-Bridge once, before the processes part, with stand-ins for what is not there."""
    stand_in(*ABSENT)
    bare(*PACKAGES)
    pretend()
    import megatron.bridge.recipes.common
    import megatron.bridge.training.gpt_step
    import megatron.bridge.training.pretrain  # noqa: F401


if __name__ == "__main__":
    print_answers(in_a_process(read), enter)
