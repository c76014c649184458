"""Job options: one record for each that users give a job, from which the command line, the form, sweeps, tables of runs
and published options have it; importing them costs a help page nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, get_args

from meshwright.errors import InvalidInput, quoted
from meshwright.specs.defaults import DEFAULT_PRECISION
from meshwright.units import format_count, parse_count, parse_length, parse_share

GradientFormat = Literal["fp32", "half"]
GRADIENTS: tuple[str, ...] = get_args(GradientFormat)
ALL_LINEAR = "all-linear"
MOST_DIGITS = 18
"""Of a whole number; Python reads none of thousands."""


def _positive(count: int) -> int:
    if count < 1:
        raise InvalidInput(f"must be 1 or more (given: {count})")
    return count


def _length(value: Any) -> int:
    return _positive(parse_length(value))


def _count(value: Any) -> int:
    return _positive(parse_count(value))


def _count_text(value: Any) -> str:
    return str(value) if _count(value) else ""


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{quoted(value)} is not a number: write it as 1.2")
    return number


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not (isinstance(value, str) and value.isdecimal() and len(value) <= MOST_DIGITS):
        raise InvalidInput(f"{quoted(value)} is no whole number")
    return int(value)


def _gradients(value: Any) -> str:
    if value not in GRADIENTS:
        raise InvalidInput(f"{quoted(value)} is unknown; known: {', '.join(GRADIENTS)}")
    return str(value)


class Kind(NamedTuple):
    """What users write for an option, and what it is."""

    type: type[int | float | str]
    """As `job_of` takes it."""
    column: Literal["count", "number", "text"]
    """Of a table that has it."""
    reads: Callable[[Any], Any] | None
    """The same from text of a form or a value of a file; raises `InvalidInput`; None: a knob of sweeps, read apart."""
    metavar: str | None = None
    """What stands for it in help; None: by its type."""


LENGTH = Kind(int, "count", _length, metavar="COUNT")
COUNT = Kind(int, "count", _count, metavar="COUNT")
BIG_COUNT = Kind(str, "count", _count_text, metavar="COUNT")
WHOLE = Kind(int, "count", _whole)
RATIO = Kind(float, "number", _number, metavar="RATIO")
SHARE = Kind(float, "number", parse_share, metavar="SHARE")
FORMAT = Kind(str, "text", _gradients)
RECIPE = Kind(str, "text", None)
NAMES = Kind(str, "text", str, metavar="NAMES")


@dataclass(frozen=True)
class JobOption:
    """One option."""

    name: str
    """Of the option of commands, with `_` for `-`, the field of the form and the key of a sweep's `[jobs]`."""
    kind: Kind
    help: str
    """Of commands."""
    _: KW_ONLY
    default: Any = None
    """Of commands; None: what `Job` takes where nothing is given."""
    panel: Literal["job", "framework"] = "job"
    """The group of options of commands in which it stands."""
    of_job: str = ""
    """The field of `Job`, where that has another name."""
    in_place_of: str = ""
    """The option that says the same of a job."""
    only_with: str = ""
    """The option without which it says nothing."""
    form: tuple[str, str] | None = None
    """Its label and help in the form, among what few ask; None: the form asks for it by itself, or not at all."""
    choices: tuple[str, ...] = ()
    """All that the form lets users choose."""
    words: str = "{}"
    """In the series of a sweep, with a place for the value."""
    words_of_none: str = ""
    """The same of 0, where that says otherwise."""
    of_step: bool = True
    """Whether it changes what a step takes."""
    in_runs: bool = False
    """Whether tables of runs have a column of its name, blank where it is not given."""

    @property
    def field(self) -> str:
        """The field of `Job`."""
        return self.of_job or self.in_place_of or self.name

    @property
    def type(self) -> Any:
        """What a command, or a function of Python, takes for it."""
        return self.kind.type if self.default is not None else self.kind.type | None

    def of(self, job: Any) -> Any:
        """Of a `Job` what `job_of` takes for it."""
        value = job.modules_text if self.kind is NAMES else getattr(job, self.field)
        return str(value) if value and self.kind is BIG_COUNT else value

    def said(self, value: Any) -> str:
        """A value in words."""
        words = self.words if value else self.words_of_none or self.words
        return words.format(format_count(value) if self.kind is BIG_COUNT else value)


JOB_OPTIONS = (
    JobOption(
        "seq_len",
        LENGTH,
        "tokens per sequence (8k is 8192); default: at most 8k",
        of_job="sequence_length",
        words="sequences of {}",
    ),
    JobOption("global_batch", COUNT, "sequences per step; default: about 4M tokens", words="batch {}"),
    JobOption(
        "global_batch_tokens",
        BIG_COUNT,
        "tokens per step, instead of --global-batch; 4M is 4194304 where that fits",
        in_place_of="global_batch",
    ),
    JobOption(
        "document_length",
        LENGTH,
        "tokens per document packed into a sequence; attention stays within each",
        form=("Document length", "tokens; attention stays within documents packed into a sequence"),
        words="documents of {}",
        words_of_none="whole sequences",
        in_runs=True,
    ),
    JobOption(
        "precision",
        RECIPE,
        "bf16, fp16, fp8, fp8-delayed, fp8-rowwise, fp8-blockwise, mxfp8 or nvfp4",
        default=DEFAULT_PRECISION,
    ),
    JobOption(
        "gradients",
        FORMAT,
        "format in which gradients are summed, fp32 or half; default: the runtime's",
        form=("Gradients", "format in which they are summed"),
        choices=GRADIENTS,
        words="gradients {}",
    ),
    JobOption("tokens", BIG_COUNT, "total training tokens, such as 15T", words="{} tokens", of_step=False),
    JobOption(
        "expert_imbalance",
        RATIO,
        "tokens of the busiest rank over the mean; default: as measured in training",
        panel="framework",
        form=("Expert imbalance", "tokens of the busiest rank over the mean, such as 1.2"),
        words="imbalance {:g}",
    ),
    JobOption(
        "expert_capacity",
        RATIO,
        "capacity factor: each expert is padded or cut to this many times the mean tokens; default: no limit",
        panel="framework",
        form=("Expert capacity", "capacity factor, such as 1.25"),
        words="capacity {:g}",
        in_runs=True,
    ),
    JobOption(
        "mtp_layers",
        WHOLE,
        "multi-token prediction layers to train; default: the model's, if the runtime can",
        panel="framework",
        form=("MTP layers", "multi-token prediction layers to train"),
        words="{} prediction layers",
        in_runs=True,
    ),
    JobOption(
        "lora_rank",
        WHOLE,
        "train low-rank adapters of this rank beside frozen weights; 0: train all weights",
        default=0,
        form=("LoRA rank", "train adapters of this rank beside frozen weights"),
        words="LoRA of rank {}",
        words_of_none="all weights",
        in_runs=True,
    ),
    JobOption(
        "lora_modules",
        NAMES,
        "linear layers with an adapter: all-linear, or q_proj,v_proj, ...",
        default=ALL_LINEAR,
        form=("LoRA modules", "linear layers with an adapter, such as q_proj,v_proj; all unless told"),
        words="on {}",
        only_with="lora_rank",
        in_runs=True,
    ),
    JobOption(
        "risk",
        SHARE,
        "accepted probability of running out of memory, from 1% to 50%; default: 10%",
        words="risk {:.0%}",
        of_step=False,
    ),
)
"""In the order of help and of the form."""
READERS = {each.name: each.kind.reads for each in JOB_OPTIONS if each.kind.reads}
"""How the keys of a sweep's `[jobs]` and fields of the form are read; what they return is as `job_or_usual` takes it,
beside the length."""
OF_RUNS = tuple(each for each in JOB_OPTIONS if each.in_runs)
"""Those that have a column in tables of runs."""
