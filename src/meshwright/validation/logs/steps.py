"""Steps: what a log says of the time of each, in bounded memory, and what is typical of them."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Literal, NamedTuple

Pace = Literal["steps", "samples", "tokens", "tokens of a GPU"]
"""What a rate counts; of step times, steps."""
MOST_STEPS = 100_000
"""Steps that are held; of more, a part that does not depend on their order."""
WARM_UP = 10
"""Steps from the first one on that are left out: compiling, starting communicators and filling the allocator."""
LEAST = 3
"""Lines that must remain; else the first line alone is left out."""
FAR, CLOSE = 5.0, 0.05
"""A step stands out where it differs from the median by this many median deviations, and by this share of it."""
MOST_RANKS = 100_000


class Readings:
    """Step times of one log, each of the slowest rank that printed it, and peaks of memory."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.first: int | None = None
        """The first step that was printed."""
        self.lines = 0
        self.memory: dict[str, dict[str, float]] = {}
        """Peaks in GiB by kind and by rank, where the rank is printed."""
        self._seconds: dict[int, tuple[float, int]] = {}
        self._share = 1

    def add(self, step: int, seconds: float, batch: int) -> None:
        """A step time, or seconds of one unit of the pace; batch: sequences of the step, 0 where none is printed."""
        self.lines += 1
        self.first = step if self.first is None else min(self.first, step)
        if _mixed(step) % self._share:
            return
        known = self._seconds.get(step, (0.0, 0))
        self._seconds[step] = max(known, (seconds, batch))
        while len(self._seconds) > MOST_STEPS:
            self._share *= 2
            self._seconds = {step: each for step, each in self._seconds.items() if not _mixed(step) % self._share}

    def peak(self, kind: str, rank: str, gib: float) -> None:
        """A peak of memory."""
        ranks = self.memory.setdefault(kind, {})
        if rank in ranks or len(ranks) < MOST_RANKS:
            ranks[rank] = max(gib, ranks.get(rank, 0.0))

    def typical(self) -> Typical | None:
        """What is typical of the steps; None where there are none."""
        steps = sorted((step, seconds, batch) for step, (seconds, batch) in self._seconds.items())
        if not steps or self.first is None:
            return None
        batches = Counter(batch for _, _, batch in steps if batch)
        batch = max(batches, key=lambda each: (batches[each], each)) if batches else 0
        of_batch = [(step, seconds) for step, seconds, each in steps if each == batch]
        settled = [each for each in of_batch if each[0] >= self.first + WARM_UP]
        if len(settled) < LEAST:
            settled = of_batch[1:] if of_batch[0][0] == self.first else of_batch
        settled = settled or of_batch
        return _typical(settled, len(of_batch) - len(settled), len(steps) - len(of_batch), batch)


class Outlier(NamedTuple):
    """A step that stands out."""

    step: int
    seconds: float


class Typical(NamedTuple):
    """The steps of a run after it has warmed up."""

    median: float
    """Seconds of one step, or of one unit of what a rate counts."""
    p10: float
    p90: float
    used: int
    """Lines."""
    warm_up: int
    """Lines that were left out at the start."""
    other_batch: int
    """Lines that were left out for another number of sequences, as of a batch that grows."""
    batch: int
    """Sequences of a step; 0: not printed."""
    outliers: tuple[Outlier, ...]
    first_step: int
    last_step: int


def _typical(settled: list[tuple[int, float]], warm_up: int, other_batch: int, batch: int) -> Typical:
    seconds = [each for _, each in settled]
    median = statistics.median(seconds)
    deviation = statistics.median(abs(each - median) for each in seconds)
    far = max(FAR * deviation, CLOSE * median)
    deciles = statistics.quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [median] * 9
    return Typical(
        median=median,
        p10=deciles[0],
        p90=deciles[-1],
        used=len(seconds),
        warm_up=warm_up,
        other_batch=other_batch,
        batch=batch,
        outliers=tuple(Outlier(step, each) for step, each in settled if each - median > far),
        first_step=settled[0][0],
        last_step=settled[-1][0],
    )


def _mixed(step: int) -> int:
    """A number that has nothing to do with how often a framework prints (multiplicative hashing, Knuth 6.4)."""
    return ((step * 2654435761) & 0xFFFFFFFF) >> 8
