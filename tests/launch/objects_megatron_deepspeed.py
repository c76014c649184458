"""Read start scripts of Megatron-DeepSpeed with its own objects, in a checkout of it. argv: a JSON file of {"folder",
"ranks"}; prints JSON.

The script is run with a torchrun that prints its arguments; DeepSpeed reads the JSON beside it. The groups of ranks are
made over ranks that are pretended, and the model's layers are listed and split into stages, of which none is built.
One process a script, because Megatron keeps what was parsed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import objects_deepspeed
import torch
from objects import in_a_process, pretended, print_answers, stand_in, started

ABSENT = ("six",)
FILLED = {
    "MEGATRON_DEEPSPEED": "/megatron",
    "DATA_PATH": "x",
    "TOKENIZER_TYPE": "NullTokenizer",
    "TOKENIZER_MODEL": "x",
}
FILLED |= {"TRAIN_ITERS": "1000", "LR": "1e-4", "LAYERNORM_EPSILON": "1e-5", "SAVE": "/tmp/x"}
FILLED |= {"ROTARY_POSITION_EMBEDDINGS_THETA": "10000"}


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-DeepSpeed and DeepSpeed make of one script."""
    told, by_json = read_script(case), objects_deepspeed.read(case)
    twice = told.keys() & by_json.keys()
    assert {name: told[name] for name in twice} == {name: by_json[name] for name in twice}, by_json
    return by_json | told


def read_script(case: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-DeepSpeed makes of the command line."""
    from deepspeed.accelerator import get_accelerator
    from megatron.arguments import core_transformer_config_from_args, parse_args, validate_args
    from megatron.core import mpu
    from megatron.global_vars import set_args
    from megatron.microbatches import build_num_microbatches_calculator
    from megatron.tokenizer.tokenizer import _vocab_size_with_padding

    words, variables = started(Path(case["folder"]), "pretrain_gpt.py", FILLED)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(variables, WORLD_SIZE=str(case["ranks"]), RANK="0")
    sys.argv = ["pretrain_gpt.py", *words]
    arguments = parse_args()
    with mock.patch.object(get_accelerator(), "device_name", return_value="cuda"):
        validate_args(arguments, {})
    arguments.padded_vocab_size = _vocab_size_with_padding(arguments.vocab_size, arguments)
    arguments.deepspeed_config_dict = json.loads(Path(arguments.deepspeed_config).read_text())
    set_args(arguments)
    config = core_transformer_config_from_args(arguments)
    with pretended(case["ranks"]):
        tp, pp, cp = (
            arguments.tensor_model_parallel_size,
            arguments.pipeline_model_parallel_size,
            arguments.ds_sequence_parallel_size,
        )
        mpu.initialize_model_parallel(tp, pp, cp)
        if arguments.no_pipeline_parallel:
            layers, recomputes = [config.num_layers], arguments.recompute_granularity == "full"
        else:
            layers, recomputes = of_pipeline(config)
        return {
            "tp": mpu.get_tensor_model_parallel_world_size(),
            "cp": mpu.get_sequence_parallel_world_size(),
            "pp": mpu.get_pipeline_model_parallel_world_size(),
            "dp": mpu.get_data_parallel_world_size(),
            "ep": arguments.moe_expert_parallel_size,
            "etp": tp if arguments.enable_expert_tensor_parallelism or arguments.num_experts == [1] else 1,
            "sp": bool(arguments.sequence_parallel),
            "micro_batch": arguments.micro_batch_size,
            "num_microbatches": build_num_microbatches_calculator(arguments).get(),
            "global_batch": arguments.global_batch_size,
            "sequence_length": arguments.seq_length,
            "precision": {torch.bfloat16: "bf16", torch.float16: "fp16"}[config.params_dtype],
            "zero": arguments.zero_stage,
            "layers": layers,
            "recomputes": recomputes,
            "hidden_size": config.hidden_size,
            "ffn_size": config.ffn_hidden_size,
            "heads": config.num_attention_heads,
            "kv_heads": config.num_key_value_heads,
            "vocab_size": arguments.vocab_size,
        }


def of_pipeline(config: Any) -> tuple[list[int], bool]:
    """Layers of every stage, and whether each is computed again, as the model lists them and DeepSpeed splits them."""
    from deepspeed.pipe import PipelineModule
    from megatron.model import GPTModelPipe

    def split(pipeline: Any, layers: Any, topology: Any, partition_method: str, **settings: Any) -> None:
        own = SimpleNamespace(
            **settings, _layer_specs=list(layers), _topo=topology, num_stages=topology.get_dim("pipe")
        )
        pipeline.__dict__.update(vars(own), global_rank=0, _modules={})
        pipeline._partition_layers(partition_method)

    with mock.patch.object(PipelineModule, "__init__", split):
        pipeline = GPTModelPipe(config)
    starts = zip(pipeline.parts, pipeline.parts[1:], strict=False)
    of_layers = [set(pipeline._find_layer_type("transformer")) & {*range(*bounds)} for bounds in starts]
    return [len(each) for each in of_layers], pipeline.activation_checkpoint_interval == 1


def enter() -> None:
    """Import Megatron-DeepSpeed once, before the processes part."""
    stand_in(*ABSENT)
    import megatron.model  # noqa: F401


if __name__ == "__main__":
    print_answers(in_a_process(read), enter)
