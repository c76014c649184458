"""Settings of the whole suite: the same examples in every run, no time limit on one example, slow tests last."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip comparisons with packages that are missing, and run slow tests last: most mistakes show in a minute."""
    for item in items:
        marker = item.get_closest_marker("clients")
        missing = [name for name in marker.args if find_spec(name) is None] if marker else []
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} is not installed: make test-clients"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
