"""What one of two tensor-parallel ranks holds of both ends under DeepSpeed. argv: a JSON file of
{"type", "tied", "sizes", "settings"}; run by torchrun, prints JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import deepspeed
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SETTINGS: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
    "tensor_parallel": {"autotp_size": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
}


def read(case: dict[str, Any]) -> dict[str, int]:
    """Rows of embedding, head and logits after a step."""
    config = AutoConfig.for_model(case["type"], tie_word_embeddings=case["tied"], **case["sizes"])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).train()
    tensor = SETTINGS["tensor_parallel"] | case["settings"]
    engine, *_ = deepspeed.initialize(model=model, config=SETTINGS | {"tensor_parallel": tensor})
    torch.manual_seed(0)  # both ranks have the same tokens
    tokens = torch.randint(0, case["sizes"]["vocab_size"], (1, 16))
    told = engine(input_ids=tokens, labels=tokens, shift_labels=tokens)
    engine.backward(told.loss)
    engine.step()
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    return {
        "embedding": embedding.weight.shape[0],
        "head": head.weight.shape[0],
        "logits": told.logits.shape[-1],
    }


if __name__ == "__main__":
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it is compiled for minutes, in each environment
    deepspeed.init_distributed("gloo")
    told = [read(case) for case in json.loads(Path(sys.argv[1]).read_text())]
    if torch.distributed.get_rank() == 0:
        print(f"told {json.dumps(told)}")
