"""Exchange: the messages that ranks send each other, the compute that may hide them, and what stays exposed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from meshwright.arrays import Floats, Numbers, larger, multiplied, smaller, some, total, where
from meshwright.cost.comms.collectives import operation_time
from meshwright.cost.comms.group import Group, Priced, Traffic, axis_group, operation_traffic
from meshwright.distinct import gathered
from meshwright.layout.plans import Layout
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs

COPY = "copy"
"""The operation of a message that stays on its rank or between it and its host: no link of the cluster carries it."""
FEW = 8
"""One in so many rows, or fewer."""


class Message(NamedTuple):
    """Collectives or messages of one kind; each number scalar or array (n,)."""

    axis: str
    """A key of `AXES`: the ranks that take part."""
    operation: str
    """all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send; of a fused token exchange dispatch and
    combine; copy, between memories of one rank."""
    content: str
    """What it carries."""
    bytes: Numbers
    """Of the whole buffer: gathered, or before it is scattered; what one rank sends to all, or to its neighbour."""
    seconds: Floats
    """Of one, if nothing ran beside it."""
    times: Numbers = 1.0
    """How many share the window of their exchange."""
    traffic: Traffic | None = None
    """Bytes that one rank sends, where they do not follow from the operation."""


class Exchange(NamedTuple):
    """Messages that go one after the other beside the same compute; each number scalar or array (n,)."""

    axis: str
    """The part of the step that it is priced as: tp, cp, ep, pp or dp."""
    phase: str
    """forward, backward, recompute (in backward), or step."""
    messages: tuple[Message, ...]
    times: Numbers = 1.0
    """How often they go."""
    window: Floats = 0.0
    """Seconds of the compute that may run beside all of them."""
    share: Floats = 0.0
    """Of the window, what hides them: 0 (nothing) to 1."""
    unhidden: Floats = 0.0
    """Seconds of the first piece, which nothing can hide."""
    unpaired: Floats = 0.0
    """Of its times, the share in which nothing runs beside it."""
    slack: Floats | None = None
    """Seconds by which the rank may end later than its window without being waited for."""
    takes_compute: bool = True
    """It runs on multiprocessors, which the compute beside it then lacks; copies of the host have engines of their own.
    """

    @property
    def seconds(self) -> Floats:
        """Of all messages once, if nothing ran beside them."""
        return total_seconds(self.messages)

    def exposed(self, inputs: Inputs) -> Floats:
        """Seconds that the step waits for it, all `times` times."""
        if self.takes_compute:
            exposed = exposed_time(self.seconds, self.window, self.share, self.unhidden, inputs)
        else:
            exposed = larger(self.seconds - self.share * self.window, 0.0)
        waited = exposed if self.slack is None else larger(exposed - self.slack, 0.0)
        return multiplied(
            self.times, waited + self.unpaired * (self.seconds - waited) if some(self.unpaired) else waited
        )


class Communicator(NamedTuple):
    """The ranks of one axis of a plan, and the links between them."""

    axis: str
    group: Group
    cluster: Cluster

    def message(self, operation: Priced, content: str, size: Numbers, times: Numbers = 1.0) -> Message:
        """A collective of these ranks, or a message between neighbours among them, with its seconds.

        size: bytes of the buffer, none of which is priced where no message goes; times: how many share a window;
        scalar or array (n,).
        """
        seconds = operation_time(operation, where(times > 0, size, 0.0), self.group, self.cluster)
        return Message(self.axis, operation, content, bytes=size, seconds=seconds, times=times)


def communicator(axis: str, plan: Layout, inputs: Inputs) -> Communicator:
    """The ranks of one axis. plan: scalar or array (n,); axis: a key of `AXES`.

    Returns a communicator. Source: `axis_group`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(communicator("tp", Plan(tp=8), LLAMA).group.ranks)
    8
    """
    return Communicator(axis, axis_group(axis, plan, inputs), inputs.cluster)


def exposed_time(time: Floats, window: Floats, share: Floats, first_chunk: Numbers, inputs: Inputs) -> Floats:
    """Seconds that a communication adds to the step when compute may run beside it.

    T_exposed = min(T, max(T_first, T - h W)), and the compute beside the hidden part is slowed because the collective
    takes n_ctas of the n_SM multiprocessors: T_hidden n_ctas / n_SM more.

    time: T; window: compute W that may run beside it; first_chunk: T_first, the piece that nothing can hide; seconds;
    share: h, 0 (nothing is hidden) to 1; scalar or array (n,). Returns seconds.
    Source: the slow-down law fits the 18.9 % mean slow-down of overlapped compute of arXiv:2507.03114.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [round(float(exposed_time(1.0, 0.5, share, 0.1, LLAMA)), 4) for share in (0, 1)]
    [1.0, 0.5909]
    """
    if not some(share):
        return time
    exposed = smaller(time, larger(first_chunk, time - share * window))
    accelerator = inputs.cluster.accelerator
    taken = accelerator.kernels.communication_multiprocessors / accelerator.multiprocessors
    return exposed + (time - exposed) * taken


def message_traffic(message: Message, plan: Layout, inputs: Inputs) -> Traffic:
    """What one rank sends of a message, by the links that it goes over.

    message: numbers scalar or array (n,); plan: scalar or array (n,). Returns bytes. Source: `operation_traffic`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan = Plan(tp=8)
    >>> message = communicator("tp", plan, LLAMA).message("all_gather", "activations", 8.0)
    >>> float(message_traffic(message, plan, LLAMA).inside)
    7.0
    """
    if message.traffic is not None:
        return message.traffic
    group = axis_group(message.axis, plan, inputs)
    if message.operation == COPY:
        return operation_traffic("send", 0.0, group)
    return operation_traffic(message.operation, message.bytes, group)  # type: ignore[arg-type]


def repeated(messages: Iterable[Message], times: Numbers) -> tuple[Message, ...]:
    """The same messages, each `times` times as often in one window. times: scalar or array (n,).

    Returns messages; `times` are counts.

    >>> [each.times for each in repeated([Message("tp", "all_gather", "x", bytes=8.0, seconds=1.0, times=2)], 3)]
    [6]
    """
    return tuple(each._replace(times=each.times * times) for each in messages)


def resized(messages: Iterable[Message], factor: Numbers) -> tuple[Message, ...]:
    """The same messages with buffers of another size, in proportion. factor: scalar or array (n,).

    Returns messages, of bytes and seconds.

    >>> (half,) = resized([Message("tp", "all_gather", "x", bytes=8.0, seconds=1.0)], 0.5)
    >>> half.bytes, half.seconds
    (4.0, 0.5)
    """
    return tuple(each._replace(bytes=each.bytes * factor, seconds=each.seconds * factor) for each in messages)


def total_seconds(messages: Iterable[Message]) -> Floats:
    """Seconds of some messages one after the other, as often as each goes in a window.

    messages: each number scalar or array (n,). Returns seconds.

    >>> total_seconds([Message("tp", "all_gather", "x", bytes=8.0, seconds=0.5, times=4)])
    2.0
    """
    return total(multiplied(each.times, each.seconds) for each in messages)


def joined(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """One message that takes as long as all of some messages: what is left when only their seconds matter.

    messages: one or more. Returns a message, of seconds.

    >>> parts = [Message("tp", "all_gather", "x", bytes=8.0, seconds=0.5, times=times) for times in (1, 3)]
    >>> joined(tuple(parts))[0].seconds
    2.0
    """
    first = messages[0]
    return (Message(first.axis, first.operation, first.content, bytes=0.0, seconds=total_seconds(messages)),)


def exposed_seconds(exchanges: Iterable[Exchange], inputs: Inputs) -> Floats:
    """Seconds that the step waits for some exchanges, each as often as it goes.

    exchanges: each number scalar or array (n,). Returns seconds. Source: `exposed_time`.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> message = Message("tp", "all_gather", "x", bytes=8.0, seconds=0.5)
    >>> exposed_seconds([Exchange("tp", "forward", (message,), times=2)], LLAMA)
    1.0
    """
    going = [each for each in exchanges if some(each.times)]
    return total(_exposed(each, inputs) for each in going) if going else 0.0


def _exposed(exchange: Exchange, inputs: Inputs) -> Floats:
    """Seconds that the step waits for an exchange; one that few rows have is priced in these alone."""
    times = exchange.times
    if not isinstance(times, np.ndarray) or np.count_nonzero(times) * FEW > times.size:
        return exchange.exposed(inputs)
    rows = np.flatnonzero(times)
    seconds = np.zeros(len(times))
    seconds[rows] = gathered(exchange, rows).exposed(inputs)
    return seconds
