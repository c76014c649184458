"""Read configurations of nanotron with its own objects, in a checkout of it. argv: a JSON file of {"folder", "ranks"};
prints JSON.

The start script is run with a torchrun that prints the name of the configuration that it fills. The groups of ranks are
made over ranks that are pretended, and the first of them builds its part of the model without memory.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from objects import pretended, print_answers, stand_in, started

ABSENT = ("flash_attn", "grouped_gemm", "transformer_engine", "datasets", "triton")
FILLED = {"NANOTRON": "/nanotron", "TOKENIZER": "gpt2", "DATASET": "/data", "STEPS": "1000", "LEARNING_RATE": "3e-4"}
FILLED |= {"WARMUP_STEPS": "10"}
FILLED |= {"ROPE_THETA": "500000", "NORM_EPSILON": "1e-5", "CHECKPOINTS": "/checkpoints"}


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What nanotron makes of one configuration on so many ranks."""
    from nanotron.config import get_config_from_file
    from nanotron.parallel.tensor_parallel.nn import TensorParallelLinearMode

    words, variables = started(Path(case["folder"]), "run_train.py", FILLED)
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(variables, WORLD_SIZE=str(case["ranks"]), RANK="0", LOCAL_RANK="0")
    config = get_config_from_file(words[words.index("--config-file") + 1])
    parallel, tokens, model, optimizer = config.parallelism, config.tokens, config.model.model_config, config.optimizer
    half = {torch.bfloat16: "bf16", torch.float16: "fp16"}[config.model.dtype]
    assert optimizer.learning_rate_scheduler.lr_decay_steps == 990
    assert model.rope_theta == float(FILLED["ROPE_THETA"])
    return {
        **degrees_and_layers(config, case["ranks"]),
        "sp": parallel.tp > 1 and parallel.tp_mode is TensorParallelLinearMode.REDUCE_SCATTER,
        "zero": optimizer.zero_stage,
        "micro_batch": tokens.micro_batch_size,
        "num_microbatches": tokens.batch_accumulation_per_replica,
        "global_batch": config.global_batch_size,
        "sequence_length": tokens.sequence_length,
        "precision": half,
        "gradients": "fp32" if optimizer.accumulate_grad_in_fp32 else half,
        "recomputes": parallel.recompute_layer,
        "schedule": {"OneForwardOneBackwardPipelineEngine": "1f1b", "AllForwardAllBackwardPipelineEngine": "gpipe"}[
            type(parallel.pp_engine).__name__
        ],
        "hidden_size": model.hidden_size,
        "ffn_size": model.intermediate_size,
        "heads": model.num_attention_heads,
        "kv_heads": model.num_key_value_heads,
        "vocab_size": model.vocab_size,
    }


def degrees_and_layers(config: Any, ranks: int) -> dict[str, Any]:
    """Sizes of the groups of ranks, layers of every stage and parameters of the first, as the trainer makes them."""
    from nanotron.models.base import build_model
    from nanotron.parallel import ParallelContext
    from nanotron.parallel.pipeline_parallel.p2p import P2P
    from nanotron.trainer import CONFIG_TO_MODEL_CLASS, mark_tied_parameters

    P2P.__init__ = lambda self, pg, **_: setattr(self, "pg", pg)
    parallel, sizes = config.parallelism, config.model.model_config
    of_class = CONFIG_TO_MODEL_CLASS[type(sizes).__name__]
    with pretended(ranks):
        context = ParallelContext(
            tensor_parallel_size=parallel.tp,
            pipeline_parallel_size=parallel.pp,
            data_parallel_size=parallel.dp,
            context_parallel_size=parallel.context_parallel_size,
            expert_parallel_size=parallel.expert_parallel_size,
        )
        made = partial(of_class, config=sizes, parallel_context=context, parallel_config=parallel, random_states=None)
        model = build_model(made, context, config.model.dtype, device=torch.device("meta"))
        mark_tied_parameters(model, context, parallel)
    stages = [block.rank for block in model.model.decoder]
    return {
        "tp": context.tp_pg.size(),
        "cp": context.cp_pg.size(),
        "pp": context.pp_pg.size(),
        "dp": context.dp_pg.size(),
        "ep": context.ep_pg.size(),
        "layers": [stages.count(stage) for stage in range(parallel.pp)],
        "parameters": sum(each.numel() for each in model.parameters()),
    }


if __name__ == "__main__":
    stand_in(*ABSENT)
    with mock.patch("torch.cuda.set_device"):
        print_answers(read)
