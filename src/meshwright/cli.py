"""The command `meshwright`: thin; every answer is made elsewhere."""

from __future__ import annotations

import codecs
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from meshwright import errors
from meshwright.textbook.cli import app as textbook
from meshwright.units import parse_count

if TYPE_CHECKING:
    from meshwright.layout.plan import Plan
    from meshwright.specs.inputs import Inputs

app = typer.Typer(
    name="meshwright",
    help="Plan distributed training of large language models: which layout fits, how fast it is, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _count(text: str) -> int:
    """A whole number as `parse_count` reads it, or with a sign, which others have better words against."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return parse_count(text)
    except errors.InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def _positive(text: str) -> int:
    """A whole number of 1 or more."""
    count = _count(text)
    if count < 1:
        raise typer.BadParameter(f"{errors.quoted(count)}: it must be 1 or more")
    return count


ModelName = Annotated[str, typer.Option("--model", help="config.json, its folder, a TOML file or a catalogue name")]
ClusterName = Annotated[str, typer.Option("--cluster", help="NODESxGPUS:ACCELERATOR, a catalogue name or a TOML file")]
SEQUENCE_HELP = "tokens in one sequence; 8k is 8000"
SequenceLength = Annotated[int, typer.Option("--seq-len", parser=_count, metavar="COUNT", help=SEQUENCE_HELP)]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", parser=_count, metavar="COUNT", help="sequences in one step")
]
GlobalBatchTokens = Annotated[
    str | None,
    typer.Option(metavar="COUNT", help="instead of --global-batch: tokens in one step; 4M is 4194304 where that fits"),
]
Precision = Annotated[str, typer.Option(help="bf16 or fp16")]
Tokens = Annotated[str | None, typer.Option(metavar="COUNT", help="tokens to train on in all, as 15T")]
RuntimeName = Annotated[str, typer.Option("--runtime", help="a runtime of the catalogue")]
TextOnly = Annotated[bool, typer.Option("--text-only", help="of a multimodal model, the language model alone")]
AsJson = Annotated[bool, typer.Option("--json", help="print the plan file instead of a screen")]
Degree = Annotated[int, typer.Option(min=1)]

app.add_typer(textbook, name="textbook")


@app.command()
def plan(
    model: ModelName,
    cluster: ClusterName,
    seq_len: SequenceLength,
    global_batch: GlobalBatch = None,
    global_batch_tokens: GlobalBatchTokens = None,
    precision: Precision = "bf16",
    tokens: Tokens = None,
    runtime: RuntimeName = "megatron-core",
    top: Annotated[int, typer.Option(parser=_positive, metavar="COUNT", help="how many plans to show")] = 5,
    text_only: TextOnly = False,
    as_json: AsJson = False,
) -> None:
    """Find the best plans for a model on a cluster."""
    from meshwright.answers.plan_file import plan_document
    from meshwright.answers.plan_table import plan_screen
    from meshwright.answers.progress import shown_progress
    from meshwright.search.find import find
    from meshwright.search.rescue import nothing_fits

    batch = (global_batch, global_batch_tokens)
    inputs = _inputs(model, cluster, seq_len, batch, precision, tokens, runtime, text_only)
    with shown_progress() as progress:
        found = find(inputs, top=top, progress=progress)
        if not found.best:
            raise nothing_fits(found)
    _show(plan_document(found) if as_json else plan_screen(found), as_json)


@app.command()
def explain(
    context: typer.Context,
    plan_file: Annotated[Path | None, typer.Argument(help="a plan file, instead of all the options")] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="which plan of the file; default: the first")] = None,
    model: Annotated[str | None, typer.Option(help="as in plan")] = None,
    cluster: Annotated[str | None, typer.Option(help="as in plan")] = None,
    seq_len: Annotated[int | None, typer.Option(parser=_count, metavar="COUNT", help=SEQUENCE_HELP)] = None,
    global_batch: GlobalBatch = None,
    global_batch_tokens: GlobalBatchTokens = None,
    precision: Precision = "bf16",
    tokens: Tokens = None,
    runtime: RuntimeName = "megatron-core",
    tp: Degree = 1,
    sp: Annotated[bool | None, typer.Option(help="default: on where tp > 1 and the runtime has it")] = None,
    cp: Degree = 1,
    pp: Degree = 1,
    vpp: Degree = 1,
    dp: Annotated[int | None, typer.Option(min=1, help="default: what the other degrees leave")] = None,
    ep: Degree = 1,
    etp: Degree = 1,
    zero: Annotated[
        int | None, typer.Option(min=0, max=3, help="default: 1 where dp > 1 and the runtime has it")
    ] = None,
    micro_batch: Degree = 1,
    recompute: Annotated[str, typer.Option(help="none, selective or full")] = "none",
    text_only: TextOnly = False,
    as_json: AsJson = False,
) -> None:
    """Price one plan and show where its memory and time go."""
    import time

    from meshwright.answers.explain_table import explain_screen
    from meshwright.answers.plan_file import explain_document
    from meshwright.cost.step import estimate_each
    from meshwright.layout.legality import require_legal
    from meshwright.layout.named import plan_of

    started = time.perf_counter()
    if plan_file:
        _refuse_beside_file(context)
        inputs, chosen = _from_plan_file(plan_file, rank or 1)
    else:
        if rank is not None:
            raise errors.InvalidInput("--rank chooses a plan of a file: meshwright explain PLAN.json --rank 2")
        needed = {"--model": model, "--cluster": cluster, "--seq-len": seq_len}
        missing = [name for name, value in needed.items() if value is None]
        if missing or model is None or cluster is None or seq_len is None:
            raise errors.InvalidInput(
                f"explain needs {', '.join(missing)}, or a plan file: meshwright explain PLAN.json"
            )
        batch = (global_batch, global_batch_tokens)
        inputs = _inputs(model, cluster, seq_len, batch, precision, tokens, runtime, text_only)
        axes = {"tp": tp, "cp": cp, "pp": pp, "vpp": vpp, "ep": ep, "etp": etp, "micro_batch": micro_batch}
        chosen = plan_of(inputs, **axes, sp=sp, dp=dp, zero=zero, recompute=recompute)
    require_legal(chosen, inputs)
    estimate = estimate_each([chosen], inputs)[0]
    document = explain_document(estimate, inputs, time.perf_counter() - started)
    _show(document if as_json else explain_screen(estimate, inputs), as_json)


@app.command(name="model")
def show_model(
    source: Annotated[str, typer.Argument(help="config.json, its folder, a TOML file or a catalogue name")],
    text_only: TextOnly = False,
    as_json: AsJson = False,
) -> None:
    """Show a model's architecture, its parameters by part, and the degrees that divide it."""
    from meshwright.answers.model_table import model_document, model_screen
    from meshwright.specs.read_model import read_model

    model = read_model(source, text_only=text_only)
    _show(model_document(model) if as_json else model_screen(model), as_json)


@app.command()
def catalog(
    kind: Annotated[str, typer.Argument(help="models, accelerators, clusters or runtimes")],
    name: Annotated[str | None, typer.Argument(help="one entry, with its sources")] = None,
    as_json: AsJson = False,
) -> None:
    """List what the catalogue holds, or show one entry with its sources."""
    from meshwright.answers.catalog_table import catalog_document, catalog_screen

    _show(catalog_document(kind, name) if as_json else catalog_screen(kind, name), as_json)


def main() -> None:
    """Run the command; it exits with 2 for a wrong question, 3 where no plan fits, 1 where no answer is written."""
    codecs.register_error("plain", _plain)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="plain")
    try:
        app()
    except errors.InvalidInput as error:
        _fail(error, 2)
    except errors.NothingFits as error:
        _fail(error, 3)
    except OSError as error:
        if error.filename is not None:
            raise
        _fail(f"cannot write the answer: {error.strerror}", 1)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What a terminal shows in place of characters that it does not have: bars stay bars."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join("#" if character == "█" else "?" for character in missing), error.end


def _fail(error: object, code: int) -> NoReturn:
    print(f"meshwright: {error}", file=sys.stderr)
    sys.exit(code)


def _inputs(
    model: str,
    cluster: str,
    seq_len: int,
    batch: tuple[int | None, str | None],
    precision: str,
    tokens: str | None,
    runtime: str,
    text_only: bool,
) -> Inputs:
    from meshwright.answers.ask import given
    from meshwright.specs.job import job_of
    from meshwright.specs.read_model import read_model

    job = job_of(seq_len, *batch, precision=precision, tokens=tokens)
    return given(read_model(model, text_only=text_only), cluster, job, runtime)


def _refuse_beside_file(context: typer.Context) -> None:
    """Refuse options that a plan file already answers."""
    answered = [param for param in context.command.params if param.name not in ("plan_file", "rank", "as_json")]
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


def _show(answer: Any, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(answer, indent=2, allow_nan=False), flush=True)
        return
    from rich.console import Console

    Console(markup=False, emoji=False, highlight=False).print(answer)


if __name__ == "__main__":
    main()
