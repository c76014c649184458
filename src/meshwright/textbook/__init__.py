"""Textbook: the closed-form calculators of the field, exactly as published, for learning and for checking by hand.

They stand beside the planner and never inside it: they know no kernels, no placement and no schedule. Names load on
first use.

| calculator | what it answers |
|---|---|
| `analyze_4d_parallelism` | parameters, memory and traffic of one (dp, tp, pp, sp) |
| `tensor_parallel_allreduce_cost` | bytes and time of tensor parallelism's all-reduces |
| `estimate_4d_memory` | memory of one (tp, pp, cp, dp), arXiv:2411.06465; `memory_of_every_configuration` of all |
| `Searcher` | the (dp, tp, pp) with the least time by a small cost model |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshwright.textbook.allreduce import tensor_parallel_allreduce_cost as tensor_parallel_allreduce_cost
    from meshwright.textbook.analyzer import analyze_4d_parallelism as analyze_4d_parallelism
    from meshwright.textbook.analyzer import bubble_over_ideal as bubble_over_ideal
    from meshwright.textbook.analyzer import bubble_ratio as bubble_ratio
    from meshwright.textbook.analyzer import parameter_estimate as parameter_estimate
    from meshwright.textbook.derive import cluster_metadata_of as cluster_metadata_of
    from meshwright.textbook.derive import model_metadata_of as model_metadata_of
    from meshwright.textbook.llama import llama_sizes as llama_sizes
    from meshwright.textbook.memory import estimate_4d_memory as estimate_4d_memory
    from meshwright.textbook.memory import llama_parameters as llama_parameters
    from meshwright.textbook.memory_space import memory_of_every_configuration as memory_of_every_configuration
    from meshwright.textbook.searcher import Searcher as Searcher

_HOMES = {
    "Searcher": "searcher",
    "analyze_4d_parallelism": "analyzer",
    "bubble_over_ideal": "analyzer",
    "bubble_ratio": "analyzer",
    "cluster_metadata_of": "derive",
    "estimate_4d_memory": "memory",
    "llama_parameters": "memory",
    "llama_sizes": "llama",
    "memory_of_every_configuration": "memory_space",
    "model_metadata_of": "derive",
    "parameter_estimate": "analyzer",
    "tensor_parallel_allreduce_cost": "allreduce",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
