"""Fields: what the form asks, in the words of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from meshwright.specs import catalog
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES
from meshwright.specs.defaults import DEFAULT_PRECISION, DEFAULT_RUNTIME
from meshwright.specs.job_options import JOB_OPTIONS, JobOption

NUMBERS = "such as 8, 1,2,4 or 1-4"
WITH, WITHOUT = "with", "without"


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
    return catalog.names("precisions")


QUESTION = (
    Field(
        "model",
        "Model",
        "a catalogue name, or paste a config.json below",
        default="llama-3.1-70b",
        names=_models,
    ),
    Field(
        "cluster",
        "Cluster",
        "NODESxGPUS:ACCELERATOR or a catalogue name",
        default="8x8:h100",
        names=_clusters,
    ),
    Field("seq_len", "Sequence length", "tokens; 8k is 8192; empty: what is usual for the model", default="8192"),
    Field("global_batch", "Global batch", "sequences per step; empty: near 4M tokens", default="256"),
    Field(
        "precision",
        "Precision",
        "format of weights, activations and matrix products",
        default=DEFAULT_PRECISION,
        names=_precisions,
        only_names=True,
    ),
    Field("runtime", "Framework", "training framework", default=DEFAULT_RUNTIME, names=_runtimes, only_names=True),
    Field("network", "Network", "bandwidth out of a node, such as 10Gb/s or 8x400Gb/s; optional"),
    Field("tokens", "Training tokens", "in total, such as 15T; optional"),
    Field("price", "Price", "per accelerator-hour; optional"),
    Field("risk", "Risk", "accepted probability of running out of memory, such as 5%; default: 10%"),
)
LIMITS = (
    *(Field(name, name, NUMBERS) for name in ("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "zero", "micro_batch")),
    Field("recompute", "recompute", f"one or more of {', '.join(RECOMPUTE_NAMES.values())}"),
    Field("recompute_modules", "recompute modules", "modules that selective may recompute, such as layernorm,mlp"),
    Field("schedule", "schedule", "such as 1f1b,interleaved"),
    Field("context_exchange", "context exchange", f"one or more of {', '.join(CONTEXT_EXCHANGE_NAMES.values())}"),
    Field("sp", "sp", "sequence parallelism with tp", names=lambda: ("", WITH, WITHOUT), only_names=True),
    Field("even_chunks", "even chunks", "the same number of layers in each", names=lambda: ("", WITH), only_names=True),
    Field("max_nodes_per_tp", "nodes per tp group", "at most this many"),
)


def _of_job(options: Iterable[JobOption]) -> Iterator[Field]:
    for each in options:
        if each.form and each.choices:
            names = partial(tuple, ("", *each.choices))
            yield Field(each.name, *each.form, names=names, only_names=True, nothing="the framework's default")
        elif each.form:
            yield Field(each.name, *each.form)


_FIRST = next(place for place, each in enumerate(JOB_OPTIONS) if each.panel == "framework")
FRAMEWORK = (
    *_of_job(JOB_OPTIONS[:_FIRST]),
    Field("dispatcher", "Token dispatcher", "all_to_all, all_gather or fused"),
    *_of_job(JOB_OPTIONS[_FIRST:]),
    Field("with", "Behaviours", "KEY=VALUE separated by spaces: optimizer_states=offloaded overlap.expert=0.7"),
)
"""What the command takes with options of a job that few ask for, with `--dispatcher` and with `--with`."""
CONFIG = Field("config", "Or paste a config.json", "from Hugging Face; it overrides the model name above")
FIELDS = {field.name: field for field in (*QUESTION, *LIMITS, *FRAMEWORK, CONFIG)}
