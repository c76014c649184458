"""Sections [plans], [checks] and [[rules]]: which models, recipes and plans a runtime has, and which it refuses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.choices import CHOICES, one_of
from meshwright.specs.job import PrecisionName
from meshwright.specs.offload_modules import OffloadModules


class Capabilities(Spec):
    """What a runtime can train, and how it can split it."""

    precisions: Annotated[tuple[PrecisionName, ...], Field(min_length=1)]
    """The recipes that it runs."""
    newest_compute_capability: int | None = None
    """The major compute capability of the newest accelerators of NVIDIA that it has kernels for; None: of all."""
    experts: bool
    """Has models with experts, be every expert whole on every rank."""
    multi_token_prediction: bool
    """Trains layers of multi-token prediction, on the stage of the head."""
    adapters: tuple[PrecisionName, ...] = ()
    """The recipes beside whose frozen weights it trains low-rank adapters; none: it trains none."""
    adapters_of: str = ""
    """The runtime whose adapters these are, where launches of this one have none of their own."""
    drops_tokens: bool
    """Experts may have a capacity: tokens beyond it are dropped."""
    rank_order: tuple[Literal["tp", "cp", "ep", "dp", "pp"], ...]
    """Axes, fastest first."""
    zero_stages: tuple[Literal[0, 1, 2, 3], ...]
    """Of half weights 0 to 3; of full ones 0 (replicas), 2 (weights stay gathered) and 3 (resharded after use)."""
    shards_by_another_engine: bool = False
    """Stages above 1 are an engine of their own, with checkpoints of their own form."""
    shards_one_rank: bool
    """These stages hold on a single rank too, whose weights are gathered into copies; else that one has ZeRO 0."""
    tensor_parallel: bool
    """Can split matrices over ranks."""
    replicates_kv_heads: bool
    """Where tp exceeds the key-value heads, several ranks hold a copy of the same one; else tp divides them."""
    pipeline_parallel: bool
    """Can split layers over ranks."""
    searches_pipelines: bool = True
    """A search tries pipelines; else only those that its question names, as the models have to be written for them."""
    takes_chunk_layers: bool
    """A plan can name the layers of every chunk."""
    takes_end_stage_layers: bool
    """A plan can name the layers of the first and of the last stage."""
    microbatch_grouping: Literal["chosen", "stages", "rounds"]
    """How many micro-batches a chunk of an interleaved schedule works on before the next chunk does: what the plan
    chooses, pp unless told; pp; or all of them in m // pp equal rounds."""
    compiles_split_backward: bool
    """Runs schedules that split the backward pass beside compiled layers."""
    expert_parallel: bool
    """Can place the experts of a layer on different ranks."""
    expert_tensor_parallel: Literal["none", "whole", "free"]
    """How it splits each expert: not at all; by 1 or by the tp of the rest; or by a degree of its own."""
    experts_need_sequence_parallel: bool
    """Under tp, models with experts train with sequence parallelism alone."""
    takes_recompute_layers: bool
    """Full recomputation can take a part of the layers of a chunk."""
    hybrid_sharding: bool
    """ZeRO can divide over a part of the data-parallel ranks, of which there are dp_replicate."""
    sequence_parallel: bool
    """Can split norms and residuals over tp."""
    context_exchanges: tuple[Annotated[str, one_of(CHOICES["context_exchange"].values())], ...]
    """How it can split a sequence over cp; none: it cannot."""
    schedules: tuple[Annotated[str, one_of(CHOICES["schedule"].values())], ...]
    ends_as_layers: tuple[bool, ...]
    """Whether its split can count the embedding and the head as layers: the values that a plan may choose, what it
    takes unless told first."""
    recompute: tuple[Annotated[str, one_of(CHOICES["recompute"].values())], ...]
    recompute_modules: tuple[Annotated[str, one_of(CHOICES["recompute_modules"].values())], ...]
    """Parts of a layer that a plan can choose for selective recomputation; none: the runtime chooses for itself."""
    offload_modules: OffloadModules = ()
    """Parts of a layer whose saved inputs it can keep in the host's memory."""


class Enforcement(Spec):
    """Where a framework checks a rule, and when."""

    source: str
    enforced: Literal["at start", "late", "silently"] = "at start"
    """With its arguments; only once it has started; or by doing something else without a word."""


class RuleReference(Enforcement):
    """A legality rule that a framework adds to those of all."""

    name: str
    parameters: dict[str, int] = {}
    """Numbers that the rule takes, where they are not its defaults."""
