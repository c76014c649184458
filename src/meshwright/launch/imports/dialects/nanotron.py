"""nanotron: its YAML."""

from __future__ import annotations

from meshwright.launch.imports.dialects.dialect import Dialect, has

DIALECT = Dialect(
    name="nanotron",
    framework="nanotron",
    holds=has("parallelism.dp", "tokens.micro_batch_size"),
    strict="nanotron config/config.py, get_config_from_file: dacite with strict=True",
)
