"""llm-foundry: its YAML."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, has
from meshwright.launch.readers.settings import LaunchSettings


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    """Configurations of OLMo have the same keys but for the length of sequences."""
    own = has("model.n_layers", "global_train_batch_size")(settings, keys)
    return own and "model.max_sequence_length" not in keys


DIALECT = Dialect(name="llm-foundry", framework="llm-foundry", holds=_holds)
