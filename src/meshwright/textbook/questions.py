"""Questions of the command line, put together from files, flags and a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshwright.errors import InvalidInput
from meshwright.specs.reading.cluster import read_cluster
from meshwright.textbook.analyzer import CONFIGS
from meshwright.textbook.checks import Checks, read_object
from meshwright.textbook.exact import GIGABYTE
from meshwright.textbook.memory import MODEL_SIZES, Sizes, estimate_4d_memory
from meshwright.textbook.memory_space import require_divisible
from meshwright.textbook.metadata import read_metadata
from meshwright.textbook.searcher import Searcher

if TYPE_CHECKING:
    from meshwright.specs.model import Model
    from meshwright.textbook.comparison.rows import PlannerComparison

    Planner = tuple[Model | None, str | None]

USUAL_MEMORY_GB = 80.0
"""Of an accelerator that is not named: A100 and H100, the ones of the paper."""


def analyzer_question(
    file: Path | None, flags: Mapping[str, Any], model: Model | None, cluster: str | None = None
) -> list[Any]:
    """The analyzer's three dictionaries: the file's, then the sizes of the model and of the cluster with the memory of
    its accelerator, then the flags; the later ones win.
    """
    checks = Checks("the file" if file is None else f"analyzer file {str(file)!r}")
    configs: dict[str, Any] = {name: {} for name in CONFIGS}
    if file:
        configs |= checks.keys("", read_object(file, "analyzer file"), (), tuple(CONFIGS))
    checks.done()
    sizes = {key: getattr(model, key) for key in ("num_layers", "hidden_size", "vocab_size")} if model else {}
    if cluster:
        asked = read_cluster(cluster)
        sizes |= {"num_gpus": asked.num_gpus, "memory_per_gpu_gb": asked.accelerator.memory_bytes / GIGABYTE}
    sizes |= {key: value for key, value in flags.items() if value is not None}
    for name, keys in CONFIGS.items():
        if isinstance(configs[name], dict):
            configs[name] = configs[name] | {key: sizes[key] for key in keys if key in sizes}
    return [configs[name] for name in CONFIGS]


def memory_question(flags: Mapping[str, Any], model: Model | None, cluster: str | None = None) -> dict[str, Any]:
    """The estimator's sizes: the model's, then the flags; the memory of a GPU is that of the cluster's accelerator
    where no flag says it. Raises `InvalidSpec` naming what is missing.
    """
    sizes: dict[str, Any] = {"gpu_memory_gb": USUAL_MEMORY_GB}
    if cluster:
        sizes["gpu_memory_gb"] = read_cluster(cluster).accelerator.memory_bytes / GIGABYTE
    if model:
        from meshwright.textbook.llama import llama_sizes

        sizes |= llama_sizes(model)
    sizes |= {key: value for key, value in flags.items() if value is not None}
    checks = Checks("the question")
    for key in (*MODEL_SIZES, "sequence_length"):
        if key not in sizes:
            rest = " or --model" if key in MODEL_SIZES else ""
            checks.fault(key, f"is missing; give --{key.replace('_', '-')}{rest}")
    checks.done()
    return sizes


def memory_answer(
    question: dict[str, Any], degrees: Mapping[str, int | None], num_micro_batches: int | None, planner: Planner
) -> tuple[dict[str, Any], PlannerComparison | None]:
    """The estimator's answer for one configuration, degrees that were not given being 1, and with the planner's.

    num_micro_batches: for the planner; None: as many as there are stages. planner: model and cluster, None if none.
    """
    filled = {axis: 1 if degree is None else degree for axis, degree in degrees.items()}
    answer = estimate_4d_memory(**question | filled)
    require_divisible(Sizes(**{name: (question | filled)[name] for name in Sizes._fields}))
    model, cluster = planner
    if cluster is None:
        return answer, None
    from meshwright.textbook.comparison.memory import compare_memory

    count = filled["pp"] if num_micro_batches is None else num_micro_batches
    batches = (question["sequence_length"], question["micro_batch_size"], count)
    return answer, compare_memory(model_to_compare(model, cluster), cluster, filled, batches, answer)


def no_degrees(degrees: Mapping[str, Any]) -> None:
    """Refuse degrees beside `--gpus`, which asks for all of them."""
    named = [f"--{name}" for name, value in degrees.items() if value is not None]
    if named:
        raise InvalidInput(f"--gpus asks for every configuration; leave out {', '.join(named)}, or leave out --gpus")


def model_to_compare(model: Model | None, cluster: str) -> Model:
    """The model that the planner prices beside a closed form; raises `InvalidInput` without one."""
    if model is None:
        raise InvalidInput(
            f"--cluster {cluster} compares with the planner, which needs --model: a config.json or a name"
        )
    return model


def search_answer(metadata: tuple[Path, Path], output: Path, top: int, asked: tuple[Any, ...]) -> dict[str, Any]:
    """The searcher's answer as the screen and JSON show it; with the planner's.

    metadata: files of cluster and model; asked: model, cluster, sequence length, global batch for the planner, None
    where not given; all of them are read before the search starts.
    """
    from meshwright.textbook.comparison.search import compare_search, planner_inputs
    from meshwright.textbook.pool import search_progress

    cluster = read_metadata(metadata[0], "cluster metadata")
    model = read_metadata(metadata[1], "model metadata")
    searcher = Searcher()
    space = searcher.space(cluster, model)
    inputs = planner_inputs(model, *asked)
    with search_progress() as progress:
        best = searcher.search(cluster, model, output, progress=progress)
    parts = {degrees: searcher.time_parts((*degrees, cluster, model)) for degrees in space}
    fastest = sorted(space, key=lambda degrees: sum(parts[degrees]))[:top]
    return {
        "best": list(best),
        "ms": sum(parts[best]),
        "evaluated": len(space),
        "output": str(output),
        "fastest": [
            {"degrees": list(each), "ms": sum(parts[each]), "parts": parts[each]._asdict()} for each in fastest
        ],
        "comparison": compare_search((cluster, model), best, inputs),
        "left_out": list(searcher.LEFT_OUT),
    }
