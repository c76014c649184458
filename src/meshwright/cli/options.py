"""Options that commands share: their types, help and parsers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright import errors
from meshwright.cli import completion
from meshwright.specs.defaults import DEFAULT_RUNTIME
from meshwright.specs.job_options import COUNT, LENGTH, RATIO, RECIPE, SHARE, WHOLE, JobOption
from meshwright.units import count_in_powers_of_two, parse_count, parse_seconds, parse_share


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
    try:
        return parse_share(text)
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def seconds(text: str) -> float:
    """A duration, as `10s`; a number without a unit is seconds too."""
    try:
        whole = parse_seconds(text if text[-1:].isalpha() else f"{text}s")
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from None
    if not 0 < whole < math.inf:
        raise typer.BadParameter(f"{errors.quoted(text)}: it must be more than 0, as 10s")
    return whole


PARSERS = {LENGTH: length, COUNT: count, RATIO: ratio, SHARE: share}
"""How the command line reads values of a kind, where not by their type."""


def job_option(option: JobOption) -> Any:
    """The type of an option of a job, with its help and its parser."""
    least = 0 if option.kind is WHOLE else None
    names = completion.precisions if option.kind is RECIPE else None
    parser, metavar = PARSERS.get(option.kind), option.kind.metavar
    about = typer.Option(min=least, parser=parser, metavar=metavar, autocompletion=names, help=option.help)
    return Annotated[option.type, about]


MODEL_HELP = "config.json, its folder, a TOML file or a catalogue name"
CLUSTER_HELP = "NODESxGPUS:ACCELERATOR, a catalogue name or a TOML file"
Network = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="bandwidth out of a node, such as 10Gb/s or 8x400Gb/s; default: the cluster's"),
]
ModelIfAny = Annotated[str | None, typer.Option("--model", autocompletion=completion.models, help="as in plan")]
RuntimeName = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        autocompletion=completion.runtimes,
        help="training framework, as NAME or NAME@RELEASE; with plan, all compares every runtime; "
        f"default: {DEFAULT_RUNTIME}",
    ),
]
Behaviours = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="KEY=VALUE", help="change how the runtime behaves, such as overlap.expert=0.7; repeatable"
    ),
]
Dispatcher = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="token dispatcher: all_to_all, all_gather or fused; default: the runtime's"),
]
Measured = Annotated[
    Path | None,
    typer.Option(metavar="RUNS.csv", help="measured runs of your site (see validate), to calibrate kernel speed"),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="TIME",
        help="stop after this time, such as 10s, and print the best so far (exit code 130)",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(parser=positive, metavar="COUNT", help="worker processes; default: one per core"),
]
TextOnly = Annotated[bool, typer.Option("--text-only", help="plan only the language model of a multimodal model")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
More = Annotated[bool, typer.Option("--more", help="print the full answer, not one screen of it")]
Price = Annotated[
    list[str] | None, typer.Option(metavar="PRICE", help="price of one accelerator-hour, such as 2.9 or h100=2.9")
]
Cite = Annotated[bool, typer.Option("--cite", help="also print the papers and data behind the answer")]
AXES = {
    "tp": "tensor-parallel degree",
    "cp": "context-parallel degree",
    "pp": "pipeline stages",
    "vpp": "virtual stages (chunks) per pipeline rank",
    "dp": "data-parallel degree",
    "ep": "expert-parallel degree",
    "etp": "tensor-parallel degree of experts",
    "zero": "ZeRO stage, 0 to 3",
    "micro_batch": "sequences per micro-batch",
}
"""What an axis of a plan is, for help."""
Allowed = Annotated[str | None, typer.Option(metavar="VALUES")]
AllowedRecomputation = Annotated[str | None, typer.Option(metavar="NAMES", help="none, selective or full")]
AllowedModules = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="modules that selective may recompute, such as layernorm,mlp"),
]
AllowedSchedule = Annotated[str | None, typer.Option(metavar="NAMES", help="such as 1f1b,interleaved")]
AllowedExchange = Annotated[str | None, typer.Option(metavar="NAMES", help="used by cp, such as ring,all_gather")]
WithSequenceParallel = Annotated[
    bool | None,
    typer.Option("--sp/--no-sp", help="with tp, use sequence parallelism or not"),
]
EvenChunks = Annotated[bool, typer.Option("--even-chunks", help="give every chunk the same number of layers")]
MostNodes = Annotated[int | None, typer.Option(min=1, help="most nodes that a tensor-parallel group may span")]
Degree = Annotated[int, typer.Option(min=1)]
