"""Adapters: low-rank adapters that a file trains, in the words of this package."""

from __future__ import annotations

from typing import Any

from meshwright.launch.spelling import Settings
from meshwright.specs.job import ALL_LINEAR

RANK, MODULES = "job.lora_rank", "job.lora_modules"


def adapter_settings(rank: Any, modules: Any) -> Settings:
    """The rank and the modules of adapters as settings.

    modules: a list, names that commas separate, or `all`.

    >>> adapter_settings(8, "q_proj, v_proj")
    {'job.lora_rank': 8, 'job.lora_modules': ['q_proj', 'v_proj']}
    """
    names = modules if isinstance(modules, list | tuple) else str(modules).split(",")
    named = [str(name).strip() for name in names]
    return {RANK: rank, MODULES: [ALL_LINEAR if name == "all" else name for name in named]}
