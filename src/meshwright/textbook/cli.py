"""The commands `meshwright textbook …`: thin; every answer is made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from meshwright.specs.model import Model

app = typer.Typer(
    help="The closed-form calculators of the field, exactly as published, beside the planner.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="print the dictionary instead of a table")]
Whole = Annotated[int | None, typer.Option()]
ModelName = Annotated[str | None, typer.Option("--model", help="config.json, its folder or a catalogue name")]
ClusterName = Annotated[
    str | None, typer.Option("--cluster", help="compare with the planner on NODESxGPUS:ACCELERATOR")
]
Form = Annotated[str, typer.Option(help="decided, or literal: the paper's closed form")]


@app.command()
def analyze(
    file: Annotated[
        Path | None, typer.Argument(help="JSON: model_config, parallel_config, hardware_config; flags go before it")
    ] = None,
    model: ModelName = None,
    num_layers: Whole = None,
    hidden_size: Whole = None,
    vocab_size: Whole = None,
    seq_len: Whole = None,
    micro_batch_size: Whole = None,
    num_micro_batches: Whole = None,
    dp: Whole = None,
    tp: Whole = None,
    pp: Whole = None,
    sp: Whole = None,
    num_gpus: Whole = None,
    memory_per_gpu_gb: Annotated[float | None, typer.Option(help="1e9 bytes")] = None,
    cluster: ClusterName = None,
    explain: Annotated[bool, typer.Option("--explain", help="formulas, and volumes per step")] = False,
    as_json: AsJson = False,
) -> None:
    """The 4D analyzer: parameters, memory, traffic and bubble of one (dp, tp, pp, sp)."""
    from meshwright.textbook.analyzer import analyze_4d_parallelism
    from meshwright.textbook.questions import analyzer_question

    architecture = _model(model)
    flags = {"num_layers": num_layers, "hidden_size": hidden_size, "vocab_size": vocab_size, "seq_len": seq_len}
    flags |= {"micro_batch_size": micro_batch_size, "num_micro_batches": num_micro_batches}
    flags |= {"dp": dp, "tp": tp, "pp": pp, "sp": sp, "num_gpus": num_gpus}
    configs = analyzer_question(file, flags | {"memory_per_gpu_gb": memory_per_gpu_gb}, architecture)
    answer = analyze_4d_parallelism(configs[0], configs[1], configs[2], explain=explain or not as_json)
    comparison = None
    if cluster:
        from meshwright.textbook.comparison.analyzer import compare_analysis
        from meshwright.textbook.questions import model_to_compare

        comparison = compare_analysis(model_to_compare(architecture, cluster), cluster, configs[0], configs[1], answer)
    if as_json:
        return _print_json(answer | ({"planner": comparison.to_dict()} if comparison else {}))
    from meshwright.textbook.screens import analysis_screen, comparison_screen

    return _print(analysis_screen(answer, explain), *([comparison_screen(comparison)] if comparison else []))


@app.command()
def allreduce(
    hidden_size: Annotated[int, typer.Option(help="elements")],
    sequence_length: Annotated[int, typer.Option("--sequence-length", "--seq-len", help="tokens")],
    num_gpus: Annotated[int, typer.Option(help="tensor-parallel degree")],
    num_layers: Annotated[int, typer.Option()],
    batch_size: Annotated[int, typer.Option(help="sequences of one micro-batch")] = 1,
    bytes_per_element: Annotated[int, typer.Option()] = 2,
    bandwidth_gb_per_sec: Annotated[float, typer.Option(help="what one GPU sends, 1e9 bytes/s")] = 300.0,
    allreduces_per_layer: Annotated[int, typer.Option(help="2: forward alone; training: 4")] = 2,
    as_json: AsJson = False,
) -> None:
    """What tensor parallelism's all-reduces send for one micro-batch, and how long that takes."""
    from meshwright.textbook.allreduce import tensor_parallel_allreduce_cost

    sizes = (hidden_size, sequence_length, batch_size, num_gpus, num_layers)
    rates = (bytes_per_element, bandwidth_gb_per_sec, allreduces_per_layer)
    answer = tensor_parallel_allreduce_cost(*sizes, *rates)
    if as_json:
        return _print_json(answer)
    from meshwright.textbook.screens import facts_screen

    direction = (
        f"{allreduces_per_layer} all-reduces a layer (2: forward alone, 4: training), no latency, nothing hidden"
    )
    return _print(facts_screen(answer), "", f"per GPU and micro-batch; {direction}")


@app.command()
def memory(
    model: ModelName = None,
    hidden_size: Whole = None,
    ffn_hidden_size: Whole = None,
    num_layers: Whole = None,
    num_attention_heads: Whole = None,
    num_key_value_heads: Whole = None,
    vocab_size: Whole = None,
    sequence_length: Annotated[int | None, typer.Option("--sequence-length", "--seq-len", help="tokens")] = None,
    micro_batch_size: Annotated[int, typer.Option("--micro-batch-size", "--micro-batch", help="sequences")] = 1,
    gpu_memory_gb: Annotated[float, typer.Option(help="1e9 bytes")] = 80.0,
    tp: Annotated[int | None, typer.Option(help="default 1")] = None,
    pp: Annotated[int | None, typer.Option(help="default 1")] = None,
    cp: Annotated[int | None, typer.Option(help="default 1")] = None,
    dp: Annotated[int | None, typer.Option(help="default 1")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="all configurations of so many GPUs, by verdict")] = None,
    distributed_optimizer: Annotated[bool, typer.Option(help="states divided by dp cp")] = True,
    form: Form = "decided",
    num_micro_batches: Annotated[int | None, typer.Option(min=1, help="for the planner; default: pp")] = None,
    cluster: ClusterName = None,
    as_json: AsJson = False,
) -> None:
    """The 4D memory estimator for Llama models: one configuration, or all of them on --gpus."""
    from meshwright.textbook.memory_space import memory_of_every_configuration
    from meshwright.textbook.questions import memory_answer, memory_question, no_degrees

    architecture = _model(model)
    flags = {"hidden_size": hidden_size, "ffn_hidden_size": ffn_hidden_size, "num_layers": num_layers}
    flags |= {"num_attention_heads": num_attention_heads, "num_key_value_heads": num_key_value_heads}
    flags |= {"vocab_size": vocab_size, "sequence_length": sequence_length, "micro_batch_size": micro_batch_size}
    options = {"gpu_memory_gb": gpu_memory_gb, "distributed_optimizer": distributed_optimizer, "form": form}
    question = memory_question(flags, architecture) | options
    degrees = {"tp": tp, "pp": pp, "cp": cp, "dp": dp}
    if gpus is not None:
        no_degrees(degrees | {"cluster": cluster})
        space = memory_of_every_configuration(num_gpus=gpus, **question)
        if as_json:
            return _print_json(space)
        from meshwright.textbook.screens import space_screen

        return _print(space_screen(space))
    answer, comparison = memory_answer(question, degrees, num_micro_batches, (architecture, cluster))
    if as_json:
        return _print_json(answer | ({"planner": comparison.to_dict()} if comparison else {}))
    from meshwright.textbook.screens import comparison_screen, facts_screen

    return _print(facts_screen(answer), *([comparison_screen(comparison)] if comparison else []))


@app.command()
def search(
    cluster_metadata: Annotated[Path, typer.Option(help="JSON")],
    model_metadata: Annotated[Path, typer.Option(help="JSON")],
    output: Annotated[Path, typer.Option(help="the time of every configuration, JSON")] = Path("output.json"),
    top: Annotated[int, typer.Option(min=1, help="how many configurations to show")] = 5,
    model: Annotated[str | None, typer.Option(help="for the planner: config.json or catalogue name")] = None,
    cluster: Annotated[str | None, typer.Option(help="for the planner: NODESxGPUS:ACCELERATOR")] = None,
    seq_len: Annotated[int | None, typer.Option(help="for the planner: tokens in one sequence")] = None,
    global_batch: Annotated[int | None, typer.Option(help="for the planner; default: global_batch_size")] = None,
    as_json: AsJson = False,
) -> None:
    """The 3D searcher: the (dp, tp, pp) with the least time by a small cost model."""
    from meshwright.textbook.questions import search_answer

    answer = search_answer((cluster_metadata, model_metadata), output, top, (model, cluster, seq_len, global_batch))
    if as_json:
        return _print_json(answer)
    from meshwright.textbook.screens import search_screen

    return _print(search_screen(answer))


def _model(name: str | None) -> Model | None:
    if name is None:
        return None
    from meshwright.specs.read_model import read_model

    return read_model(name)


def _print(*answer: Any) -> None:
    from rich.console import Console

    Console().print(*answer, sep="\n", highlight=False, soft_wrap=False)


def _print_json(answer: Any) -> None:
    import json

    print(json.dumps(answer, indent=2, allow_nan=False))
