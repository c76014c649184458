"""Settings of the whole suite: the same examples in every run, and no time limit on one example."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")
