"""One plan and its question, given by options or taken from a plan file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meshwright import errors
from meshwright.cli.groups import JobOptions, RuntimeOptions, inputs_of, option_names, refuse_given
from meshwright.cli.options import Degree, Measured, ModelIfAny, TextOnly

if TYPE_CHECKING:
    from meshwright.layout.plan import Plan
    from meshwright.specs.inputs import Inputs

NOT_WITH_A_FILE = "a plan file holds the whole question and cannot be combined with {}: leave out one or the other"
END_HELP = "the pipeline split counts it as a layer; default: as the runtime does"


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The fields of a plan, as `layout.named.plan_of` takes them."""

    tp: Degree = 1
    sp: Annotated[bool | None, typer.Option(help="default: on where tp > 1 and the runtime has it")] = None
    cp: Degree = 1
    context_exchange: Annotated[
        str | None, typer.Option(help="ring, all_gather, all_to_all or hierarchical; default: the runtime's first")
    ] = None
    pp: Degree = 1
    vpp: Degree = 1
    dp: Annotated[int | None, typer.Option(min=1, help="default: what the other degrees leave")] = None
    ep: Degree = 1
    etp: Degree = 1
    zero: Annotated[
        int | None,
        typer.Option(min=0, max=3, help="default: 1 where the runtime has it, else its last stage"),
    ] = None
    dp_replicate: Annotated[
        int, typer.Option(min=1, help="replicas of the sharding group: ZeRO divides over dp x cp / this")
    ] = 1
    micro_batch: Degree = 1
    embedding_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None
    head_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None
    first_stage_layers: Annotated[int, typer.Option(min=0, help="layers of the first pipeline rank")] = 0
    last_stage_layers: Annotated[int, typer.Option(min=0, help="layers of the last pipeline rank")] = 0
    pipeline_layout: Annotated[
        str | None, typer.Option(help="layers of every chunk: 'Et*9|(t*10|)*6t*11L' of Megatron, or 9,10,10,...")
    ] = None
    microbatch_group: Annotated[
        int, typer.Option(min=0, help="micro-batches of a chunk before the next one; default: as the runtime groups")
    ] = 0
    schedule: Annotated[
        str | None,
        typer.Option(
            help="pipeline schedule: 1f1b, interleaved, zb-1p, zb-v, ...; default: interleaved with vpp, else 1f1b"
        ),
    ] = None
    recompute: Annotated[str, typer.Option(help="none, selective or full")] = "none"
    recompute_modules: Annotated[
        str | None, typer.Option(help="with selective: core_attn, layernorm, moe_act, ..., with , or + between")
    ] = None
    recompute_layers: Annotated[
        int, typer.Option(min=0, help="with full: layers of every chunk, its first ones, that are recomputed; 0: all")
    ] = 0


@dataclass(frozen=True, kw_only=True)
class OnePlanOptions:
    """A plan and its question, or a plan file that holds both."""

    plan_file: Annotated[Path | None, typer.Argument(help="a plan file, instead of all the options")] = None
    rank: Annotated[int | None, typer.Option(min=1, help="which plan of the file; default: the first")] = None
    model: ModelIfAny = None
    cluster: Annotated[str | None, typer.Option(help="as in plan")] = None
    job: JobOptions
    framework: RuntimeOptions
    measured: Measured = None
    plan: PlanOptions
    text_only: TextOnly = False


def inputs_and_plan(context: typer.Context, asked: OnePlanOptions) -> tuple[Inputs, Plan]:
    """The question and the one plan that a command is asked about."""
    from meshwright.layout.named import plan_of

    if asked.plan_file:
        refuse_given(context, {*option_names(OnePlanOptions)} - {"plan_file", "rank"}, NOT_WITH_A_FILE)
        return _from_plan_file(asked.plan_file, asked.rank or 1)
    command, model, cluster = context.info_name, asked.model, asked.cluster
    if asked.rank is not None:
        raise errors.InvalidInput(f"--rank chooses a plan of a file: meshwright {command} PLAN.json --rank 2")
    needed = {"--model": model, "--cluster": cluster, "--seq-len": asked.job.seq_len}
    missing = [name for name, value in needed.items() if value is None]
    if missing or model is None or cluster is None:
        raise errors.InvalidInput(
            f"{command} needs {', '.join(missing)}, or a plan file: meshwright {command} PLAN.json"
        )
    inputs = inputs_of(model, cluster, asked.job, asked.framework, asked.text_only, asked.measured)
    return inputs, plan_of(inputs, **vars(asked.plan))


def _from_plan_file(path: Path, rank: int) -> tuple[Inputs, Plan]:
    from meshwright.answers.plan_file import read_plan_file

    inputs, plans = read_plan_file(path)
    if rank > len(plans):
        raise errors.InvalidInput(
            f"{str(path)!r} holds {len(plans)} plans; --rank {rank} is too large; use 1 to {len(plans)}"
        )
    return inputs, plans[rank - 1]
