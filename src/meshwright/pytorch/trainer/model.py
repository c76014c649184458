"""The decoder: modules of a transformer in the form that torchtitan gives them, at the shapes of a `Model`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate
from torch.nn import functional

from meshwright.pytorch.trainer.experts import MixtureOfExperts
from meshwright.pytorch.trainer.kernels import flash_attention, rms_norm
from meshwright.specs.model import Attention as AttentionShape
from meshwright.specs.model import LayerKind, Mlp, Model
from meshwright.specs.runtime import Runtime


class RmsNorm(nn.Module):
    """One weight vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """The normed x."""
        return rms_norm(x, self.weight)


class Embedding(nn.Embedding):
    """Token embedding; where its rows are split over ranks, each looks up its own and their sum is redistributed.

    placements: of the sum, over the ranks that split the rows.
    """

    placements: tuple[Placement, ...] = ()

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) to (batch, tokens, hidden)."""
        if not isinstance(self.weight, DTensor):
            return super().forward(tokens)
        mesh, rows = self.weight.device_mesh, self.weight.to_local()
        first = mesh.get_local_rank() * -(-self.num_embeddings // mesh.size())
        local = (tokens >= first) & (tokens < first + rows.shape[0])
        looked_up = functional.embedding((tokens - first).clamp(0, rows.shape[0] - 1), rows)
        partial = looked_up * local.unsqueeze(-1).to(looked_up.dtype)
        whole = DTensor.from_local(partial, mesh, [Partial()], run_check=False)
        return whole.redistribute(placements=self.placements).to_local()


class Core(nn.Module):
    """The attention core; context parallelism puts another in its place."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(batch, heads, tokens, width) each."""
        return flash_attention(query, key, value)


class Projections(nn.Module):
    """Queries, keys and values by products of their own."""

    def __init__(self, hidden: int, shape: AttentionShape) -> None:
        super().__init__()
        self.width, bias = shape.head_dim, shape.qkv_bias
        self.query = nn.Linear(hidden, shape.heads * shape.head_dim, bias=bias)
        self.key = nn.Linear(hidden, shape.kv_heads * shape.head_dim, bias=bias)
        self.value = nn.Linear(hidden, shape.kv_heads * shape.head_dim, bias=bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """(batch, tokens, hidden) to three of (batch, tokens, heads, width)."""
        batch, tokens = x.shape[:2]
        return tuple(part(x).view(batch, tokens, -1, self.width) for part in (self.query, self.key, self.value))


class FusedProjections(nn.Module):
    """The same by one product: beside each key head the queries of its group, and its value; each is copied out."""

    def __init__(self, hidden: int, shape: AttentionShape) -> None:
        super().__init__()
        self.width, self.queries = shape.head_dim, shape.heads // shape.kv_heads
        self.joined = nn.Linear(hidden, (shape.heads + 2 * shape.kv_heads) * shape.head_dim, bias=shape.qkv_bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """(batch, tokens, hidden) to three of (batch, tokens, heads, width)."""
        batch, tokens = x.shape[:2]
        groups = self.joined(x).view(batch, tokens, -1, self.queries + 2, self.width)
        parts = torch.split(groups, [self.queries, 1, 1], dim=-2)
        return tuple(part.reshape(batch, tokens, -1, self.width).contiguous() for part in parts)


class Attention(nn.Module):
    """Query, key and value projections, rotary positions, the core and the output projection."""

    def __init__(self, hidden: int, shape: AttentionShape, length: int, runtime: Runtime) -> None:
        super().__init__()
        self.width, activations = shape.head_dim, runtime.activations
        fuses = runtime.kernels.fused_projections
        self.projections = FusedProjections(hidden, shape) if fuses else Projections(hidden, shape)
        self.output = nn.Linear(shape.heads * shape.head_dim, hidden, bias=shape.output_bias)
        normed = shape.qk_norm == "head"
        self.query_norm = RmsNorm(self.width) if normed else None
        self.key_norm = RmsNorm(self.width) if normed else None
        self.core = Core()
        self.table = cosine_table if activations.has_wide_table(shape) else complex_table
        self.copies_table = activations.rotary_copies != "none"
        self.repeats_keys = runtime.kernels.repeats_keys
        self.register_buffer("rotary", self.table(length, self.width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) both."""
        batch, tokens = x.shape[:2]
        query, key, value = self.projections(x)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        table = self._rows(batch, query.shape[1])
        query, key = (rotated(part, table) for part in (query, key))
        if self.repeats_keys:
            key, value = (_of_every_head(part, query.shape[2]) for part in (key, value))
        attended = self.core(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
        return self.output(attended.transpose(1, 2).contiguous().view(batch, tokens, -1))

    def _rows(self, batch: int, tokens: int) -> Tensor:
        """The rows of the table for these tokens, (batch or 1, tokens, 1, width of the table)."""
        rows = self.rotary[None, :tokens]
        if self.copies_table:
            rows = self.rotary[torch.arange(tokens).repeat(batch, 1)]
        return rows[:, :, None]


def _of_every_head(part: Tensor, heads: int) -> Tensor:
    """Keys or values (batch, tokens, their heads, width), copied for each of `heads` that share them."""
    batch, tokens, own, width = part.shape
    return part[:, :, :, None].expand(batch, tokens, own, heads // own, width).reshape(batch, tokens, heads, width)


def complex_table(length: int, width: int) -> Tensor:
    """One complex number for every position and pair of a head's width, 8 bytes each."""
    angles = _angles(length, width)
    return torch.polar(torch.ones_like(angles), angles)


def cosine_table(length: int, width: int) -> Tensor:
    """For every position the cosines of all elements of a head, then their sines, 4 bytes each."""
    angles = _angles(length, width).repeat(1, 2)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def _angles(length: int, width: int) -> Tensor:
    frequencies = 1.0 / 10_000.0 ** (torch.arange(0, width, 2).float() / width)
    return torch.outer(torch.arange(length).float(), frequencies)


def rotated(x: Tensor, rows: Tensor) -> Tensor:
    """x (batch, tokens, heads, width), every pair turned by its position's angle; rows: of a table."""
    if not rows.is_complex():
        cosine, sine = rows.chunk(2, dim=-1)
        whole = x.float()
        first, second = whole.chunk(2, dim=-1)
        return (whole * cosine + torch.cat([-second, first], dim=-1) * sine).type_as(x)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rows).flatten(3).type_as(x)


class FeedForward(nn.Module):
    """Gate, up and down, or up and down alone."""

    def __init__(self, hidden: int, shape: Mlp) -> None:
        super().__init__()
        self.activation = getattr(functional, shape.activation)
        self.gate = nn.Linear(hidden, shape.ffn_size, bias=shape.bias)
        self.up = nn.Linear(hidden, shape.ffn_size, bias=shape.bias) if shape.gated else None
        self.down = nn.Linear(shape.ffn_size, hidden, bias=shape.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) both."""
        inner = self.activation(self.gate(x))
        return self.down(inner if self.up is None else inner * self.up(x))


class Layer(nn.Module):
    """One transformer layer."""

    def __init__(self, model: Model, kind: LayerKind, length: int, runtime: Runtime) -> None:
        super().__init__()
        hidden, block = model.hidden_size, kind.feed_forward
        self.attention_norm, self.feed_forward_norm = RmsNorm(hidden), RmsNorm(hidden)
        self.attention = Attention(hidden, kind.attention, length, runtime)
        self.feed_forward = FeedForward(hidden, block) if isinstance(block, Mlp) else MixtureOfExperts(hidden, block)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) both."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Module):
    """Some layers of a model, with the embedding in front and the head behind where they belong to it.

    length: of the rotary tables, in tokens; runtime: whose way of writing a layer is followed.
    """

    def __init__(
        self, model: Model, kinds: Sequence[int], length: int, runtime: Runtime, *, embedding: bool, head: bool
    ) -> None:
        super().__init__()
        self.embedding = Embedding(model.vocab_size, model.hidden_size) if embedding else None
        self.layers = nn.ModuleList(Layer(model, model.layer_kinds[kind], length, runtime) for kind in kinds)
        self.norm = RmsNorm(model.hidden_size) if head else None
        self.head = nn.Linear(model.hidden_size, model.vocab_size, bias=model.head_bias) if head else None
        self.skips_head = False
        """Whether the loss runs the head, piece by piece."""
        self.tied = model.tied_embeddings and embedding and head
        """Whether the embedding and the head are one weight here."""
        self.tie()

    def tie(self) -> None:
        """Make tied ends one weight, also after each was split."""
        if self.tied:
            self.embedding.weight = self.head.weight  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        """Token ids, or what the stage before sends; logits, or what the next one needs."""
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        if self.norm is None or self.head is None:
            return x
        normed = self.norm(x)
        return _whole(normed, self.head.weight) if self.skips_head else self.head(normed)


def _whole(hidden: Tensor, weight: Tensor) -> Tensor:
    """What the head reads, whole on every tensor-parallel rank; weight: of the head, gathered or sharded."""
    if not isinstance(weight, DTensor) or "tp" not in (weight.device_mesh.mesh_dim_names or ()):
        return hidden
    if not isinstance(hidden, DTensor):
        return DTensor.from_local(hidden, weight.device_mesh["tp"], [Replicate()], run_check=False)
    return hidden.redistribute(placements=[Replicate()])
