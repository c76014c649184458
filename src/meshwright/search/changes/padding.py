"""Padding: sizes of the model whose kernels would be faster if they were padded to the next aligned size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import lcm
from typing import NamedTuple

from meshwright.cost.compute.alignment import unaligned_slowdown
from meshwright.cost.shard import vocabulary_shard
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.kernels import NumberFormat
from meshwright.specs.model import Experts, LayerKind, Mlp, Model

VOCABULARY_MULTIPLE = 64
"""What people pad a vocabulary to at least: 128 bytes of half precision (NVIDIA, matrix multiplication background,
table 1; arXiv:2401.14489, section VI)."""


class Padding(NamedTuple):
    """One size of the model that is not aligned on its rank, and the question with the size padded."""

    field: str
    """As the model names it."""
    name: str
    """As people say it."""
    size: int
    on_rank: int
    """Elements of it on one rank."""
    multiple: int
    """Elements of which the kernels want a multiple on a rank."""
    padded: int
    inputs: Inputs


class _Size(NamedTuple):
    """One size of the model, how many ranks share it, and the model with another one."""

    field: str
    name: str
    elements: int
    ranks: int
    resized: Callable[[int], Model]


def paddings(plan: Plan, inputs: Inputs) -> Iterator[Padding]:
    """The vocabulary, hidden, FFN and head sizes that are not aligned on a rank of a plan, each padded by itself."""
    half, of_recipe = (_aligned_elements(inputs, each) for each in ("half", inputs.recipe.number_format))
    shards, together = {"vocab_size": int(vocabulary_shard(plan, inputs))}, {"vocab_size": VOCABULARY_MULTIPLE}
    multiples = {"vocab_size": half, "head_dim": inputs.cluster.accelerator.kernels.attention.head_alignment}
    for each in _sizes(plan, inputs.model):
        on_rank, multiple = shards.get(each.field, each.elements // each.ranks), multiples.get(each.field, of_recipe)
        if on_rank % multiple:
            step = lcm(multiple * each.ranks, together.get(each.field, 1))
            padded = -(-each.elements // step) * step
            yield Padding(
                field=each.field,
                name=each.name,
                size=each.elements,
                on_rank=on_rank,
                multiple=multiple,
                padded=padded,
                inputs=inputs.replace(model=each.resized(padded)),
            )


def _sizes(plan: Plan, model: Model) -> Iterator[_Size]:
    def size(field: str, name: str, elements: int, ranks: int, resized: Callable[[int], Model]) -> _Size:
        return _Size(field=field, name=name, elements=elements, ranks=ranks, resized=resized)

    yield size("vocab_size", "vocabulary", model.vocab_size, plan.tp, lambda to: model.replace(vocab_size=to))
    yield size("hidden_size", "hidden size", model.hidden_size, 1, lambda to: model.replace(hidden_size=to))
    for head in sorted({kind.attention.head_dim for kind in model.layer_kinds if not kind.attention.latent}):
        yield size("head_dim", "head size", head, 1, partial(_with_heads, model, head))
    for field, name, elements, ranks in sorted(_ffn_sizes(plan, model)):
        yield size(field, name, elements, ranks, partial(_with_ffn, model, field, elements))


def _aligned_elements(inputs: Inputs, number_format: NumberFormat) -> int:
    """The fewest elements, a power of two, at whose multiples no product takes longer."""
    accelerator, elements = inputs.cluster.accelerator, 1
    while max(unaligned_slowdown(elements, elements, accelerator, number_format)) > 1:
        elements *= 2
    return elements


def _ffn_sizes(plan: Plan, model: Model) -> set[tuple[str, str, int, int]]:
    """Field, name, size and sharing ranks of every feed-forward block."""
    sizes = set()
    for block in (kind.feed_forward for kind in model.layer_kinds):
        if isinstance(block, Mlp):
            sizes.add(("ffn_size", "FFN size", block.ffn_size, plan.tp))
        else:
            sizes.add(("experts.ffn_size", "FFN size of an expert", block.ffn_size, plan.etp))
            sizes.add(("experts.shared_ffn_size", "FFN size of the shared expert", block.shared_ffn_size, plan.tp))
    return sizes


def _with_heads(model: Model, head: int, padded: int) -> Model:
    def resized(kind: LayerKind) -> LayerKind:
        attention = kind.attention
        value = padded if attention.value_head_dim == head else attention.value_head_dim
        return kind.replace(attention=attention.replace(head_dim=padded, value_head_dim=value))

    return _with_kinds(model, resized, lambda kind: kind.attention.head_dim == head)


def _with_ffn(model: Model, field: str, value: int, padded: int) -> Model:
    name = field.removeprefix("experts.")

    def has(kind: LayerKind) -> bool:
        block = kind.feed_forward
        return isinstance(block, Experts) == (name != field) and getattr(block, name) == value

    return _with_kinds(model, lambda kind: kind.replace(feed_forward=kind.feed_forward.replace(**{name: padded})), has)


def _with_kinds(model: Model, resized: Callable[[LayerKind], LayerKind], of: Callable[[LayerKind], bool]) -> Model:
    return model.replace(layer_kinds=tuple(resized(kind) if of(kind) else kind for kind in model.layer_kinds))
