"""Read configurations of llm-foundry with its own objects. argv: a JSON file of {"folder", "ranks"}; prints JSON.

The start script is run with a torchrun that copies the configuration that it fills. Packages that want a GPU or an
account are stand-ins, and llm-foundry's packages are entered past what they import on the way.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from objects import print_answers

ABSENT = {
    "composer",
    "mlflow",
    "streaming",
    "datasets",
    "flash_attn",
    "transformer_engine",
    "megablocks",
    "torchmetrics",
}
PACKAGES = ("llmfoundry", "llmfoundry.utils", "llmfoundry.models", "llmfoundry.models.mpt")
TORCHRUN = '#!/bin/bash\nwhile [ "${1##*/}" != train.py ]; do shift; done\ncp "$2" "$FILLED"\n'
FILLED = {"LLM_FOUNDRY": "/llm-foundry", "TOKENIZER": "gpt2", "DATA": "/data", "STEPS": "1000", "LEARNING_RATE": "3e-4"}
FILLED |= {"ROPE_THETA": "500000", "NORM_EPSILON": "1e-5", "CHECKPOINTS": "/checkpoints"}


class StandIn(ModuleType):
    """A package whose names are all classes that take anything."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": lambda *_, **__: None, "__class_getitem__": lambda one: one})
        setattr(self, name, made)
        return made


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not there."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        known = name.partition(".")[0] in ABSENT
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


def enter() -> None:
    """Make llm-foundry's packages importable without what their __init__ imports."""
    sys.meta_path.insert(0, Absent())
    root = next(Path(each) for each in sys.path if (Path(each) / "llmfoundry").is_dir())
    for name in PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[name] = package


def configuration(folder: Path) -> Path:
    """The configuration that the start script fills and gives to train.py."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "torchrun").write_text(TORCHRUN)
    (tools / "torchrun").chmod(0o755)
    filled = tools / "filled.yaml"
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "FILLED": str(filled), **FILLED}
    subprocess.run(["bash", str(folder / "train.sh")], env=environment, check=True)
    return filled


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What llm-foundry makes of one configuration on so many ranks."""
    import llmfoundry.utils.config_utils as config_utils
    from llmfoundry.models.mpt.configuration_mpt import MPTConfig
    from omegaconf import OmegaConf

    config_utils.dist.get_world_size = lambda: case["ranks"]
    loaded = OmegaConf.load(configuration(Path(case["folder"])))
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
        "zero": {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, None: 0}[sharded],
        "recomputes": config.fsdp_config["activation_checkpointing"],
        "precision": config.precision.removeprefix("amp_"),
        "layers": [model.n_layers],
        "hidden_size": model.d_model,
        "heads": model.n_heads,
        "vocab_size": model.vocab_size,
    }


if __name__ == "__main__":
    enter()
    print_answers(read)
