"""Settings of the whole suite: the same examples in every run, no time limit on one example, slow tests last, and which
tests one process runs.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")
CLIENTS = "clients"
"""The marker of comparisons with other packages."""
ALONE = ("tests/test_contributing.py::", "tests/pytorch/test_verify_pipelines.py::")
"""Files whose tests share nothing: any process runs any of them, when all else is given out."""
BY_MEMO = re.compile(r"^tests/answers/memo/test_memo(?:_signed)?\.py::\w+\[([a-z][\w-]+)\]$")
"""Tests of two files that look at one memo, which takes seconds to make."""
TOGETHER = {"tests/pytorch/test_pitfalls.py": "tests/pytorch/test_verify.py"}
"""Files that look at the same runs of PyTorch, by the file in whose process they are."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where comparisons with other packages alone are asked for, do not import the files that have none."""
    if config.option.markexpr == CLIENTS and collection_path.suffix == ".py":
        return f"mark.{CLIENTS}" not in collection_path.read_text("utf-8") or None
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files stay in one process (`--dist loadfile`), but for what is said above."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if memo := BY_MEMO.match(nodeid):
                return memo[1]
            scope = nodeid if nodeid.startswith(ALONE) else super()._split_scope(nodeid)
            return TOGETHER.get(scope, scope)

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays to the end: the garbage collector need not look through it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip comparisons with packages that are missing, and run slow tests last: most mistakes show in a minute."""
    for item in items:
        marker = item.get_closest_marker(CLIENTS)
        missing = [name for name in marker.args if find_spec(name) is None] if marker else []
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} is not installed: make test-clients"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
