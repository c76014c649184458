"""What every family shares: the keys of its config.json and the shape of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from meshwright.specs.model import MAX_LAYERS, Attention, Experts, LayerKind, Mlp, QueryKeyNorm
from meshwright.specs.reading.huggingface.keys import Activation, Count, CountOrZero, Flag, Layers, spelled
from meshwright.specs.reading.huggingface.rotary import rotary_factor


class Decoder(BaseModel):
    """A config.json of one family; subclasses name their transformers class and what differs.

    A key has a default here only where its transformers class has one that all models of the family share;
    defaults that move the parameter count are named in `noted` and told to the user.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", validate_default=True, protected_namespaces=(), defer_build=True
    )

    config_class: ClassVar[str]
    norm: ClassVar[Literal["rms", "layer"]] = "rms"
    gated: ClassVar[bool] = True
    qk_norm: ClassVar[QueryKeyNorm] = "none"
    sinks: ClassVar[bool] = False
    noted: ClassVar[tuple[str, ...]] = ("tie_word_embeddings", "num_key_value_heads")

    hidden_size: Count
    num_hidden_layers: Layers
    num_attention_heads: Count
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    intermediate_size: Count
    vocab_size: Count
    hidden_act: Activation = "silu"
    tie_word_embeddings: Flag = False
    rope_scaling: dict[str, Any] | None = Field(None, validation_alias=spelled("rope_parameters", "rope_scaling"))
    mtp_layers: Annotated[CountOrZero, Field(le=MAX_LAYERS)] = Field(
        0, validation_alias=spelled("num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules")
    )

    @field_validator("num_key_value_heads")
    @classmethod
    def _divides_heads(cls, value: int | None, info: ValidationInfo) -> int | None:
        heads = info.data.get("num_attention_heads")
        if heads and value and heads % value:
            raise ValueError(f"must divide num_attention_heads {heads}")
        return value

    @field_validator("head_dim")
    @classmethod
    def _follows(cls, value: int | None, info: ValidationInfo) -> int | None:
        hidden, heads = info.data.get("hidden_size"), info.data.get("num_attention_heads")
        if value is None and hidden and heads and hidden % heads:
            raise ValueError(f"is not given, and hidden_size {hidden} is no multiple of num_attention_heads {heads}")
        return value

    @classmethod
    def prepared(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config as it is validated: a null under one of several spellings counts as absent."""
        respelled = {key for keys in cls.spellings().values() for key in keys}
        return {key: value for key, value in config.items() if value is not None or key not in respelled}

    @classmethod
    def spellings(cls) -> dict[str, tuple[str, ...]]:
        """The keys of each field that has names of its own in the files."""
        choices = {name: field.validation_alias for name, field in cls.model_fields.items()}
        return {
            name: tuple(str(key) for key in alias.choices)
            for name, alias in choices.items()
            if isinstance(alias, AliasChoices)
        }

    @classmethod
    def keys_of(cls, field: str) -> tuple[str, ...]:
        """The keys under which files carry a field."""
        return cls.spellings().get(field, (field,))

    def window(self, layer: int) -> int | None:
        """Tokens that one query of a layer sees; None: all before it."""
        del layer
        return None

    def is_moe(self, layer: int) -> bool:
        """Whether a layer is a mixture of experts."""
        del layer
        return False

    def layer_kind(self, window: int | None, moe: bool) -> LayerKind:
        """A layer with this window and kind of feed-forward block."""
        return LayerKind(
            name="layer",
            attention=self.attention(window),
            feed_forward=self.experts() if moe else self.mlp(),
            **self.layer_details(),
        )

    def attention(self, window: int | None) -> Attention:
        """Self-attention with a window."""
        head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        return Attention(
            heads=self.num_attention_heads,
            kv_heads=self.kv_heads(),
            head_dim=head_dim,
            value_head_dim=head_dim,
            window=window,
            qk_norm=self.qk_norm,
            sinks=self.sinks,
            scaled_rotary=rotary_factor(self.rope_scaling or {}) != 1,
            **self.attention_details(),
        )

    def kv_heads(self) -> int:
        """Key and value heads: as many as query heads unless the file says otherwise."""
        return self.num_key_value_heads or self.num_attention_heads

    def mlp(self) -> Mlp:
        """The dense feed-forward block."""
        return Mlp(ffn_size=self.intermediate_size, gated=self.gated, activation=self.hidden_act, **self.mlp_details())

    def experts(self) -> Experts:
        """The mixture of experts; families with `is_moe` layers define it."""
        raise NotImplementedError

    def attention_details(self) -> dict[str, Any]:
        """Fields of `Attention` in which the file differs: biases."""
        return {}

    def mlp_details(self) -> dict[str, Any]:
        """Fields of `Mlp` in which the family differs."""
        return {}

    def layer_details(self) -> dict[str, Any]:
        """Fields of `LayerKind` in which the family differs."""
        return {}

    def head_details(self) -> dict[str, Any]:
        """Fields of `Model` in which the family's output head differs."""
        return {}

    def learned_positions(self) -> int:
        """Rows of a learned position embedding."""
        return 0

    def not_modelled(self) -> list[str]:
        """Options of the family that this file switches on and that are not modelled."""
        return []

    def assumptions(self) -> list[str]:
        """What this file leaves open, and what is taken instead."""
        return [self._default_taken(name) for name in self.noted if name not in self.model_fields_set]

    def _default_taken(self, name: str) -> str:
        value = _json(getattr(self, name))
        if value == "null" and name in ("num_key_value_heads", "num_kv_heads"):
            value = f"{self.num_attention_heads}, as many as query heads,"
        return f"{name} is not in the file: {value} is the default of {self.config_class}"


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
