"""Host copies: weights out of the host's memory before they are gathered, and gradients into it once reduced."""

from __future__ import annotations

from meshwright.arrays import Floats, Numbers, larger, where
from meshwright.cost.comms.data import GRADIENTS, WEIGHTS
from meshwright.cost.comms.exchange import COPY, Exchange, Message, repeated
from meshwright.cost.comms.sharded import NOTHING, Gathers, Windows
from meshwright.cost.compute.optimizer import host_time
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs

ADDED = 3
"""Times that the host moves a gradient to add it to an earlier one: two are read, one is written."""


def host_copies(
    plan: Layout,
    inputs: Inputs,
    owned: Numbers,
    times: Gathers,
    windows: Windows = NOTHING,
    unsharded: Numbers = 0.0,
) -> tuple[Exchange, ...]:
    """Copies per step of one unit between the memory of the host and that of the device, where weights are offloaded.

    The rank's shard of the weights, in their own format, before each gathering: ahead on a stream of its own, beside
    the compute that hides the gathering; a rank alone copies on the stream that computes, so that nothing hides it. The
    shard of the gradients after the first reduction of the step, beside the next unit's backward pass and beside its
    copy of weights, which goes the other way. After later reductions the host waits for the copy, into memory that is
    not pinned, and adds it to the first: nothing hides either. Nothing where weights stay on the device.

    owned: parameters of the unit that the rank stores, a count; times: of `gathers_per_step` or `end_gathers`, counts;
    windows: as of `end_exchanges`, seconds; unsharded: share of such units that stay gathered until their backward;
    scalar or array (n,). Returns bytes and seconds.
    Source: torch 2.13, distributed/fsdp/_fully_shard/_fsdp_collectives.py L336-337 (copies on the copy-in stream),
    L711-747 (back from pinned memory only if nothing is accumulated); _fsdp_param.py L897-900; _fsdp_param_group.py
    L437-459 (one rank: in wait_for_unshard), L770-772 (backward ends when all gradients are there).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> host_copies(Plan(dp=8, zero=3), LLAMA, 1e8, Gathers(1, 1, 1))
    ()
    """
    if not inputs.runtime.storage.offloads_weights:
        return ()
    ahead, share = sharding_ranks(plan) > 1, inputs.runtime.overlap.data_parallel
    weights, gradients = _copy(inputs, WEIGHTS, owned), _copy(inputs, GRADIENTS, owned)
    kept = repeated((weights,), where(times.backward > 0, 1 - unsharded, 0.0))
    window, often = ahead * windows.backward, times.backward
    before = Exchange("dp", "backward", kept, times=often, window=window, share=share, takes_compute=False)
    beside = where(windows.scatter > 0, before._replace(times=1.0).exposed(inputs), 0.0)
    slowdown = inputs.runtime.host.unpinned_copy_slowdown
    unpinned = gradients._replace(seconds=slowdown * gradients.seconds)
    width = inputs.runtime.storage.weight_bytes
    added = gradients._replace(bytes=0.0, seconds=host_time(plan, inputs, owned, ADDED * width))
    return (
        before._replace(phase="forward", messages=(weights,), times=times.forward, window=ahead * windows.forward),
        Exchange("dp", "forward", (weights,), times=times.loss),
        before,
        before._replace(messages=(gradients,), times=1.0, window=windows.scatter, slack=beside),
        Exchange("dp", "backward", (unpinned, added), times=larger(times.scatters - 1.0, 0.0)),
    )


def _copy(inputs: Inputs, content: str, parameters: Numbers) -> Message:
    """Of so many parameters."""
    size: Floats = 1.0 * inputs.runtime.storage.weight_bytes * parameters
    seconds = size / inputs.cluster.accelerator.kernels.host_copy_bandwidth
    return Message("dp_shard", COPY, content, bytes=size, seconds=seconds)
