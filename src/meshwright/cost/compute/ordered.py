"""Backward of fused attention that adds up in a fixed order."""

from __future__ import annotations

from meshwright.arrays import Floats
from meshwright.cost.compute.attention import attended_pairs
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.shard import Shard
from meshwright.layout.groups import context_split
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


def ordered_workspace(plan: Layout, inputs: Inputs, shard: Shard) -> Floats:
    """Bytes of the workspace in which deterministic kernels keep a number for each score, masked or not: w b a s^2 / r.

    w: of the accelerator's kernel table, 0 without a workspace; plan: scalar or array (n,); shard: sizes on the rank.
    Returns bytes. Source: NVIDIA/cudnn-frontend pull request 398.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> runtimes = (LLAMA.runtime.replace(deterministic=how) for how in ("off", "on"))
    >>> shard = layer_shard(Plan(), LLAMA, LLAMA.model.layer_kinds[0])
    >>> [float(ordered_workspace(Plan(), LLAMA.replace(runtime=each), shard)) / 2**30 for each in runtimes]
    [0.0, 4.0]
    """
    kernels = inputs.runtime.kernels
    if kernels.deterministic == "off" or inputs.attention_generation != "newest":
        return 0.0
    document, split = inputs.job.attended_length, context_split(plan, inputs)
    scores = 1.0 * plan.micro_batch * inputs.job.sequence_length * document * shard.heads / (split.heads * split.ring)
    return inputs.cluster.accelerator.kernels.attention.ordered.score_bytes * scores


def ordered_backward(time: Floats, plan: Layout, inputs: Inputs, kind: LayerKind, shard: Shard) -> Floats:
    """Backward seconds of the attention core where its kernels add up in a fixed order: the measured slowdown, the
    workspace written and read for the attended pairs, and all of it written before where PyTorch fills what it
    allocates.

    time: in any order, seconds; plan: scalar or array (n,); shard: sizes on the rank. Returns seconds. Source:
    `ordered_attention` of the accelerator's kernel table.

    >>> from meshwright.cost.shard import layer_shard
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> kind, plan = LLAMA.model.layer_kinds[0], Plan()
    >>> shard = layer_shard(plan, LLAMA, kind)
    >>> ways = [LLAMA.replace(runtime=LLAMA.runtime.replace(deterministic=how)) for how in ("off", "on", "filled")]
    >>> [round(1e3 * float(ordered_backward(3e-3, plan, each, kind, shard)), 1) for each in ways]
    [3.0, 4.6, 6.2]
    """
    deterministic, constants = inputs.runtime.kernels.deterministic, inputs.cluster.accelerator.kernels.attention
    if deterministic == "off" or inputs.attention_generation == "eager":
        return time
    ordered = constants.ordered if inputs.attention_generation == "newest" else constants.older_ordered
    document = inputs.job.attended_length
    passes = 2 * attended_pairs(document, kind.attention.window) / document**2 + (deterministic == "filled")
    workspace = ordered_workspace(plan, inputs, shard)
    return ordered.slowdown * time + elementwise_time(passes * workspace, inputs.cluster.accelerator)
