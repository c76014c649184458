"""The 3D searcher: the (dp, tp, pp) with the least time of one iteration, by a small cost model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from meshwright.answers.files import writable, write_whole
from meshwright.search.stop import Progress
from meshwright.textbook.degrees import products
from meshwright.textbook.metadata import Metadata, figures, read_metadata
from meshwright.textbook.pool import evaluate_all
from meshwright.textbook.searcher_times import CostModel

Degrees = tuple[int, int, int]
"""(dp, tp, pp)."""


class Searcher(CostModel):
    """Searches data, tensor and pipeline degrees exhaustively, with an analytic time for each.

    Source: the 3D-parallelism searcher's report. Scope: one iteration of the whole job; `LEFT_OUT` lists what the cost
    model does not know.

    >>> Searcher().estimate_tp_time(768, 2, 300)
    1.25
    """

    def search(
        self,
        cluster_metadata: Metadata,
        model_metadata: Metadata,
        output_file: str | Path = "output.json",
        *,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> Degrees:
        """The degrees with the least time, after writing the time of all to a file.

        Every dp tp pp = n_node n_gpu_per_node with pp <= num_layers is evaluated; the strict minimum wins, so of equal
        times the first in ascending order of (dp, tp, pp).
        Source: the 3D-parallelism searcher's report, function 6. Scope: one iteration of the whole job.

        cluster_metadata, model_metadata: dictionaries, or paths of JSON files; output_file: written whole or not at
        all, {"dp, tp, pp": "12.3456ms/iter"} in ascending order; progress: called with (evaluated, in all) after each;
        executor: runs the evaluations; None: a process pool of its own.

        Returns (dp, tp, pp), or (1, 1, number of GPUs) if nothing could be evaluated. Raises `InvalidSpec` or
        `InvalidInput`, `ValueError`s, for bad metadata and, before the search starts, for a missing directory.

        >>> cluster = dict(n_node=1, n_gpu_per_node=8, gpu_gflops=312000, bw_gpu_to_gpu=300, bw_inter_node=25)
        >>> model = dict(num_layers=24, layer_tflops=[1.5] * 24, layer_activation_MB=[16] * 24)
        >>> model |= dict(dp_sum_gradient_MB=2700, tp_comm_sum_MB=768)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Searcher().search(cluster, model, f"{folder}/output.json")
        (4, 2, 1)
        """
        cluster_metadata = read_metadata(cluster_metadata, "cluster metadata")
        model_metadata = read_metadata(model_metadata, "model metadata")
        degrees = self.space(cluster_metadata, model_metadata)
        path = writable(output_file)
        configurations = [(*each, cluster_metadata, model_metadata) for each in degrees]
        times = evaluate_all(self.evaluate_config, configurations, progress, executor)
        best, least = (1, 1, math.prod(degrees[0])), math.inf
        for each, time in zip(degrees, times, strict=True):
            if time < least:
                best, least = each, time
        shown = {", ".join(map(str, each)): f"{time:.4f}ms/iter" for each, time in zip(degrees, times, strict=True)}
        write_whole(path, json.dumps(shown, indent=4))
        return best

    def space(self, cluster_metadata: Mapping[str, Any], model_metadata: Mapping[str, Any]) -> list[Degrees]:
        """Every (dp, tp, pp) with dp tp pp = n_node n_gpu_per_node and pp <= num_layers, in ascending order.

        cluster_metadata, model_metadata: dictionaries. Returns degrees, shape (n, 3). Raises `InvalidSpec`, a
        `ValueError`, with every fault of both. Source: the 3D-parallelism searcher's report, function 6. Scope: the
        whole job.

        >>> cluster = dict(n_node=1, n_gpu_per_node=8, gpu_gflops=312000, bw_gpu_to_gpu=300, bw_inter_node=25)
        >>> model = dict(num_layers=24, layer_tflops=[1.5] * 24, layer_activation_MB=[16] * 24)
        >>> model |= dict(dp_sum_gradient_MB=2700, tp_comm_sum_MB=768)
        >>> Searcher().space(cluster, model)[:2]
        [(1, 1, 8), (1, 2, 4)]
        """
        cluster, model = figures(cluster_metadata, model_metadata)
        return [(dp, tp, pp) for dp, tp, pp in products(cluster.num_gpus, 3) if pp <= model.num_layers]
