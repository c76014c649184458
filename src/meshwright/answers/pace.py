"""Pace: how much faster or slower one plan is than another, as every screen, page and file says it."""

from __future__ import annotations

from meshwright.cost.estimate import Estimate

SMALLEST = 0.001
"""A share below which two digits behind the point are written."""
SAME = 5e-5
"""A share below which two plans are told to be as fast."""


def longer(plan: Estimate, than: Estimate) -> float:
    """What the step of a plan takes longer than that of another, as a share of the other's; negative where it takes
    less. than: the recommended plan, or the one that a screen is about.
    """
    return plan.step_time_s / than.step_time_s - 1


def pace(plan: Estimate, than: Estimate) -> str:
    """The same in words."""
    return pace_of(longer(plan, than))


def pace_of(share: float) -> str:
    """A share of a step in words.

    >>> pace_of(-0.036), pace_of(0.0004), pace_of(1.2)
    ('3.6% faster', '0.04% slower', '2.2 times as long')
    """
    if share >= 1:
        return f"{1 + share:.1f} times as long"
    text = f"{abs(share):.1%}" if abs(share) >= SMALLEST else f"{abs(share):.2%}"
    return f"{text} {'slower' if share >= 0 else 'faster'}"


def pace_or_same(share: float) -> str:
    """The same, or that two plans are as fast where their difference is below `SAME`."""
    return pace_of(share) if abs(share) >= SAME else "as fast"
