"""How far off other runs of a published source are, in step times, if some of its runs set the speed of kernels.

Every source with three or more runs of one likeness is left out of the fit. Of its runs a number is drawn, 40 times,
and the others are predicted by them alone, by them weighed as `--measured` weighs them, and by none. Prints the mean
over sources of the mean absolute logarithm of measured over predicted, and the share inside eight of ten.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from meshwright.specs.predictive import Predictive, of_a_measured_source, of_a_new_source, weight_of_runs, widening
from meshwright.specs.residuals import Likeness, Residuals
from meshwright.validation.fit.fitting import leave_one_source_out
from meshwright.validation.fit.residuals import Residual, residuals_of, step_time_residuals
from meshwright.validation.outcomes import outcomes_of
from meshwright.validation.rows.configurations import configurations
from meshwright.validation.rows.table import read_rows

DRAWS = 40
COUNTS = (1, 2, 4)
FEWEST = 3


class Drawn(NamedTuple):
    """The others of one source, beside those that were drawn."""

    group: str
    runs: int
    source: str
    errors: tuple[float, float, float]
    """By the drawn ones alone, weighed, and by none."""
    inside: tuple[bool, bool]
    """Of the ranges of weighed runs and of none."""


def main() -> None:
    published = outcomes_of(configurations(read_rows()))
    errors = step_time_residuals(leave_one_source_out(published, published))
    alike: dict[tuple[str, Likeness], list[Residual]] = defaultdict(list)
    for each in errors:
        alike[each.source, each.like].append(each)
    others = {
        source: residuals_of([each for each in errors if each.source != source], off_zero=True)
        for source in {source for (source, _), runs in alike.items() if len(runs) >= FEWEST}
    }
    drawn = [
        one
        for (source, like), runs in alike.items()
        if len(runs) >= FEWEST
        for one in _draws(source, like, runs, others[source])
    ]
    print("group    runs sources  alone weighed   none inside, weighed   none")
    for group, runs in sorted({(one.group, one.runs) for one in drawn}):
        by_source: dict[str, list[Drawn]] = defaultdict(list)
        for one in drawn:
            if (one.group, one.runs) == (group, runs):
                by_source[one.source].append(one)
        columns = [
            _mean({source: [one.errors[at] for one in draws] for source, draws in by_source.items()}) for at in range(3)
        ]
        shares = [
            _mean({source: [one.inside[at] for one in draws] for source, draws in by_source.items()}) for at in range(2)
        ]
        print(
            f"{group:8} {runs:4} {len(by_source):7} {columns[0]:6.1%} {columns[1]:7.1%} {columns[2]:6.1%} "
            f"{shares[0]:15.0%} {shares[1]:6.0%}"
        )


def _mean(by_source: Mapping[str, Sequence[float]]) -> float:
    return statistics.mean(map(statistics.mean, by_source.values()))


def _draws(source: str, like: Likeness, alike: Sequence[Residual], others: Residuals) -> Iterator[Drawn]:
    numbers, new = np.random.default_rng(0), of_a_new_source(like, others)
    for runs in (count for count in COUNTS if count < len(alike)):
        weight, own = weight_of_runs(like, others, runs), of_a_measured_source(like, others, runs)
        for _ in range(DRAWS):
            order = [alike[at] for at in numbers.permutation(len(alike))]
            said = float(np.median([each.log_ratio for each in order[:runs]]))
            for each in order[runs:]:
                times, ratio, moved = widening(each.waiting, others.waiting), each.log_ratio, weight * said
                errors = abs(ratio - said), abs(ratio - moved - times * own.bias), abs(ratio - times * new.bias)
                inside = _inside(own.widened(times), ratio - moved), _inside(new.widened(times), ratio)
                yield Drawn(like.group, runs, source, errors, inside)


def _inside(range_: Predictive, ratio: float) -> bool:
    low, high = range_.eight_of_ten
    return low < math.exp(ratio) < high


if __name__ == "__main__":
    main()
