"""Job: what is to be trained, apart from the model and the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from meshwright.errors import InvalidInput, quoted
from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.choices import one_of
from meshwright.specs.defaults import DEFAULT_PRECISION
from meshwright.specs.job_options import ALL_LINEAR, GradientFormat
from meshwright.units import count_in_powers_of_two, parse_count

PrecisionName = Annotated[str, one_of(catalog.names("precisions"))]
"""A recipe of the catalogue."""
MAX_COUNT = 10**9
"""Tokens in a sequence, or sequences in a batch: more than anybody trains with."""
MAX_TOKENS_PER_STEP = 10**12
MAX_MTP_LAYERS = 100
"""Of multi-token prediction; published models have 1 to 7."""
USUAL_RISK = 0.1
Count = Annotated[int, Field(gt=0, le=MAX_COUNT, strict=True)]
LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers that can have an adapter, by their names in models of transformers."""
LoraModule = Annotated[str, one_of((ALL_LINEAR, *LORA_MODULES))]


class Job(Spec):
    """One training job."""

    called: ClassVar[str] = "the job"

    sequence_length: Count
    """Tokens in one sequence."""
    global_batch: Count
    """Sequences in one optimizer step."""
    precision: PrecisionName = DEFAULT_PRECISION
    """The recipe of weights, activations and matrix products; see `Inputs.recipe`."""
    gradients: GradientFormat | None = None
    """What gradients are summed over data-parallel ranks in, half being `precision`; None: as the runtime does it."""
    optimizer: Literal["adam"] = "adam"
    """Adam with fp32 master weights and two fp32 moments: 12 bytes per parameter."""
    document_length: Count | None = None
    """Tokens of the documents that are packed into a sequence, none of which attends to another; of documents of
    different lengths the mean over tokens, sum(l^2) / sum(l). None: a sequence is one document."""
    expert_imbalance: Annotated[float, Field(ge=1, le=1e6)] | None = None
    """Tokens that the experts of the busiest rank receive, over the mean of all ranks; None: as `expert_spread` makes
    it."""
    expert_spread: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Standard deviation of the tokens of single experts over their mean; None: what is usual in training."""
    expert_capacity: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Every expert takes this times the mean of its tokens from each rank: more are dropped, fewer are padded. None:
    all are taken."""
    mtp_layers: Annotated[int, Field(ge=0, le=MAX_MTP_LAYERS, strict=True)] | None = None
    """Layers of multi-token prediction to train; None: as many as the model has, where the runtime trains them."""
    lora_rank: Annotated[int, Field(ge=0, le=2**16, strict=True)] = 0
    """Rank of low-rank adapters, which are trained beside frozen weights; 0: all weights are trained."""
    lora_modules: Annotated[tuple[LoraModule, ...], Field(min_length=1)] = (ALL_LINEAR,)
    """Linear layers that have an adapter."""
    risk: Annotated[float, Field(ge=0.01, le=0.5)] = USUAL_RISK
    """The probability of running out of memory that is accepted: of plans with no more, the fastest is best."""
    tokens: Annotated[int, Field(gt=0, le=10**18, strict=True)] | None = None
    """Tokens to train on in all; None: not given."""
    assumptions: tuple[str, ...] = ()
    """What was not given and had to be assumed, for the user's eyes."""

    @property
    def modules_text(self) -> str:
        """The linear layers that have an adapter, as a user names them."""
        return ",".join(self.lora_modules)

    @property
    def attended_length(self) -> int:
        """Tokens of what attends to itself: a document, or a sequence that is one; documents are cut where it ends."""
        return min(self.document_length or self.sequence_length, self.sequence_length)

    @property
    def tokens_per_step(self) -> int:
        """Tokens in one optimizer step."""
        return self.sequence_length * self.global_batch

    @model_validator(mode="after")
    def _step(self) -> Self:
        if self.tokens_per_step > MAX_TOKENS_PER_STEP:
            raise ValueError(
                f"sequence_length {self.sequence_length} x global_batch {self.global_batch} = {self.tokens_per_step} "
                f"tokens in a step; at most {MAX_TOKENS_PER_STEP} are planned for"
            )
        return self


def batch_of_tokens(tokens: str, sequence_length: int) -> tuple[int, tuple[str, ...]]:
    """Sequences in a global batch given in tokens, and what was assumed to get there.

    A count that is no whole number of sequences is taken in powers of two, as batches usually are, where that fits:
    `4M` tokens of 8192 are 4 * 2**20 / 8192 = 512 sequences. Raises `InvalidInput` with the nearest counts.

    >>> batch_of_tokens("4M", 8192)[0]
    512
    """
    count = parse_count(tokens)
    if count > MAX_TOKENS_PER_STEP:
        raise InvalidInput(
            f"a global batch of {quoted(tokens)} tokens is beyond the {MAX_TOKENS_PER_STEP} that are planned for"
        )
    if count and count % sequence_length == 0:
        return count // sequence_length, ()
    binary = count_in_powers_of_two(tokens)
    if binary and binary % sequence_length == 0:
        return binary // sequence_length, (f"{tokens} tokens in a batch are taken as {binary} (powers of two)",)
    below = count // sequence_length
    choices = [str(sequences * sequence_length) for sequences in (below, below + 1) if sequences]
    raise InvalidInput(
        f"a global batch of {tokens} tokens is no whole number of sequences of {sequence_length}; "
        f"nearest: {' or '.join(choices)}"
    )


def parse_modules(names: str) -> tuple[str, ...]:
    """Modules from `all-linear` or from names that commas separate; raises `InvalidInput` for one that is not known.

    >>> parse_modules("q_proj, v_proj")
    ('q_proj', 'v_proj')
    """
    modules = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    if unknown := [name for name in modules if name not in (ALL_LINEAR, *LORA_MODULES)]:
        raise InvalidInput(
            f"adapters stand beside {ALL_LINEAR} or {', '.join(LORA_MODULES)}; {quoted(unknown[0])} is none of these"
        )
    return modules


_READ: dict[str, Callable[[Any], Any]] = {
    "precision": partial(catalog.resolve, "precisions"),
    "tokens": parse_count,
    "lora_modules": parse_modules,
}
"""How fields are read from what users write, where they are not taken as they stand."""


def job_of(
    sequence_length: int, global_batch: int | None = None, global_batch_tokens: str | None = None, **others: Any
) -> Job:
    """A job from what a user writes: the batch in sequences or in tokens, counts with `k`, `M`, `B`, `T`.

    others: of `JOB_OPTIONS` by their names; None: not given. Raises `InvalidInput` when neither or both batches are
    given, or both an imbalance of experts and the capacity that evens it out, or modules that have no adapters or no
    rank, `UnknownName` for a precision without a recipe, `InvalidSpec` for what a job does not have.
    """
    imbalance, capacity = others.get("expert_imbalance"), others.get("expert_capacity")
    modules = others.get("lora_modules")
    if imbalance is not None and capacity is not None:
        raise InvalidInput(
            f"an expert capacity of {capacity:g} gives all ranks the same rows, so that an expert imbalance of "
            f"{imbalance:g} would change nothing; give one of the two"
        )
    if modules not in (None, "", ALL_LINEAR) and not others.get("lora_rank"):
        raise InvalidInput(f"adapters of {modules} need a rank: add --lora-rank 16, or leave out --lora-modules")
    if (global_batch is None) == (global_batch_tokens is None):
        batches = "neither is given" if global_batch is None else "both are given"
        raise InvalidInput(f"give either --global-batch in sequences or --global-batch-tokens; {batches}")
    if sequence_length < 1:
        raise InvalidInput(f"the sequence length is {sequence_length}; it must be 1 token or more")
    assumed: tuple[str, ...] = ()
    if global_batch_tokens is not None:
        global_batch, assumed = batch_of_tokens(global_batch_tokens, sequence_length)
    given = {name: value for name, value in others.items() if value is not None and (value or name != "lora_modules")}
    read = {name: _READ[name](value) if name in _READ else value for name, value in given.items()}
    return Job(sequence_length=sequence_length, global_batch=global_batch, assumptions=assumed, **read)
