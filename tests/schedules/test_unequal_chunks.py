"""Which chunks a rank keeps where its chunks are not alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meshwright.schedules import interleaved
from meshwright.schedules.action import Action
from meshwright.schedules.peak import chunks_at_peak
from meshwright.schedules.pipeline import PipelineShape
from meshwright.schedules.records import Schedule


@given(
    stages=st.integers(2, 5),
    rounds=st.integers(1, 4),
    sizes=st.lists(st.integers(0, 9), min_size=2, max_size=4),
    all_worked=st.booleans(),
)
def test_of_unequal_chunks_the_moment_with_the_most_layers_counts(
    stages: int, rounds: int, sizes: list[int], all_worked: bool
) -> None:
    """Against every moment of the order itself."""
    chunks, micro_batches = len(sizes), rounds * stages
    layers = np.tile(np.array(sizes)[:, None], stages)
    pipeline = PipelineShape(stages, micro_batches, chunks, stages)
    kept, _ = chunks_at_peak(Schedule.INTERLEAVED, pipeline, layers, all_worked=all_worked)
    for rank, actions in enumerate(interleaved.actions(pipeline)):
        most, later = _most_layers(actions, sizes)
        assert kept[:, rank] @ sizes == (later if all_worked and later is not None else most)


def _most_layers(actions: list[Action], sizes: list[int]) -> tuple[int, int | None]:
    """At the moments with the most chunks, and at those of them by which every chunk has worked backward."""
    live, worked, seen = [0] * len(sizes), set(), []
    for action in actions:
        live[action.chunk] += 1 if action.kind == "forward" else -1
        if action.kind == "backward":
            worked.add(action.chunk)
        seen.append((sum(live), sum(n * size for n, size in zip(live, sizes, strict=True)), len(worked) == len(sizes)))
    chunks = max(chunks for chunks, _, _ in seen)
    full = [(layers, all_of_them) for count, layers, all_of_them in seen if count == chunks]
    later = [layers for layers, all_of_them in full if all_of_them]
    return max(layers for layers, _ in full), max(later, default=None)
