"""Arguments: the plan that Megatron-LM prints when it starts, as the command line that says the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from meshwright.errors import InvalidInput
from meshwright.launch.imports.behaviours import switches
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file
from meshwright.validation.logs.log import RunLog

NEEDED = {"num_layers", "tensor_model_parallel_size", "world_size"}
"""Without these a log holds no arguments of Megatron-LM."""
FLAGS = {"fp8": "--fp8-format", "fp4": "--fp4-format"}
"""Flags whose arguments are called otherwise (megatron/training/arguments.py, NVIDIA/Megatron-LM d98e8a64ddf3)."""
NEGATED = {
    "add_bias_linear": "--disable-bias-linear",
    "overlap_p2p_comm": "--no-overlap-p2p-communication",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
    "apply_rope_fusion": "--no-rope-fusion",
}
"""Flags that are given where their argument is False."""
ONLY_WITH = {
    **dict.fromkeys(
        ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"), "multi_latent_attention"
    ),
    "overlap_p2p_comm": "virtual_pipeline_model_parallel_size",
}
"""Arguments that mean nothing unless another one is set; their defaults are printed all the same."""
UNSET = ("False", "None", "[]", "")
USUAL_NODE = 8


def question_of_log(log: RunLog, given: Given) -> LaunchQuestion:
    """The plan of a run from the arguments in its log; given: the cluster, as beside a launch file.

    Raises `InvalidInput` where the log holds none, or they leave open what is needed.
    """
    if not log.arguments.keys() >= NEEDED:
        raise InvalidInput(
            f"the log {str(log.path)!r} does not hold the arguments that Megatron-LM prints when it starts: "
            "name the file that started the run with --from FILE"
        )
    return question_of_file(log.path, replace(given, framework="megatron-lm"), script_of(log.arguments))


def script_of(arguments: dict[str, str]) -> str:
    """The command line of the arguments that a launch table knows; defaults are among them."""
    ranks = arguments.get("world_size", "")
    count = int(ranks) if ranks.isascii() and ranks.isdecimal() and len(ranks) < 10 else 1
    nodes = count // USUAL_NODE if count % USUAL_NODE == 0 else 1
    words = " ".join(_words(arguments))
    return f"#!/bin/bash\ntorchrun --nnodes {nodes} --nproc-per-node {count // max(nodes, 1)} pretrain_gpt.py {words}\n"


def _words(arguments: dict[str, str]) -> Iterator[str]:
    known = _known_flags()
    for name, value in arguments.items():
        if arguments.get(ONLY_WITH.get(name, name), "") in UNSET and name in ONLY_WITH:
            continue
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        if value == "False" and name in NEGATED:
            yield NEGATED[name]
        elif flag not in known or value in UNSET:
            continue
        elif value == "True":
            yield flag
        else:
            listed = re.findall(r"[^\s\[\],'\"]+", value) if value[:1] == "[" else [value]
            yield " ".join([flag, *map(shlex.quote, listed)])


@cache
def _known_flags() -> frozenset[str]:
    """Every flag that says a field of the plan or its question, or switches how the runtime works."""
    table = import_table("megatron-lm")
    beside = (key for each in table.settings for key in each.every_value)
    return frozenset({*table.keys, *beside, *switches("megatron-lm"), "--padded-vocab-size"})
