"""What stands beside each number of the 4D analyzer: its formula, its unit and what it is counted over."""

from __future__ import annotations

from typing import Any, NamedTuple


class Formula(NamedTuple):
    """How one number of the analyzer comes about."""

    text: str
    unit: str
    scope: str


_GPU = "per GPU"
_STEP = "per GPU, per step"
_MICRO = "per GPU, per micro-batch"
_CHAIN = "per GPU (mean over the chain of stages), per step"

FORMULAS = {
    "valid": Formula("dp tp pp sp == num_gpus", "yes or no", "the whole job"),
    "total_params": Formula("P = 2 V H + 12 L H^2", "parameters", "the whole model"),
    "param_memory_per_gpu_gb": Formula("16 P / (tp pp) / 1e9, not divided by dp or sp", "GB", _GPU),
    "activation_memory_per_gpu_gb": Formula(
        "10 A L / (pp tp sp) / 1e9, A = 2 S B H bytes", "GB", "per GPU, one micro-batch in flight"
    ),
    "total_memory_per_gpu_gb": Formula("states + activations", "GB", _GPU),
    "fits_in_memory": Formula("unrounded total <= memory_per_gpu_gb", "yes or no", _GPU),
    "dp_comm_gb": Formula("2 (dp-1)/dp * 2 P / (tp pp) / 1e9", "GB", _STEP),
    "tp_comm_gb": Formula("4 (L/pp) * 2 (tp-1)/tp * A / 1e9, S not divided by sp", "GB", _MICRO),
    "pp_comm_gb": Formula("2 m (pp-1)/pp * A / tp / 1e9", "GB", _CHAIN),
    "sp_comm_gb": Formula("2 (L/pp) * (sp-1)/sp * A / 1e9", "GB", _MICRO),
    "bubble_ratio": Formula("(pp-1) / (m + pp-1)", "share", "idle time over the step"),
}

PER_STEP = {
    "dp_comm_gb_per_step": ("dp_comm_gb", "step"),
    "tp_comm_gb_per_step": ("tp_comm_gb", "micro-batch"),
    "pp_comm_gb_per_step": ("pp_comm_gb", "step"),
    "sp_comm_gb_per_step": ("sp_comm_gb", "micro-batch"),
}
"""The volumes per step: which number each comes from, and what that one is counted over."""


def explained(answer: dict[str, Any], per_step: dict[str, float], over_ideal: float) -> dict[str, Any]:
    """What `explain=True` adds: formulas and scopes, volumes per step, and the bubble over ideal time.

    answer: the eleven numbers; per_step: GB per GPU and step; over_ideal: idle over busy time. Source: `FORMULAS`.
    """
    return {
        "explanation": {key: _entry(answer[key], *formula) for key, formula in FORMULAS.items()},
        "per_step": {name: _entry(value, *_step_formula(name)) for name, value in per_step.items()},
        "bubble_over_ideal": _entry(over_ideal, "(pp-1) / (v m), v = 1", "share", "idle time over busy time"),
    }


def _step_formula(name: str) -> Formula:
    key, per = PER_STEP[name]
    scope = _CHAIN if FORMULAS[key].scope == _CHAIN else _STEP
    return Formula(key if per == "step" else f"m * {key}", "GB", scope)


def _entry(value: Any, formula: str, unit: str, scope: str) -> dict[str, Any]:
    return {"value": value, "unit": unit, "formula": formula, "scope": scope}
