"""Misspelt: keys of a configuration that its framework does not know, and that are nearly those of others."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import cast

from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.imports.rules.options import Options, options_of
from meshwright.launch.table import LaunchTable

SURE = 0.9
"""Share of letters, by `difflib`, from which on a key was meant to be another one."""


def misspelt_rules(
    dialect: Dialect, unknown: Collection[str], given: Collection[str], table: LaunchTable
) -> tuple[FileRule, ...]:
    """Whether no key is nearly one that the framework has and the file lacks; nothing of those that are not strict.

    unknown: keys that the table does not have; given: every key of the file.
    """
    if not dialect.strict:
        return ()
    constant = {key for each in table.settings for key in each.every_value}
    known = table.keys | constant | table.unpriced.keys() | table.refused.keys()
    if table.recipe:
        known, unknown = _fields(known, table), _unknown_fields(unknown, given)
    lacking = known - {*given}
    meant = {key: near for key in unknown if (near := _meant(key, lacking) or _section_meant(key, lacking))}
    words = ", ".join(dict.fromkeys(meant.values()))
    reason = f"{words}: no setting of {table.framework}, which refuses it or runs with its default" if meant else ""
    return (FileRule(name="known_keys", kept=not meant, source=dialect.strict, keys=tuple(meant), reason=reason),)


def _fields(arguments: Collection[str], table: LaunchTable) -> set[str]:
    """Where a recipe has what Megatron-LM takes as arguments today."""
    targets = {target.partition(" = ")[0] for each in table.recipe.values() for target in each}
    older = {alias for row in table.rows.values() for alias in row.aliases}
    own = ({*arguments} & {*_options().switches, *_options().valued}) - table.recipe.keys() - older
    return targets | {f"model.{each.removeprefix('--').replace('-', '_')}" for each in own}


def _unknown_fields(arguments: Collection[str], given: Collection[str]) -> list[str]:
    """The fields of a recipe that were read as arguments, without those that some release of Megatron-LM has."""
    unknown = {*arguments} - _options().known
    return [key for key in given if f"--{key.rpartition('.')[2].replace('_', '-')}" in unknown]


def _options() -> Options:
    return cast(Options, options_of("megatron-lm"))


def _meant(key: str, known: Collection[str]) -> str:
    """A key with the known one of the same section that is nearly this one; empty where there is none.

    >>> _meant("parallelism.tensor_paralell_degree", ["parallelism.tensor_parallel_degree", "parallelism.dp"])
    'parallelism.tensor_paralell_degree (nearest: parallelism.tensor_parallel_degree)'
    """
    section, _, last = key.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == section}
    near = difflib.get_close_matches(last, beside, n=1, cutoff=SURE)
    return f"{key} (nearest: {beside[near[0]]})" if near else ""


def _section_meant(key: str, known: Collection[str]) -> str:
    """The section of a key with the one of known keys that is nearly this one; empty where there is none.

    >>> _section_meant("zero_optimisation.stage", ["zero_optimization.stage", "bf16.enabled"])
    'zero_optimisation (nearest: zero_optimization)'
    """
    section = key.partition(".")[0] if "." in key else ""
    sections = {each.partition(".")[0] for each in known if "." in each}
    near = difflib.get_close_matches(section, sections - {section}, n=1, cutoff=SURE)
    return f"{section} (nearest: {near[0]})" if section not in sections and near else ""
