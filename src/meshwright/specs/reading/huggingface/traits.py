"""What some families share: biases, heads that the class decides, sliding windows, routed experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ValidationInfo, field_validator, model_validator

from meshwright.specs.model import Experts
from meshwright.specs.reading.huggingface.decoder import Decoder
from meshwright.specs.reading.huggingface.keys import Count, Flag, LayerTypes

Entries = TypeVar("Entries", bound=list[Any] | None)


class PlainHeads(Decoder):
    """Families whose class ignores `num_key_value_heads` and `head_dim`."""

    noted: ClassVar[tuple[str, ...]] = ("tie_word_embeddings",)
    num_key_value_heads: Any = None
    head_dim: Any = None

    @field_validator("num_key_value_heads", "head_dim", mode="before")
    @classmethod
    def _ignored(cls, value: Any) -> None:
        del value


class AttentionBias(BaseModel):
    """`attention_bias`: biases on all four projections of the attention."""

    attention_bias: Flag = False

    def attention_details(self) -> dict[str, Any]:
        """Biases on queries, keys, values and output."""
        return {"qkv_bias": self.attention_bias, "output_bias": self.attention_bias}


def one_per_layer(value: Entries, info: ValidationInfo) -> Entries:
    """A check that a list, where there is one, has an entry for each layer."""
    layers = info.data.get("num_hidden_layers")
    if value is not None and layers and len(value) != layers:
        raise ValueError(f"has {len(value)} entries for num_hidden_layers {layers}")
    return value


class Windowed(Decoder):
    """`layer_types` where the file has it, else the rule `slides` of the family."""

    sliding_window: Count | None = None
    layer_types: LayerTypes | None = None

    def slides(self, layer: int) -> bool:
        """Whether a layer has the sliding window when the file has no `layer_types`."""
        del layer
        return self.window_size() is not None

    def window_size(self) -> int | None:
        """The window in tokens; None: the file switches it off."""
        return self.sliding_window

    def window(self, layer: int) -> int | None:
        """Tokens that one query of a layer sees; None: all before it."""
        slides = self.slides(layer) if self.layer_types is None else self.layer_types[layer] == "sliding_attention"
        return self.window_size() if slides else None

    _one_per_layer = field_validator("layer_types")(one_per_layer)

    @model_validator(mode="after")
    def _has_window(self) -> Self:
        types = self.layer_types or [
            "sliding_attention" if self.slides(layer) else "full_attention" for layer in range(self.num_hidden_layers)
        ]
        if "sliding_attention" in types and self.window_size() is None:
            raise ValueError("some layers are sliding_attention, but sliding_window is null or switched off")
        return self


class Routed(Decoder):
    """A decoder some of whose layers are mixtures of experts."""

    def routed(self) -> tuple[int, int, int]:
        """Experts, those that one token visits, and the FFN size of one."""
        raise NotImplementedError

    def experts(self) -> Experts:
        """The mixture of experts."""
        count, active, ffn_size = self.routed()
        return Experts(
            count=count, active=active, ffn_size=ffn_size, activation=self.hidden_act, **self.expert_details()
        )

    def expert_details(self) -> dict[str, Any]:
        """Fields of `Experts` in which the family differs."""
        return {}


def at_most(key: str) -> Callable[[int | None, ValidationInfo], int | None]:
    """A check that a value does not exceed the one under `key`."""

    def check(value: int | None, info: ValidationInfo) -> int | None:
        most = info.data.get(key)
        if most and value and value > most:
            raise ValueError(f"cannot exceed {key} {most}")
        return value

    return check
