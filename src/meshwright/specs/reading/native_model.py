"""Meshwright's own form of a model, for architectures that no config.json describes.

A TOML file with the fields of `Model`, its layer kinds by name, and the order in which they stand::

    name = "my-moe"
    hidden_size = 4096
    vocab_size = 128256
    tied_embeddings = false                 # the default; so are norm = "rms", learned_positions = 0, mtp_layers = 0
    layers = ["3 dense", "58 moe"]          # a count, then the kinds of one repetition; or 61 with a single kind

    [kinds.dense]
    attention = { heads = 32, kv_heads = 8 }
    mlp = { ffn_size = 14336 }

    [kinds.moe]
    attention = { heads = 32, kv_heads = 8 }
    experts = { count = 128, active = 8, ffn_size = 1536 }

`"13 sliding full"` repeats the pair thirteen times. `attention`, `mlp` and `experts` take the fields of the classes
`Attention`, `Mlp` and `Experts`; `kv_heads` left out equals `heads`, `head_dim` is `hidden_size / heads` and
`value_head_dim` is `head_dim`. Sizes are counts, `window` is in tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from meshwright.errors import Fault, InvalidSpec
from meshwright.specs.base import Spec
from meshwright.specs.model import MAX_LAYERS, Attention, Experts, Flag, LayerKind, Mlp, Model, PositiveInt, Size

_RUN = re.compile(r"(\d{1,12})((?:\s+\S+)+)")


class NativeKind(Spec):
    """One `[kinds.<name>]` table: attention, and either `mlp` or `experts`."""

    attention: Attention
    mlp: Mlp | None = None
    experts: Experts | None = None
    norms: PositiveInt = 2
    parallel_residual: Flag = False

    @model_validator(mode="after")
    def _one_block(self) -> Self:
        if (self.mlp is None) == (self.experts is None):
            raise ValueError(f"needs exactly one of mlp and experts, and has {'both' if self.mlp else 'neither'}")
        return self


class NativeModel(Spec):
    """The whole file."""

    name: Annotated[str, Field(min_length=1)]
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    layers: Any
    kinds: Annotated[dict[str, NativeKind], Field(min_length=1)]
    tied_embeddings: Flag = False
    head_bias: Flag = False
    head_softcap: Flag = False
    norm: Literal["rms", "layer"] = "rms"
    learned_positions: Size = 0
    mtp_layers: Size = 0
    assumptions: tuple[str, ...] = ()


def model_of_native(table: Mapping[str, Any], *, subject: str) -> Model:
    """The model that a parsed native file describes; raises `InvalidSpec` with every fault of it."""
    order, faults = _order(table)
    try:
        native = NativeModel(**_completed(table))
    except InvalidSpec as error:
        faults = [*error.faults, *faults]
    if faults:
        raise InvalidSpec(subject, faults)
    kinds = list(native.kinds)
    return Model(
        family="native",
        layer_kinds=tuple(_layer_kind(name, kind) for name, kind in native.kinds.items()),
        layer_pattern=tuple(kinds.index(name) for name in order),
        **{name: getattr(native, name) for name in NativeModel.model_fields if name not in ("layers", "kinds")},
    )


def _layer_kind(name: str, kind: NativeKind) -> LayerKind:
    return LayerKind(
        name=name,
        attention=kind.attention,
        feed_forward=kind.mlp or kind.experts,
        norms=kind.norms,
        parallel_residual=kind.parallel_residual,
    )


def _order(table: Mapping[str, Any]) -> tuple[list[str], list[Fault]]:
    layers, kinds = table.get("layers"), table.get("kinds")
    known = [str(name) for name in kinds] if isinstance(kinds, Mapping) else []
    if isinstance(layers, int) and not isinstance(layers, bool):
        return _single(layers, known)
    if layers is None:
        return [], []
    if not isinstance(layers, list) or not layers:
        return [], [Fault("layers", f'is a number or a list such as ["3 dense"], not {layers!r}')]
    runs = [_run(f"layers[{index}]", run, known) for index, run in enumerate(layers)]
    faults = [run for run in runs if isinstance(run, Fault)]
    repeated = [run for run in runs if not isinstance(run, Fault)]
    if sum(count * len(names) for count, names in repeated) > MAX_LAYERS:
        faults.append(Fault("layers", f"make more than {MAX_LAYERS} layers"))
    if faults:
        return [], faults
    order = [name for count, names in repeated for _ in range(count) for name in names]
    return order, [Fault(f"kinds.{name}", "stands in no layer") for name in known if name not in order]


def _run(where: str, run: Any, known: list[str]) -> tuple[int, list[str]] | Fault:
    match = _RUN.fullmatch(run.strip()) if isinstance(run, str) else None
    count, names = (int(match[1]), match[2].split()) if match else (0, [])
    if count == 0:
        return Fault(where, f'is a count and kinds, such as "3 dense", not {run!r}')
    unknown = sorted(set(names) - set(known))
    if unknown:
        return Fault(where, f"names {', '.join(unknown)}; the kinds are {', '.join(known)}")
    return count, names


def _single(layers: int, known: list[str]) -> tuple[list[str], list[Fault]]:
    if not 0 < layers <= MAX_LAYERS:
        return [], [Fault("layers", f"must be from 1 to {MAX_LAYERS} (given: {layers})")]
    if len(known) > 1:
        return [], [Fault("layers", f'must say which kind stands where, such as ["{layers} {known[0]}"]')]
    return known * layers, []


def _completed(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the sizes of the heads filled in where others imply them."""
    kinds = table.get("kinds")
    if not isinstance(kinds, Mapping):
        return dict(table)
    return {**table, "kinds": {name: _with_heads(kind, table.get("hidden_size")) for name, kind in kinds.items()}}


def _with_heads(kind: Any, hidden: Any) -> Any:
    attention = kind.get("attention") if isinstance(kind, Mapping) else None
    if not isinstance(attention, Mapping):
        return kind
    heads = attention.get("heads")
    implied: dict[str, Any] = {} if heads is None else {"kv_heads": heads}
    if isinstance(heads, int) and isinstance(hidden, int) and heads > 0 and hidden % heads == 0:
        implied["head_dim"] = hidden // heads
    filled = implied | dict(attention)
    if "head_dim" in filled:
        filled.setdefault("value_head_dim", filled["head_dim"])
    return {**kind, "attention": filled}
