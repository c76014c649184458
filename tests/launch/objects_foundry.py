"""Read configurations of llm-foundry with its own objects. argv: a JSON file of {"folder", "ranks"}; prints JSON.

The start script is run with a torchrun that prints the name of the configuration that it fills. Packages that want a
GPU or an account are stand-ins, and llm-foundry's packages are entered past what they import on the way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from objects import bare, print_answers, stand_in, started

ABSENT = (
    "composer",
    "mlflow",
    "streaming",
    "datasets",
    "flash_attn",
    "transformer_engine",
    "megablocks",
    "torchmetrics",
)
PACKAGES = ("llmfoundry", "llmfoundry.utils", "llmfoundry.models", "llmfoundry.models.mpt")
FILLED = {"LLM_FOUNDRY": "/llm-foundry", "TOKENIZER": "gpt2", "DATA": "/data", "STEPS": "1000", "LEARNING_RATE": "3e-4"}
FILLED |= {"ROPE_THETA": "500000", "NORM_EPSILON": "1e-5", "CHECKPOINTS": "/checkpoints"}


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What llm-foundry makes of one configuration on so many ranks."""
    import llmfoundry.utils.config_utils as config_utils
    from llmfoundry.models.mpt.configuration_mpt import MPTConfig
    from omegaconf import OmegaConf

    config_utils.dist.get_world_size = lambda: case["ranks"]
    words, _ = started(Path(case["folder"]), "train.py", FILLED)
    loaded = OmegaConf.load(words[0])
    transforms = [config_utils.update_batch_size_info]
    _, config = config_utils.make_dataclass_and_log_config(
        loaded, config_utils.TrainConfig, config_utils.TRAIN_CONFIG_KEYS, transforms
    )
    model = MPTConfig(**{key: value for key, value in config.model.items() if key not in ("name", "init_device")})
    sharded = (config.fsdp_config or {}).get("sharding_strategy")
    assert isinstance(config.optimizer["lr"], float)
    assert not model.attn_config["rope"] or model.attn_config["rope_theta"] == float(FILLED["ROPE_THETA"])
    return {
        "dp": config.n_gpus,
        "micro_batch": config.device_train_microbatch_size,
        "num_microbatches": config.device_train_grad_accum,
        "global_batch": config.device_train_batch_size * config.n_gpus,
        "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, None: 0}[sharded],
        "recomputes": config.fsdp_config["activation_checkpointing"],
        "precision": config.precision.removeprefix("amp_"),
        "layers": [model.n_layers],
        "hidden_size": model.d_model,
        "heads": model.n_heads,
        "vocab_size": model.vocab_size,
    }


if __name__ == "__main__":
    stand_in(*ABSENT)
    bare(*PACKAGES)
    print_answers(read)
