"""Runtime: how one training framework behaves, as data: what it keeps, sends, overlaps and refuses."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from meshwright.errors import Fault, InvalidSpec, quoted
from meshwright.specs import catalog
from meshwright.specs.base import Spec

Share = Annotated[float, Field(ge=0, le=1)]
AXES = ("tp", "cp", "ep", "dp", "pp")
NonNegative = Annotated[float, Field(ge=0, le=1e12)]


class Overlap(Spec):
    """Share of each communication's window that hides it; 0: fully exposed."""

    data_parallel: Share
    """Gradient reduce-scatter beside the last backward, parameter all-gather beside the first forward."""
    tensor_parallel: Share
    """Forward and output-gradient collectives beside their own matrix product (userbuffers, async TP)."""
    tensor_parallel_backward: Share
    """Input re-gather beside the input-gradient product, and its reduction beside the weight-gradient product."""
    pipeline: Share
    """Stage-to-stage messages of 1F1B."""
    interleaved_pipeline: Share
    """Stage-to-stage messages of interleaved 1F1B."""


class CrossEntropy(Spec):
    """What one implementation of the cross-entropy costs, in bytes per logit of the rank's vocabulary shard."""

    alive_bytes: NonNegative
    """Alive at the peak, logits included."""
    forward_bytes: NonNegative
    """Moved in forward."""
    backward_bytes: NonNegative
    """Moved in backward."""


class DeviceMemory(Spec):
    """What the device holds beside live tensors, and how much of it a verdict reserves."""

    context_bytes: NonNegative
    """CUDA context and loaded kernels of one process."""
    workspace_bytes: NonNegative
    """Library workspaces inside the allocator."""
    communicator_bytes: NonNegative
    """Of one communicator of an axis."""
    pair_communicator_bytes: NonNegative
    """Of one stage-to-stage communicator."""
    communicator_uncertainty: NonNegative
    """How far communicators may exceed that, as a share; a safe verdict allows for it."""
    fragmentation: NonNegative
    """Reserved over allocated memory, less one: expected."""
    fragmentation_likely: NonNegative
    """The same when a run is lucky: beyond it nothing fits."""
    fragmentation_safe: NonNegative
    """The same on the worst rank: below it everything fits."""


class RuleReference(Spec):
    """A named legality rule that the framework enforces."""

    name: str
    source: str
    """Where the framework enforces it."""


class Runtime(Spec):
    """One framework at one version."""

    id: str
    aliases: tuple[str, ...] = ()
    version: str
    """Release or commit that the behaviours below were read from."""
    rank_order: tuple[Literal["tp", "cp", "ep", "dp", "pp"], ...]
    """Axes, fastest first."""
    data_parallel: Literal["replicated", "fully_sharded"]
    """Every replica holds its weights whole, or each layer's are gathered from fp32 shards when it works (FSDP2)."""
    gradient_bytes: Literal[2, 4]
    """Bytes per parameter of the gradient buffer, and of its reduction."""
    attention_kernel: Literal["flash", "eager"]
    """Fused attention, or score matrices in memory."""
    dropout: bool
    """Keeps one-byte dropout masks."""
    fused_activation: bool
    """A gated activation's inner product is recomputed in backward instead of kept."""
    regathers_inputs: bool
    """With sequence parallel, keeps the sharded input and gathers it again in backward; else keeps the gathered one."""
    keeps_statistics: bool
    """Every layer keeps its norms' statistics and its rotary tables."""
    selective_recompute: Literal["attention_core", "every_second_product"]
    """What selective recomputation computes again."""
    checkpoint_stops_early: bool
    """Full recomputation leaves out the last reduction of a layer, which backward does not need."""
    cross_entropy: str
    """The implementation in use, a key of `cross_entropies`."""
    cross_entropies: dict[str, CrossEntropy]
    weight_gradient_slowdown: Annotated[float, Field(ge=1, le=100)]
    """Time of a weight-gradient product that accumulates in fp32, over a plain one."""
    scatters_messages: bool
    """Each tensor-parallel rank sends its part of a stage-to-stage message, and the receivers gather it."""
    vocabulary_multiple: Annotated[int, Field(gt=0, le=2**20)]
    """The vocabulary is padded to a multiple of this times tp."""
    gradient_bucket: Annotated[int, Field(gt=0, le=2**40)]
    """Parameters in one gradient bucket, at least."""
    gradient_bucket_per_rank: Annotated[int, Field(gt=0, le=2**30)]
    """Parameters in one gradient bucket per data-parallel rank, at least."""
    overlap: Overlap
    host_s_per_layer: NonNegative
    """Seconds that the host needs to issue one layer's forward; backward takes as long."""
    host_s_per_step: NonNegative
    """Seconds per step outside of the pipeline: data, logging, learning-rate schedule."""
    memory: DeviceMemory
    counts_ends: bool
    """Can count the embedding and the head as layers when it splits a pipeline."""
    sequence_parallel: bool
    """Can split norms and residuals over tp."""
    schedules: tuple[Literal["1f1b", "interleaved"], ...]
    zero_stages: tuple[Literal[0, 1, 2, 3], ...]
    """Of a replicated runtime 0 and 1; of a fully sharded one 2 (weights stay gathered) and 3 (resharded)."""
    recompute: tuple[Literal["none", "selective", "full"], ...]
    rules: tuple[RuleReference, ...]
    assumed: tuple[str, ...] = ()
    """Behaviours without a published number, for the user's eyes."""
    sources: dict[str, str]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = []
        if self.cross_entropy not in self.cross_entropies:
            known = ", ".join(self.cross_entropies) or "none"
            faults.append(Fault("cross_entropy", f"{quoted(self.cross_entropy)} is not among cross_entropies: {known}"))
        priced = {"replicated": {0, 1}, "fully_sharded": {2, 3}}[self.data_parallel]
        if not self.zero_stages or not set(self.zero_stages) <= priced:
            what = f"{list(self.zero_stages)} must be of {sorted(priced)} where data_parallel is {self.data_parallel}"
            faults.append(Fault("zero_stages", what))
        if sorted(self.rank_order) != sorted(AXES):
            faults.append(Fault("rank_order", f"{list(self.rank_order)} must hold each of {', '.join(AXES)} once"))
        if faults:
            raise InvalidSpec("Runtime", faults)
        return self


def read_runtime(name: str) -> Runtime:
    """The catalogue's runtime of that id or alias; raises `UnknownName` with the nearest ones.

    An entry with `like` starts from the runtime it names and replaces what it says itself.
    """
    entry = dict(catalog.load("runtimes", name))
    like = entry.pop("like", None)
    base = {field: getattr(read_runtime(like), field) for field in Runtime.model_fields} if like else {}
    return Runtime(**base | {"aliases": ()} | entry | {"id": catalog.resolve("runtimes", name)})
