"""Families whose layers may see a sliding window only."""

from __future__ import annotations

from typing import Self

from pydantic import ValidationInfo, field_validator, model_validator

from meshwright.specs.huggingface.decoder import Decoder
from meshwright.specs.huggingface.keys import Count, LayerTypes


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

    @field_validator("layer_types")
    @classmethod
    def _one_per_layer(cls, value: LayerTypes | None, info: ValidationInfo) -> LayerTypes | None:
        layers = info.data.get("num_hidden_layers")
        if value is not None and layers and len(value) != layers:
            raise ValueError(f"has {len(value)} entries for num_hidden_layers {layers}")
        return value

    @model_validator(mode="after")
    def _has_window(self) -> Self:
        types = self.layer_types or [
            "sliding_attention" if self.slides(layer) else "full_attention" for layer in range(self.num_hidden_layers)
        ]
        if "sliding_attention" in types and self.window_size() is None:
            raise ValueError("some layers are sliding_attention, but sliding_window is null or switched off")
        return self
