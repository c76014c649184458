"""Configurations as CSV: what was measured beside what is predicted, a line each."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.specs.residuals import Quantity
from meshwright.text_files import csv_text
from meshwright.validation.fit.residuals import interval
from meshwright.validation.outcomes import Outcome, Pair

COLUMNS = (
    *("id", "rows", "dataset", "quality", "model", "gpus", "plan"),
    *("step_time_measured_s", "step_time_predicted_s", "step_time_error", "step_time_p10_s", "step_time_p90_s"),
    *("memory_kind", "memory_measured_gib", "memory_predicted_gib", "memory_error", "memory_p10_gib", "memory_p90_gib"),
    *("fitted", "verdict", "not_represented", "assumed"),
)


def configurations_csv(outcomes: Sequence[Outcome]) -> str:
    """What was measured, predicted and assumed, or why a configuration is not represented, as CSV."""
    return csv_text(COLUMNS, map(_line, outcomes))


def _line(outcome: Outcome) -> dict[str, object]:
    configuration, case, estimate = outcome.configuration, outcome.case, outcome.estimate
    first = configuration.rows[0]
    return {
        "id": configuration.id,
        "rows": len(configuration.rows),
        "dataset": configuration.dataset,
        "quality": configuration.quality,
        "model": first["model"],
        "gpus": first["cluster"] or f"{first['num_gpus']} {first['gpu']}".strip(),
        "plan": case.plan if case else "",
        **_written(figures("step_time", "s", configuration.step_time_s, outcome)),
        "memory_kind": configuration.memory_kind,
        **_written(figures("memory", "gib", configuration.memory_gib, outcome)),
        "fitted": "yes" if configuration.fits else "no",
        "verdict": estimate.verdict if estimate else "",
        "not_represented": outcome.refusal,
        "assumed": "; ".join(case.assumed) if case else "",
    }


def figures(name: Quantity, unit: str, measured: float | None, outcome: Outcome) -> dict[str, float | None]:
    """What was measured and is predicted of one quantity, its error as a share, and the interval of the run.

    name: of the quantity; unit: of its figures, s or gib; measured: where nothing is predicted.
    """
    pair: Pair | None = getattr(outcome, name)
    low, high = interval(name, outcome) or (None, None)
    return {
        f"{name}_measured_{unit}": pair.measured if pair else measured,
        f"{name}_predicted_{unit}": pair.predicted if pair else None,
        f"{name}_error": pair.error if pair else None,
        f"{name}_p10_{unit}": low,
        f"{name}_p90_{unit}": high,
    }


def _written(numbers: dict[str, float | None]) -> dict[str, object]:
    """Errors to the fourth digit behind the point, all else with six; blank where there is none."""
    formats = {name: ".4f" if name.endswith("_error") else ".6g" for name in numbers}
    return {name: "" if value is None else format(value, formats[name]) for name, value in numbers.items()}
