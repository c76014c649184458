"""Fields: what the form asks, in the words of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from meshwright.specs import catalog
from meshwright.specs.constraints import EXCHANGES, RECOMPUTATIONS
from meshwright.specs.job import PRECISIONS

NUMBERS = "as 8, 1,2,4 or 1-4"
WITH, WITHOUT = "with", "without"
GRADIENTS = ("fp32", "half")


class Field(NamedTuple):
    """One line of the form."""

    name: str
    """Of the option of the command line, with `_` for `-`."""
    label: str
    help: str
    default: str = ""
    names: Callable[[], tuple[str, ...]] | None = None
    """Those that are known."""
    only_names: bool = False
    """Whether nothing else may be typed."""
    nothing: str = "any"
    """What an empty choice is called."""


def _models() -> tuple[str, ...]:
    return catalog.names("models")


def _clusters() -> tuple[str, ...]:
    return ("8x8:h100", "8x8:h200", "8x8:a100-80gb", "8x8:b200", *catalog.names("clusters"))


def _runtimes() -> tuple[str, ...]:
    return catalog.names("runtimes")


def _precisions() -> tuple[str, ...]:
    return PRECISIONS


QUESTION = (
    Field(
        "model",
        "Model",
        "a name of the catalogue, or paste its config.json below",
        default="llama-3.1-70b",
        names=_models,
    ),
    Field(
        "cluster",
        "Cluster",
        "NODESxGPUS:ACCELERATOR or a name of the catalogue",
        default="8x8:h100",
        names=_clusters,
    ),
    Field("seq_len", "Sequence length", "tokens; 8k is 8192", default="8192"),
    Field("global_batch", "Global batch", "sequences in one step", default="256"),
    Field(
        "precision",
        "Precision",
        "of weights, activations and products",
        default="bf16",
        names=_precisions,
        only_names=True,
    ),
    Field("runtime", "Framework", "that trains it", default="megatron-core", names=_runtimes, only_names=True),
    Field("network", "Network", "what a node sends to others, as 10Gb/s or 8x400Gb/s; optional"),
    Field("tokens", "Tokens to train on", "in all, as 15T; optional"),
    Field("price", "Price", "of one accelerator for an hour; optional"),
    Field("risk", "Risk", "of running out of memory that you accept, as 5%; 10% if empty"),
)
LIMITS = (
    *(Field(name, name, NUMBERS) for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "zero", "micro_batch")),
    Field("recompute", "recompute", f"of {', '.join(RECOMPUTATIONS)}"),
    Field("recompute_modules", "recompute modules", "that selective may recompute, as layernorm,mlp"),
    Field("schedule", "schedule", "as 1f1b,interleaved"),
    Field("context_exchange", "context exchange", f"of {', '.join(EXCHANGES)}"),
    Field("sp", "sp", "sequence parallelism beside tp", names=lambda: ("", WITH, WITHOUT), only_names=True),
    Field("even_chunks", "even chunks", "as many layers in every one", names=lambda: ("", WITH), only_names=True),
    Field("max_nodes_per_tp", "nodes of a tp group", "that it may touch at most"),
)
FRAMEWORK = (
    Field(
        "gradients",
        "Gradients",
        "what they are summed in",
        names=lambda: ("", *GRADIENTS),
        only_names=True,
        nothing="as the framework does",
    ),
    Field("dispatcher", "Dispatcher", "of tokens to experts: all_to_all, all_gather or fused"),
    Field("expert_imbalance", "Expert imbalance", "tokens of the busiest rank's experts over the mean, as 1.2"),
    Field("expert_capacity", "Expert capacity", "rows of every expert over the mean, dropped and padded, as 1.25"),
    Field("mtp_layers", "Prediction layers", "of multi-token prediction to train"),
    Field("with", "Behaviours", "KEY=VALUE with spaces between, as optimizer_states=offloaded overlap.expert=0.7"),
)
"""What the command takes with `--gradients`, `--dispatcher`, `--expert-*`, `--mtp-layers` and `--with`."""
CONFIG = Field("config", "Or paste a config.json", "of Hugging Face; it goes before the name above")
FIELDS = {field.name: field for field in (*QUESTION, *LIMITS, *FRAMEWORK, CONFIG)}
