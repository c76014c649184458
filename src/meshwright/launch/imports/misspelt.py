"""Misspelt: keys of a configuration that its framework does not know, and that are nearly those of others."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from meshwright.launch.imports.demands import FileRule
from meshwright.launch.table import LaunchTable

SURE = 0.9
"""Share of letters, by `difflib`, from which on a key was meant to be another one."""
STRICT = {
    "deepspeed": "deepspeed/runtime/config_utils.py L110 forbids other keys in its sections",
    "torchtitan": "fields of its configuration classes alone",
    "torchtitan-toml": "pytorch/torchtitan v0.2.2 torchtitan/config/manager.py L167: invalid field names",
    "nanotron": "nanotron config/config.py, get_config_from_file: dacite with strict=True",
    "llm-foundry": "llmfoundry/utils/config_utils.py, make_dataclass_and_log_config: unused parameters",
    "accelerate": "accelerate commands/config/config_args.py; what stands in fsdp_config is passed over",
}
"""Frameworks whose configurations have keys of this kind, and what looks at them."""


def misspelt_rules(
    name: str, unknown: Collection[str], given: Collection[str], table: LaunchTable
) -> tuple[FileRule, ...]:
    """Whether no key is nearly one that the framework has and the file lacks; nothing of other frameworks.

    name: of the dialect; unknown: keys that the table does not have; given: every key of the file.
    """
    if name not in STRICT:
        return ()
    constant = {key for each in table.constants for key in each.settings}
    lacking = (table.keys | constant | table.unpriced.keys()) - {*given}
    meant = {key: near for key in unknown if (near := _meant(key, lacking))}
    words = ", ".join(f"{key} (nearest: {near})" for key, near in meant.items())
    reason = f"{words}: no setting of {table.framework}, which refuses it or runs with its default" if meant else ""
    return (FileRule(name="known_keys", kept=not meant, source=STRICT[name], keys=tuple(meant), reason=reason),)


def _meant(key: str, known: Collection[str]) -> str:
    """The known key of the same section that is nearly this one; empty where there is none.

    >>> _meant("parallelism.tensor_paralell_degree", ["parallelism.tensor_parallel_degree", "parallelism.dp"])
    'parallelism.tensor_parallel_degree'
    """
    section, _, last = key.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == section}
    near = difflib.get_close_matches(last, beside, n=1, cutoff=SURE)
    return beside[near[0]] if near else ""
