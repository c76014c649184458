"""llm-foundry: its YAML."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, has
from meshwright.launch.readers.settings import LaunchSettings

_OWN = ("global_train_batch_size", "device_train_microbatch_size", "train_loader", "fsdp_config")
"""Sections and keys of which it has several, one of them maybe misspelt."""


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of OLMo have the same keys but for the length of sequences."""
    own = has("model.n_layers")(settings, keys) and sum(has(each)(settings, keys) for each in _OWN) > 1
    return own and "model.max_sequence_length" not in keys


DIALECT = Dialect(
    name="llm-foundry",
    framework="llm-foundry",
    holds=_holds,
    strict="llmfoundry/utils/config_utils.py, make_dataclass_and_log_config: unused parameters",
)
