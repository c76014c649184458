"""How much longer kernels take in a training step than alone, by the few constants that whole training runs give."""

from __future__ import annotations

import math

from meshwright.cost.deviates import expected_largest
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat


def slowdown(inputs: Inputs) -> float:
    """How much longer kernels take here than alone: the site's share times what training runs show, on the slowest of
    all accelerators, for which the others wait.

    Returns a share. Source: catalog/fitted.toml; `site_derate` of the cluster; `slowest_of_cluster`.

    >>> from meshwright.specs.job import Job
    >>> from meshwright.specs.reading.inputs import read_inputs
    >>> inputs = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64))
    >>> slowdown(inputs) == inputs.constants["hopper"] * slowest_of_cluster(inputs)
    True
    """
    return inputs.cluster.site_derate * usual_slowdown(inputs) * slowest_of_cluster(inputs)


def slowest_of_cluster(inputs: Inputs) -> float:
    """How much longer the slowest accelerator of the cluster computes than the usual one.

    Returns a share. Source: `slowest_rank`; `speed_deviation` of the accelerator's kernel table.

    >>> from meshwright.specs.reading.examples import LLAMA  # 8 H100
    >>> round(slowest_of_cluster(LLAMA), 3)
    1.021
    """
    return slowest_rank(inputs.cluster.num_gpus, inputs.cluster.accelerator.kernels.speed_deviation)


def slowest_rank(ranks: int, deviation: float) -> float:
    """How much longer the slowest of n accelerators of one kind computes than the usual one.

    1 + s z, where z is the largest of n normal deviates that is to be expected and s the standard deviation of their
    speeds over the mean. ranks: n, a count; deviation: s, a share. Returns a share. Source: `expected_largest`.

    >>> [round(slowest_rank(ranks, 0.0148), 3) for ranks in (1, 8, 1024)]
    [1.0, 1.021, 1.048]
    """
    return 1 + deviation * float(expected_largest(ranks))


def usual_slowdown(inputs: Inputs) -> float:
    """How much longer kernels take in a training step than alone, by published runs; 1 where none tells.

    Returns a share, the product of the constants of `constants_of`. Source: catalog/fitted.toml.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> usual_slowdown(LLAMA) == LLAMA.constants["hopper"]
    True
    """
    return math.prod(inputs.constants[name] for name in constants_of(inputs))


def older_attention_slowdown(inputs: Inputs) -> float:
    """Time of the runtime's attention kernels over that of the newest, where training runs alone show it; else 1.

    Returns a share. Source: catalog/fitted.toml.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> older_attention_slowdown(LLAMA)  # takes the newest
    1.0
    """
    older = inputs.runtime.kernels.attention_constant
    return inputs.constants[older] if older else 1.0


def sustained_slowdown(inputs: Inputs, number_format: NumberFormat, slower: float = 1.0) -> float | None:
    """How much longer large matrix products take without end than in a short benchmark, under the power limit.

    max(1, s (W / (L r))^e): s as measured under a limit of W watts, L the site's limit, e of the accelerator, r how
    much longer the kernel takes than one of plain products, by which it draws less power.
    number_format: of the products' operands; slower: r. Returns a share; None where neither was measured nor the site
    has a limit of its own. Source: the kernel table's `sustained`, the accelerator's `power`.

    >>> from meshwright.specs.job import Job
    >>> from meshwright.specs.reading.inputs import read_inputs
    >>> capped = {"accelerator": "h100", "gpus_per_node": 8, "power_limit_w": 500}
    >>> for cluster in ("1x8:h100", capped):
    ...     inputs = read_inputs("llama-3.1-8b", cluster, Job(sequence_length=8192, global_batch=64))
    ...     round(sustained_slowdown(inputs, "half") or 1.0, 2)
    1.18
    1.5
    """
    return _under_limit(inputs, number_format, 1.0 / slower)


def sustained_attention_slowdown(inputs: Inputs, older: float) -> float:
    """The same of attention, whose kernels draw less power by as much as they do fewer FLOP a second than products.

    Its FLOP a second are those of the sequence that tokens attend to, 1 / (1 + s0 / s) of those without end.
    older: time of the runtime's generation of kernels over the table's. Returns a share. Source: `sustained` of the
    accelerator's kernel table.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> sustained_attention_slowdown(LLAMA, 1.0)  # 0.7 of the FLOP/s of products are within 700 W
    1.0
    """
    kernels, sequence = inputs.cluster.accelerator.kernels, inputs.job.attended_length
    reached = kernels.attention.efficiency / (1 + kernels.attention.half_sequence / sequence)
    rate = reached / older / kernels.gemm.efficiency
    return _under_limit(inputs, "half", rate) or 1.0


def _under_limit(inputs: Inputs, number_format: NumberFormat, rate: float) -> float | None:
    """rate: FLOP a second of the kernel over those of products; the power that it draws is in proportion."""
    cluster, power = inputs.cluster, inputs.cluster.accelerator.power
    measured = cluster.accelerator.kernels.sustained.get(number_format)
    if power is None or (measured is None and cluster.power_limit_w is None):
        return None
    slowdown, watts = (measured.slowdown, measured.watts) if measured else (1.0, power.watts)
    limit = cluster.power_limit_w or power.watts
    return max(1.0, slowdown * math.pow(rate * watts / limit, power.speed_exponent))


def constants_of(inputs: Inputs) -> tuple[str, ...]:
    """Names of the fitted constants that all kernels have: those that the accelerator's kernel table and the runtime
    name. Returns names. Source: catalog/fitted.toml.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> constants_of(LLAMA)
    ('hopper',)
    """
    named = inputs.cluster.accelerator.kernels.slowdown, inputs.runtime.kernels.kernel_constant
    return tuple(name for name in named if name)
