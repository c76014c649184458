"""Textbook: the closed-form calculators of the field, exactly as published, for learning and for checking by hand.

They stand beside the planner and never inside it: they know no kernels, no placement and no schedule.

| calculator | what it answers |
|---|---|
| `analyze_4d_parallelism` | parameters, memory and traffic of one (dp, tp, pp, sp) |
| `tensor_parallel_allreduce_cost` | bytes and time of tensor parallelism's all-reduces |
| `estimate_4d_memory` | memory of one (tp, pp, cp, dp), arXiv:2411.06465; `memory_of_every_configuration` of all |
| `Searcher` | the (dp, tp, pp) with the least time by a small cost model |
"""

from __future__ import annotations

from meshwright.textbook.allreduce import tensor_parallel_allreduce_cost
from meshwright.textbook.analyzer import analyze_4d_parallelism, bubble_over_ideal, bubble_ratio, parameter_estimate
from meshwright.textbook.derive import cluster_metadata_of, model_metadata_of
from meshwright.textbook.llama import llama_sizes
from meshwright.textbook.memory import estimate_4d_memory, llama_parameters
from meshwright.textbook.memory_space import memory_of_every_configuration
from meshwright.textbook.searcher import Searcher

__all__ = [
    "Searcher",
    "analyze_4d_parallelism",
    "bubble_over_ideal",
    "bubble_ratio",
    "cluster_metadata_of",
    "estimate_4d_memory",
    "llama_parameters",
    "llama_sizes",
    "memory_of_every_configuration",
    "model_metadata_of",
    "parameter_estimate",
    "tensor_parallel_allreduce_cost",
]
