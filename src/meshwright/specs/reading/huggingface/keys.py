"""The types of a config.json's values, checked without coercion: `true` is no number, `"8"` is no 8."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from meshwright.specs.model import MAX_LAYERS, MAX_SIZE


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a whole number, not {_json_type(value)}")
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("must be a whole number")
    return int(value)


def _json_type(value: Any) -> str:
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _activation(value: Any) -> str:
    known = {
        "silu": ("silu", "swish"),
        "gelu": ("gelu", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu"),
        "gelu_new": ("gelu_new",),
        "relu": ("relu",),
        "relu2": ("relu2",),
    }
    for name, spellings in known.items():
        if value in spellings:
            return name
    raise ValueError(
        f"is not an activation that is modelled: {', '.join(s for names in known.values() for s in names)}"
    )


Count = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=MAX_SIZE)]
CountOrZero = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=MAX_SIZE)]
Layers = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=MAX_LAYERS)]
Flag = Annotated[bool, Field(strict=True)]
Activation = Annotated[Literal["silu", "gelu", "gelu_new", "relu", "relu2"], BeforeValidator(_activation)]
LayerTypes = list[Literal["full_attention", "sliding_attention"]]


def spelled(*names: str) -> AliasChoices:
    """The keys under which files carry one value; the first is today's name."""
    return AliasChoices(*names)
