"""Assumed: what a data file says that nobody has published, and which questions rest on it."""

from __future__ import annotations

from typing import Literal

Condition = Literal[
    "experts",
    "experts_as_one_product",
    "experts_one_by_one",
    "expert_parallelism",
    "prediction",
    "adapters",
    "packed",
    "whole_sequences",
    "documents_as_masks",
    "quantised",
    "fp8",
    "fp4",
    "bf16",
    "fp16",
    "several_accelerators",
    "several_nodes",
    "thousands_of_accelerators",
    "graphs",
    "no_graphs",
    "experts_on_bound_ranks",
    "fused_update",
    "compiled",
    "chunked_loss",
    "flex_attention",
]
"""What a question has: of the model, of the recipe, of the cluster, of the runtime."""
Assumed = tuple[str | dict[Condition, str], ...]
"""Sentences for the user's eyes; one that not every question rests on stands behind its condition, as
`{ experts = "..." }`."""
