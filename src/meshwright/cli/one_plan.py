"""Commands about one plan, given by its degrees or taken from a plan file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meshwright import errors
from meshwright.cli.options import (
    Behaviours,
    Degree,
    ExpertCapacity,
    ExpertImbalance,
    GlobalBatch,
    GlobalBatchTokens,
    Gradients,
    LengthIfAny,
    Measured,
    MtpLayers,
    Precision,
    RuntimeName,
    TextOnly,
    Tokens,
    inputs_of,
)

if TYPE_CHECKING:
    from meshwright.layout.plan import Plan
    from meshwright.specs.inputs import Inputs


END_HELP = "the pipeline split counts it as a layer; default: as the runtime does"


def _one_plan(
    context: typer.Context,
    plan_file: Annotated[Path | None, typer.Argument(help="a plan file, instead of all the options")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="which plan of the file; default: the first")] = None,
    model: Annotated[str | None, typer.Option(help="as in plan")] = None,
    cluster: Annotated[str | None, typer.Option(help="as in plan")] = None,
    seq_len: LengthIfAny = None,
    global_batch: GlobalBatch = None,
    global_batch_tokens: GlobalBatchTokens = None,
    precision: Precision = "bf16",
    gradients: Gradients = None,
    tokens: Tokens = None,
    runtime: RuntimeName = "megatron-core",
    behaviours: Behaviours = None,
    expert_imbalance: ExpertImbalance = None,
    expert_capacity: ExpertCapacity = None,
    mtp_layers: MtpLayers = None,
    measured: Measured = None,
    tp: Degree = 1,
    sp: Annotated[bool | None, typer.Option(help="default: on where tp > 1 and the runtime has it")] = None,
    cp: Degree = 1,
    context_exchange: Annotated[
        str | None, typer.Option(help="ring, all_gather, all_to_all or hierarchical; default: the runtime's first")
    ] = None,
    pp: Degree = 1,
    vpp: Degree = 1,
    dp: Annotated[int | None, typer.Option(min=1, help="default: what the other degrees leave")] = None,
    ep: Degree = 1,
    etp: Degree = 1,
    zero: Annotated[
        int | None,
        typer.Option(min=0, max=3, help="default: 1 where the runtime has it, else its last stage"),
    ] = None,
    dp_replicate: Annotated[
        int, typer.Option(min=1, help="replicas of the sharding group: ZeRO divides over dp x cp / this")
    ] = 1,
    micro_batch: Degree = 1,
    embedding_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None,
    head_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None,
    first_stage_layers: Annotated[int, typer.Option(min=0, help="layers of the first pipeline rank")] = 0,
    last_stage_layers: Annotated[int, typer.Option(min=0, help="layers of the last pipeline rank")] = 0,
    pipeline_layout: Annotated[
        str | None, typer.Option(help="layers of every chunk: 'Et*9|(t*10|)*6t*11L' of Megatron, or 9,10,10,...")
    ] = None,
    microbatch_group: Annotated[
        int, typer.Option(min=0, help="micro-batches of a chunk before the next one; default: as the runtime groups")
    ] = 0,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="pipeline schedule: 1f1b, interleaved, zb-1p, zb-v, ...; default: interleaved with vpp, else 1f1b"
        ),
    ] = None,
    recompute: Annotated[str, typer.Option(help="none, selective or full")] = "none",
    recompute_modules: Annotated[
        str | None, typer.Option(help="with selective: core_attn, layernorm, moe_act, ..., with commas between")
    ] = None,
    recompute_layers: Annotated[
        int, typer.Option(min=0, help="with full: layers of every chunk, its first ones, that are recomputed; 0: all")
    ] = 0,
    text_only: TextOnly = False,
) -> tuple[Inputs, Plan]:
    """The question and the one plan that a command is asked about."""
    from meshwright.layout.named import plan_of

    if plan_file:
        _refuse_beside_file(context)
        return _from_plan_file(plan_file, rank or 1)
    if rank is not None:
        raise errors.InvalidInput(f"--rank chooses a plan of a file: meshwright {context.info_name} PLAN.json --rank 2")
    needed = {"--model": model, "--cluster": cluster, "--seq-len": seq_len}
    missing = [name for name, value in needed.items() if value is None]
    if missing or model is None or cluster is None or seq_len is None:
        raise errors.InvalidInput(
            f"{context.info_name} needs {', '.join(missing)}, or a plan file: meshwright {context.info_name} PLAN.json"
        )
    batch, experts = (global_batch, global_batch_tokens), (expert_imbalance, expert_capacity)
    job = (seq_len, batch, precision, gradients, tokens)
    inputs = inputs_of(model, cluster, *job, runtime, text_only, behaviours, experts, mtp_layers, measured)
    return inputs, plan_of(
        inputs,
        tp=tp,
        sp=sp,
        cp=cp,
        context_exchange=context_exchange,
        pp=pp,
        vpp=vpp,
        dp=dp,
        ep=ep,
        etp=etp,
        zero=zero,
        dp_replicate=dp_replicate,
        micro_batch=micro_batch,
        embedding_as_layer=embedding_as_layer,
        head_as_layer=head_as_layer,
        first_stage_layers=first_stage_layers,
        last_stage_layers=last_stage_layers,
        pipeline_layout=pipeline_layout,
        microbatch_group=microbatch_group,
        schedule=schedule,
        recompute=recompute,
        recompute_modules=recompute_modules,
        recompute_layers=recompute_layers,
    )


def of_one_plan(answer: Callable[..., None]) -> Callable[..., None]:
    """A command about one plan: the options of `_one_plan`, and those of the answer itself."""
    known = {"Inputs": Any, "Plan": Any}
    own = list(inspect.signature(answer, eval_str=True, locals=known).parameters.values())[2:]
    asked = inspect.signature(_one_plan, eval_str=True, locals=known)

    def command(**given: Any) -> None:
        chosen = {each.name: given.pop(each.name) for each in own}
        answer(*_one_plan(**given), **chosen)

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    signature = asked.replace(parameters=[*asked.parameters.values(), *options], return_annotation=None)
    command.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__name__, command.__doc__ = answer.__name__, answer.__doc__
    return command


def _refuse_beside_file(context: typer.Context) -> None:
    """Refuse options that a plan file already answers."""
    asked = inspect.signature(_one_plan).parameters.keys() - {"plan_file", "rank"}
    answered = [param for param in context.command.params if param.name in asked]
    sources = {param.opts[0]: context.get_parameter_source(param.name or "") for param in answered}
    given = [option for option, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        raise errors.InvalidInput(
            f"a plan file holds the whole question, so {', '.join(given)} cannot stand beside it: "
            "leave out one or the other"
        )


def _from_plan_file(path: Path, rank: int) -> tuple[Inputs, Plan]:
    from meshwright.answers.plan_file import read_plan_file

    inputs, plans = read_plan_file(path)
    if rank > len(plans):
        raise errors.InvalidInput(
            f"{str(path)!r} holds {len(plans)} plans; --rank {rank} asks beyond; use 1 to {len(plans)}"
        )
    return inputs, plans[rank - 1]
