"""The commands `meshwright textbook …`: every answer is made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meshwright.cli.groups import grouped
from meshwright.cli.help import Command, Group
from meshwright.cli.options import AsJson
from meshwright.cli.show import show

if TYPE_CHECKING:
    from meshwright.answers.document.blocks import Block
    from meshwright.specs.model import Model
    from meshwright.textbook.comparison.rows import PlannerComparison

app = typer.Typer(
    cls=Group,
    help="Run published closed-form calculators exactly as published, next to the planner.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Whole = Annotated[int | None, typer.Option()]
Degree = Annotated[int | None, typer.Option(help="default 1")]
Tokens = Annotated[int | None, typer.Option("--sequence-length", "--seq-len", help="tokens")]
ModelName = Annotated[str | None, typer.Option("--model", help="config.json, its folder or a catalogue name")]
ClusterName = Annotated[
    str | None, typer.Option("--cluster", help="compare with the planner on NODESxGPUS:ACCELERATOR")
]


@dataclass(frozen=True, kw_only=True)
class AnalyzerOptions:
    """What `analyze_4d_parallelism` is given."""

    num_layers: Whole = None
    hidden_size: Whole = None
    vocab_size: Whole = None
    seq_len: Whole = None
    micro_batch_size: Whole = None
    num_micro_batches: Whole = None
    dp: Whole = None
    tp: Whole = None
    pp: Whole = None
    sp: Whole = None
    num_gpus: Whole = None
    memory_per_gpu_gb: Annotated[float | None, typer.Option(help="1e9 bytes")] = None


@dataclass(frozen=True, kw_only=True)
class AllReduceOptions:
    """What `tensor_parallel_allreduce_cost` is given."""

    hidden_size: Annotated[int, typer.Option(help="elements")]
    sequence_length: Annotated[int, typer.Option("--sequence-length", "--seq-len", help="tokens")]
    num_gpus: Annotated[int, typer.Option(help="tensor-parallel degree")]
    num_layers: Annotated[int, typer.Option()]
    batch_size: Annotated[int, typer.Option(help="sequences per micro-batch")] = 1
    bytes_per_element: Annotated[int, typer.Option()] = 2
    bandwidth_gb_per_sec: Annotated[float, typer.Option(help="bandwidth of one GPU, in 1e9 bytes/s")] = 300.0
    allreduces_per_layer: Annotated[int, typer.Option(help="2 for the forward pass, 4 for training")] = 2


@dataclass(frozen=True, kw_only=True)
class EstimatorSizes:
    """Sizes that `estimate_4d_memory` is given."""

    hidden_size: Whole = None
    ffn_hidden_size: Whole = None
    num_layers: Whole = None
    num_attention_heads: Whole = None
    num_key_value_heads: Whole = None
    vocab_size: Whole = None
    sequence_length: Tokens = None
    micro_batch_size: Annotated[int, typer.Option("--micro-batch-size", "--micro-batch", help="sequences")] = 1
    gpu_memory_gb: Annotated[float | None, typer.Option(help="in 1e9 bytes; default: --cluster's, else 80")] = None


@dataclass(frozen=True, kw_only=True)
class EstimatorDegrees:
    """The degrees of its configuration."""

    tp: Degree = None
    pp: Degree = None
    cp: Degree = None
    dp: Degree = None


@app.command(cls=Command)
@grouped
def analyze(
    file: Annotated[
        Path | None, typer.Argument(help="JSON: model_config, parallel_config, hardware_config; flags override it")
    ] = None,
    *,
    model: ModelName = None,
    options: AnalyzerOptions,
    cluster: ClusterName = None,
    explain: Annotated[bool, typer.Option("--explain", help="also print formulas and bytes per step")] = False,
    as_json: AsJson = False,
) -> None:
    """The 4D analyzer: parameters, memory, traffic and bubble for one (dp, tp, pp, sp)."""
    from meshwright.textbook.analyzer import analyze_4d_parallelism
    from meshwright.textbook.questions import analyzer_question, model_to_compare
    from meshwright.textbook.screens import analysis_screen

    architecture = _model(model)
    config, parallel, hardware = analyzer_question(file, vars(options), architecture, cluster)
    answer = analyze_4d_parallelism(config, parallel, hardware, explain=explain or not as_json)
    comparison = None
    if cluster:
        from meshwright.textbook.comparison.analyzer import compare_analysis

        comparison = compare_analysis(model_to_compare(architecture, cluster), cluster, config, parallel, answer)
    _show(answer, () if as_json else analysis_screen(answer, explain), comparison, as_json)


@app.command(cls=Command)
@grouped
def allreduce(options: AllReduceOptions, as_json: AsJson = False) -> None:
    """Bytes and time of the tensor-parallel all-reduces for one micro-batch."""
    from meshwright.answers.document.blocks import Paragraph
    from meshwright.textbook.allreduce import tensor_parallel_allreduce_cost
    from meshwright.textbook.screens import facts_screen

    answer = tensor_parallel_allreduce_cost(**vars(options))
    direction = f"{options.allreduces_per_layer} all-reduces per layer (2: forward only, 4: training)"
    scope = f"per GPU and micro-batch; {direction}, no latency, nothing hidden"
    _show(answer, (facts_screen(answer), Paragraph(scope)), None, as_json)


@app.command(cls=Command)
@grouped
def memory(
    *,
    model: ModelName = None,
    sizes: EstimatorSizes,
    degrees: EstimatorDegrees,
    gpus: Annotated[int | None, typer.Option("--gpus", help="list all configurations of this many GPUs")] = None,
    distributed_optimizer: Annotated[bool, typer.Option(help="divide optimizer states by dp x cp")] = True,
    form: Annotated[
        str, typer.Option(help="decided: count the head only on its own stage; literal: as the paper prints it")
    ] = "decided",
    num_micro_batches: Annotated[int | None, typer.Option(min=1, help="for the planner; default: pp")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="use the memory of NODESxGPUS:ACCELERATOR, and compare with the planner")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The 4D memory estimator for Llama models: one configuration, or all of them on --gpus."""
    from meshwright.textbook.memory_space import memory_of_every_configuration
    from meshwright.textbook.questions import memory_answer, memory_question, no_degrees
    from meshwright.textbook.screens import facts_screen, judged_by, space_screen

    architecture = _model(model)
    question = memory_question(vars(sizes), architecture, cluster)
    question |= {"distributed_optimizer": distributed_optimizer, "form": form}
    card = judged_by(question["gpu_memory_gb"], sizes.gpu_memory_gb, cluster)
    if gpus is not None:
        no_degrees(vars(degrees))
        space = memory_of_every_configuration(num_gpus=gpus, **question)
        _show(space, (*space_screen(space), card), None, as_json)
        return
    answer, comparison = memory_answer(question, vars(degrees), num_micro_batches, (architecture, cluster))
    _show(answer, (facts_screen(answer), card), comparison, as_json)


@app.command(cls=Command)
@grouped
def search(
    cluster_metadata: Annotated[Path, typer.Option(help="the searcher's JSON file for the cluster")],
    model_metadata: Annotated[Path, typer.Option(help="the searcher's JSON file for the model")],
    output: Annotated[Path, typer.Option(help="the time of every configuration, JSON")] = Path("output.json"),
    top: Annotated[int, typer.Option(min=1, help="how many configurations to show")] = 5,
    model: Annotated[str | None, typer.Option(help="for the planner: config.json or catalogue name")] = None,
    cluster: Annotated[str | None, typer.Option(help="for the planner: NODESxGPUS:ACCELERATOR")] = None,
    seq_len: Annotated[int | None, typer.Option(help="for the planner: tokens in one sequence")] = None,
    global_batch: Annotated[int | None, typer.Option(help="for the planner; default: global_batch_size")] = None,
    as_json: AsJson = False,
) -> None:
    """The 3D searcher: the fastest (dp, tp, pp) by a simple cost model."""
    from meshwright.textbook.questions import search_answer
    from meshwright.textbook.screens import search_screen

    answer = search_answer((cluster_metadata, model_metadata), output, top, (model, cluster, seq_len, global_batch))
    _show(answer, search_screen(answer), None, as_json)


def _model(name: str | None) -> Model | None:
    if name is None:
        return None
    from meshwright.specs.reading.model import read_model

    return read_model(name)


def _show(
    answer: dict[str, Any], screen: tuple[Block, ...], comparison: PlannerComparison | None, as_json: bool
) -> None:
    """An answer, and the planner's beside it."""
    from meshwright.answers.records import json_of
    from meshwright.textbook.screens import comparison_screen

    if as_json:
        show(answer | ({"planner": json_of(comparison)} if comparison else {}), as_json)
    else:
        show((*screen, *(comparison_screen(comparison) if comparison else ())), as_json)
