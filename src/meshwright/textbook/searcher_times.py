"""The cost model of the 3D searcher: what one iteration takes for one (dp, tp, pp)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from meshwright.errors import InvalidInput
from meshwright.textbook.checks import Checks
from meshwright.textbook.degrees import MAX_GPUS
from meshwright.textbook.metadata import figures

Configuration = tuple[int, int, int, Mapping[str, Any], Mapping[str, Any]]
"""(dp, tp, pp, cluster_metadata, model_metadata)."""

MB_PER_GB = 1024
PASSES = 3
"""A training iteration in forward passes: one forward, two for backward."""


class Parts(NamedTuple):
    """What the time of one configuration consists of, ms per iteration."""

    compute: float
    dp: float
    tp: float
    pp: float


class CostModel:
    """An analytic time of one iteration for data, tensor and pipeline degrees.

    T = T_compute + T_dp + T_tp + T_pp, ms per iteration, nothing overlapping but the pipeline's share of compute.
    Source: the 3D-parallelism searcher's report; its constants are class attributes, so that a subclass can change
    them. Scope: one iteration of the whole job. `LEFT_OUT` lists what the model does not know.

    >>> CostModel().estimate_tp_time(768, 2, 300)
    1.25
    """

    BASE_EFF = 0.35
    """Efficiency of one GPU alone, a share of its FLOP/s."""
    DP_EFF_PENALTY_FACTOR = 0.20
    """Efficiency lost per data-parallel replica beyond the first."""
    TP_EFF_PENALTY_FACTOR = 0.25
    """Efficiency lost per tensor-parallel rank beyond the first."""
    IMBALANCE_PENALTY_FACTOR = 0.1
    """Efficiency lost per unit of |dp - tp|."""
    OVERLAP_RATIO_PP = 0.60
    """Compute time is divided by this where there is a pipeline."""
    LEFT_OUT = (
        "a pipeline adds no throughput here (compute is divided by dp and tp alone), so pp is hardly ever chosen",
        "memory is never checked",
        "gradients are not divided by tp and pp",
        "pipeline traffic always uses the fast link",
        "there are no micro-batches, so there is no bubble",
        "the efficiency constants know no hardware",
        "the test for the node (dp <= n_gpu_per_node) ignores where the ranks are placed",
    )

    def estimate_compute_time(self, dp: int, tp: int, pp: int, total_tflops: float, gpu_flops: float) -> float:
        """Milliseconds of compute: 1000 F / (G/1000 dp tp) / eff, divided by 0.60 where pp > 1.

        eff = 0.35 / [(1 + 0.20 (dp-1)) (1 + 0.25 (tp-1)) (1 + 0.1 |dp-tp|)].
        Source: the 3D-parallelism searcher's report, function 1. Scope: one iteration of the whole job.

        dp, tp, pp: degrees; total_tflops: F, TFLOP of forward and backward; gpu_flops: G, GFLOP/s of one GPU.
        Returns ms. Raises `InvalidSpec`, a `ValueError`.

        >>> round(CostModel().estimate_compute_time(4, 2, 1, 3 * 24 * 1.5, 312000), 4)
        296.7033
        """
        checks = Checks("estimate_compute_time")
        dp, tp, pp = (_degree(checks, name, value) for name, value in (("dp", dp), ("tp", tp), ("pp", pp)))
        work = checks.number("total_tflops", total_tflops, zero=True)
        speed = checks.number("gpu_flops", gpu_flops)
        checks.done()
        penalty = (1 + self.DP_EFF_PENALTY_FACTOR * (dp - 1)) * (1 + self.TP_EFF_PENALTY_FACTOR * (tp - 1))
        efficiency = self.BASE_EFF / (penalty * (1 + self.IMBALANCE_PENALTY_FACTOR * abs(dp - tp)))
        time = 1000 * work / (speed / 1000 * dp * tp) / efficiency
        return _finite(time / self.OVERLAP_RATIO_PP if pp > 1 else time)

    def estimate_dp_time(
        self,
        dp_sum_gradient_MB: float,  # noqa: N803
        dp: int,
        n_gpu_per_node: int,
        bw_gpu_to_gpu: float,
        bw_inter_node: float,
    ) -> float:
        """Milliseconds of the gradient all-reduce: 1000 * 2 (dp-1)/dp * MB / (bw * 1024).

        bw is bw_gpu_to_gpu where dp <= n_gpu_per_node, else bw_inter_node.
        Source: the 3D-parallelism searcher's report, function 2. Scope: one iteration, gradients of the whole model.

        dp_sum_gradient_MB: MB; dp: degree; n_gpu_per_node: GPUs; bw_gpu_to_gpu, bw_inter_node: GB/s of 1024 MB.
        Returns ms, 0 with dp 1. Raises `InvalidSpec`, a `ValueError`.

        >>> round(CostModel().estimate_dp_time(2700, 4, 8, 300, 25), 4)
        13.1836
        """
        checks = Checks("estimate_dp_time")
        size = checks.number("dp_sum_gradient_MB", dp_sum_gradient_MB, zero=True)
        dp, node = _degree(checks, "dp", dp), _degree(checks, "n_gpu_per_node", n_gpu_per_node)
        near, far = checks.number("bw_gpu_to_gpu", bw_gpu_to_gpu), checks.number("bw_inter_node", bw_inter_node)
        checks.done()
        return _finite(1000 * 2 * (dp - 1) / dp * size / ((near if dp <= node else far) * MB_PER_GB))

    def estimate_tp_time(self, tp_comm_sum_MB: float, tp: int, bw_gpu_to_gpu: float) -> float:  # noqa: N803
        """Milliseconds of tensor-parallel all-reduces: 1000 * 2 (tp-1)/tp * (MB/tp) / (bw * 1024).

        Source: the 3D-parallelism searcher's report, function 3. Scope: one iteration, all layers.

        tp_comm_sum_MB: MB; tp: degree; bw_gpu_to_gpu: GB/s of 1024 MB. Returns ms, 0 with tp 1.
        Raises `InvalidSpec`, a `ValueError`.

        >>> CostModel().estimate_tp_time(768, 2, 300)
        1.25
        """
        checks = Checks("estimate_tp_time")
        size = checks.number("tp_comm_sum_MB", tp_comm_sum_MB, zero=True)
        tp, bandwidth = _degree(checks, "tp", tp), checks.number("bw_gpu_to_gpu", bw_gpu_to_gpu)
        checks.done()
        return _finite(1000 * 2 * (tp - 1) / tp * (size / tp) / (bandwidth * MB_PER_GB))

    def estimate_pp_time(
        self,
        layer_activation_MB: Sequence[float],  # noqa: N803
        pp: int,
        bw_gpu_to_gpu: float,
    ) -> float:
        """Milliseconds of stage-to-stage messages: 1000 * 2 (pp-1) max(MB) / (bw * 1024), there and back.

        Source: the 3D-parallelism searcher's report, function 4. Scope: one iteration, pp - 1 borders.

        layer_activation_MB: MB of each layer's output, shape (layers,); pp: degree; bw_gpu_to_gpu: GB/s of 1024 MB.
        Returns ms, 0 with pp 1. Raises `InvalidSpec`, a `ValueError`.

        >>> round(CostModel().estimate_pp_time([16, 16], 8, 300), 4)
        0.7292
        """
        checks = Checks("estimate_pp_time")
        sizes = checks.numbers("layer_activation_MB", layer_activation_MB)
        pp, bandwidth = _degree(checks, "pp", pp), checks.number("bw_gpu_to_gpu", bw_gpu_to_gpu)
        checks.done()
        return _finite(1000 * 2 * (pp - 1) * max(sizes) / (bandwidth * MB_PER_GB))

    def time_parts(self, config: Configuration) -> Parts:
        """Milliseconds of one configuration by part: (T_compute, T_dp, T_tp, T_pp).

        config: (dp, tp, pp, cluster_metadata, model_metadata). Returns ms. Raises `InvalidSpec`, a `ValueError`.
        Source: the 3D-parallelism searcher's report, function 5. Scope: one iteration of the whole job.

        >>> cluster = dict(n_node=1, n_gpu_per_node=8, gpu_gflops=312000, bw_gpu_to_gpu=300, bw_inter_node=25)
        >>> model = dict(num_layers=24, layer_tflops=[1.5] * 24, layer_activation_MB=[16] * 24)
        >>> model |= dict(dp_sum_gradient_MB=2700, tp_comm_sum_MB=768)
        >>> CostModel().time_parts((4, 2, 1, cluster, model)).tp
        1.25
        """
        dp, tp, pp, cluster_metadata, model_metadata = config
        cluster, model = figures(cluster_metadata, model_metadata)
        work = PASSES * sum(model.layer_tflops)
        near, far = cluster.bw_gpu_to_gpu, cluster.bw_inter_node
        return Parts(
            compute=self.estimate_compute_time(dp, tp, pp, work, cluster.gpu_gflops),
            dp=self.estimate_dp_time(model.dp_sum_gradient_MB, dp, cluster.n_gpu_per_node, near, far),
            tp=self.estimate_tp_time(model.tp_comm_sum_MB, tp, near),
            pp=self.estimate_pp_time(model.layer_activation_MB, pp, near),
        )

    def evaluate_config(self, config: Configuration) -> float:
        """Milliseconds of one iteration: T_compute + T_dp + T_tp + T_pp, with 3 forward passes of compute.

        config: (dp, tp, pp, cluster_metadata, model_metadata). Returns ms. Raises `InvalidSpec`, a `ValueError`.
        Source: the 3D-parallelism searcher's report, function 5. Scope: one iteration of the whole job.

        >>> cluster = dict(n_node=1, n_gpu_per_node=8, gpu_gflops=312000, bw_gpu_to_gpu=300, bw_inter_node=25)
        >>> model = dict(num_layers=24, layer_tflops=[1.5] * 24, layer_activation_MB=[16] * 24)
        >>> model |= dict(dp_sum_gradient_MB=2700, tp_comm_sum_MB=768)
        >>> round(CostModel().evaluate_config((4, 2, 1, cluster, model)), 4)
        311.1369
        """
        return _finite(sum(self.time_parts(config)))


def _degree(checks: Checks, name: str, value: Any) -> int:
    return checks.whole(name, value, most=MAX_GPUS)


def _finite(time: float) -> float:
    if not math.isfinite(time):
        raise InvalidInput("the time is beyond the largest float (1.8e308 ms): give smaller sizes or faster hardware")
    return time
