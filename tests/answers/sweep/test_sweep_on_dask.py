"""Sweeps on Dask: a real scheduler with workers in processes of their own, one of which is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meshwright.answers.sweep import run
from meshwright.answers.sweep.folder import SweepFolder
from meshwright.answers.sweep.run import sweep
from meshwright.errors import InvalidInput
from meshwright.search.executors import executor_of

pytestmark = [pytest.mark.slow, pytest.mark.clients("pyarrow", "distributed"), pytest.mark.filterwarnings("default")]

SWEEP: dict[str, Any] = {
    "models": ["llama-3.1-8b"],
    "clusters": ["1x8:h100", "2x8:h100"],
    "jobs": {"seq_len": [2048, 4096, 8192], "global_batch": 64},
    "limits": {"few": {"tp": [2, 4], "cp": 1, "pp": 1, "micro_batch": 1}},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two workers, processes of this machine."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


def test_a_killed_worker_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sweep(SWEEP, tmp_path / "whole", workers=1, all_plans=True)
    monkeypatch.setattr(run, "MOST_QUESTIONS", 1)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if not killed and done < total:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    kept, keep = list[str](), SweepFolder.keep
    monkeypatch.setattr(SweepFolder, "keep", lambda self, batch: (kept.extend(batch), keep(self, batch))[1])
    result = sweep(
        SWEEP,
        tmp_path / "dask",
        dask=cluster.scheduler_address,
        all_plans=True,
        progress=kill,
    )
    assert killed
    assert len(kept) == len(set(kept)) == len(result.rows()) == 6
    assert result.best.read_bytes() == whole.best.read_bytes()
    assert result.plans
    assert whole.plans
    assert _tables(result.plans) == _tables(whole.plans)


def _tables(folder: Path) -> dict[str, bytes]:
    """The bytes of every table; a worker that is killed may leave a temporary file, which nobody reads."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_where_no_scheduler_answers_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshwright.search.executors.CONNECT_S", 1)
    with (
        pytest.raises(InvalidInput, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1'"),
        executor_of(dask="tcp://127.0.0.1:1"),
    ):
        pass
