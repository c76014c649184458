"""Limits as a screen: what a plan that reaches one has that no published run has."""

from __future__ import annotations

from commands import asked


def test_a_limit_that_only_an_unproven_plan_reaches_says_so() -> None:
    """405B, whose fewest nodes need tensor parallelism over two of them."""
    text = " ".join(asked("limits", "llama-3.1-405b", "12x8:h100", "--global-batch", "64", "--tp", "16").out.split())
    assert "Fewest nodes: 14 nodes" in text
    assert "Not proven: no published run has tp 16 (the most: tp 8)." in text
