"""Options that commands share: their types, help and parsers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from meshwright import errors
from meshwright.cli import completion
from meshwright.units import count_in_powers_of_two, parse_count, parse_seconds


def count(text: str) -> int:
    """A whole number as `parse_count` reads it, or with a sign, which others have better words against."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return parse_count(text)
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def length(text: str) -> int:
    """A sequence length: `8k` is 8192, because lengths are counted in powers of two."""
    return count_in_powers_of_two(text) or count(text)


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    whole = count(text)
    if whole < 1:
        raise typer.BadParameter(f"{errors.quoted(whole)}: it must be 1 or more")
    return whole


def ratio(text: str) -> float:
    """A number, whole or not."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{errors.quoted(text)} is not a number") from None


def share(text: str) -> float:
    """A share of one, as `0.05` or `5%`."""
    return ratio(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def seconds(text: str) -> float:
    """A duration, as `10s`; a number without a unit is seconds too."""
    try:
        whole = parse_seconds(text if text[-1:].isalpha() else f"{text}s")
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from None
    if not 0 < whole < math.inf:
        raise typer.BadParameter(f"{errors.quoted(text)}: it must be more than 0, as 10s")
    return whole


MODEL_HELP = "config.json, its folder, a TOML file or a catalogue name"
CLUSTER_HELP = "NODESxGPUS:ACCELERATOR, a catalogue name or a TOML file"
Network = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="what a node sends to others, as 10Gb/s or 8x400Gb/s; default: as the cluster"),
]
ModelIfAny = Annotated[str | None, typer.Option("--model", autocompletion=completion.models, help="as in plan")]
SequenceLength = Annotated[
    int | None,
    typer.Option(
        "--seq-len", parser=length, metavar="COUNT", help="tokens in one sequence, 8k is 8192; default: 8k at most"
    ),
]
GlobalBatch = Annotated[
    int | None,
    typer.Option("--global-batch", parser=count, metavar="COUNT", help="sequences in one step; default: of 4M tokens"),
]
GlobalBatchTokens = Annotated[
    str | None,
    typer.Option(metavar="COUNT", help="instead of --global-batch: tokens in one step; 4M is 4194304 where that fits"),
]
Precision = Annotated[
    str,
    typer.Option(
        autocompletion=completion.precisions,
        help="bf16, fp16, fp8, fp8-delayed, fp8-rowwise, fp8-blockwise, mxfp8 or nvfp4",
    ),
]
Gradients = Annotated[
    str | None, typer.Option(help="fp32 or half: what gradients are summed in; default: as the runtime does it")
]
Tokens = Annotated[str | None, typer.Option(metavar="COUNT", help="tokens to train on in all, as 15T")]
RuntimeName = Annotated[
    str,
    typer.Option(
        "--runtime",
        autocompletion=completion.runtimes,
        help="a runtime of the catalogue, or NAME@RELEASE; plan also takes all, for every runtime side by side",
    ),
]
Behaviours = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="KEY=VALUE", help="replaces a behaviour of the runtime, as overlap.expert=0.7; repeatable"
    ),
]
Dispatcher = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="tokens to experts by all_to_all, all_gather or fused; default: as the runtime"),
]
ExpertImbalance = Annotated[
    float | None,
    typer.Option(
        parser=ratio, metavar="RATIO", help="tokens of the busiest rank's experts over the mean; default: as is usual"
    ),
]
ExpertCapacity = Annotated[
    float | None,
    typer.Option(
        parser=ratio, metavar="RATIO", help="rows of every expert over the mean, dropped and padded; default: no limit"
    ),
]
Risk = Annotated[
    float | None,
    typer.Option(
        parser=share,
        metavar="SHARE",
        help="the probability of running out of memory that is accepted, from 1% to 50%; default: 10%",
    ),
]
MtpLayers = Annotated[
    int | None,
    typer.Option(min=0, help="layers of multi-token prediction to train; default: the model's, if the runtime can"),
]
Measured = Annotated[
    Path | None,
    typer.Option(metavar="RUNS.csv", help="runs of this site, as validate takes them; they set its kernels' speed"),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        parser=seconds, metavar="TIME", help="as 10s: then the best so far, with exit code 130, as Ctrl-C does at once"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(parser=positive, metavar="COUNT", help="processes that share the work; default: one for each core"),
]
TextOnly = Annotated[bool, typer.Option("--text-only", help="of a multimodal model, the language model alone")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of a screen")]
More = Annotated[bool, typer.Option("--more", help="print the whole answer, not one screen of it")]
Price = Annotated[
    list[str] | None, typer.Option(metavar="PRICE", help="of an hour of one accelerator, as 2.9 or h100=2.9")
]
Cite = Annotated[bool, typer.Option("--cite", help="add the papers and the data behind the answer")]
AXES = {
    "tp": "tensor-parallel degree",
    "cp": "context-parallel degree",
    "pp": "pipeline stages",
    "vpp": "virtual stages (chunks) of a pipeline rank",
    "dp": "data-parallel degree",
    "ep": "expert-parallel degree",
    "etp": "tensor-parallel degree of experts",
    "zero": "ZeRO stage, 0 to 3",
    "micro_batch": "sequences in a micro-batch",
}
"""What an axis of a plan is, for help."""
Allowed = Annotated[str | None, typer.Option(metavar="VALUES")]
AllowedRecomputation = Annotated[str | None, typer.Option(metavar="NAMES", help="of none, selective and full")]
AllowedModules = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="that selective may recompute, as layernorm,mlp"),
]
AllowedSchedule = Annotated[str | None, typer.Option(metavar="NAMES", help="as 1f1b,interleaved")]
AllowedExchange = Annotated[str | None, typer.Option(metavar="NAMES", help="with cp, as ring,all_gather")]
WithSequenceParallel = Annotated[
    bool | None,
    typer.Option("--sp/--no-sp", help="beside tp, with sequence parallelism or without"),
]
EvenChunks = Annotated[bool, typer.Option("--even-chunks", help="every chunk holds as many layers")]
MostNodes = Annotated[int | None, typer.Option(min=1, help="nodes that one tensor-parallel group may touch")]
Degree = Annotated[int, typer.Option(min=1)]
