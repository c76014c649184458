"""Step parts: what the parts of a step are called, and which of them make one plan slower than another."""

from __future__ import annotations

from meshwright.cost.estimate import Estimate
from meshwright.search.rank import difference
from meshwright.units import format_gib, format_seconds

COMPUTED_NAMES = {
    "ideal_s": "model FLOPs at dense peak",
    "kernels_s": "products and attention below peak",
    "elementwise_s": "element-wise and norms",
    "uneven_s": "slowest stage over the mean",
    "recompute_s": "recomputation",
}
PART_NAMES = {
    "compute_s": "compute",
    "exposed_tp_s": "exposed tensor-parallel communication",
    "exposed_cp_s": "exposed context-parallel communication",
    "exposed_ep_s": "exposed expert exchange",
    "exposed_pp_s": "exposed stage-to-stage messages",
    "exposed_dp_s": "exposed gradient exchange",
    "bubble_s": "pipeline bubble",
    "optimizer_s": "optimizer step",
    "host_s": "waiting for the host",
}
ALL_NAMES = COMPUTED_NAMES | PART_NAMES


def why_lost(plan: Estimate, best: Estimate) -> str:
    """How much a plan loses to the best one, or gains over one that is not, and in which part of the step."""
    lost = difference(plan, best)
    if plan.verdict > best.verdict:
        pace = f"{-lost.share:.1%} faster" if lost.seconds < 0 else f"{lost.share:.1%} slower"
        risk = "at risk of running out" if plan.verdict.fits else "out"
        return f"{pace}, but {risk} of memory ({format_gib(plan.memory.device)} on its worst stage)"
    if not lost.parts:
        more = "more" if lost.memory_bytes >= 0 else "less"
        return f"as fast within {abs(lost.share):.2%}, with {format_gib(abs(lost.memory_bytes))} {more} memory"
    parts = [
        f"{format_seconds(abs(seconds))} {'more' if seconds > 0 else 'less'} {PART_NAMES[name]}"
        for name, seconds in lost.parts.items()
    ]
    fits = f"{plan.verdict}, " if plan.verdict < best.verdict else ""
    return f"{fits}{_pace(lost.share)}: {', '.join(parts)}"


def _pace(share: float) -> str:
    if share < 0:
        return f"{-share:.1%} faster"
    return f"{share:.1%} slower" if share < 1 else f"{1 + share:.1f} times as long"
