"""The model screen: the architecture, its parameters by part, and the degrees that divide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from meshwright.answers.document.blocks import Block, Bullets, Paragraph, Table
from meshwright.layout.legality import rules_of
from meshwright.layout.legality.rule import divisors
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.job import Job
from meshwright.specs.model import Experts, LayerKind, Model
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime
from meshwright.specs.weights import active_parameter_count, parameter_count, parameters_by_part
from meshwright.units import format_count


def model_document(model: Model) -> dict[str, Any]:
    """The model as JSON: family, parameters, by part, the degrees that divide it and the architecture itself."""
    return {
        "family": model.family,
        "parameters": parameter_count(model),
        "active_parameters": active_parameter_count(model),
        "by_part": parameters_by_part(model),
        "degrees": dividing_degrees(model),
        "legal_degrees": {runtime: legal_degrees(model, runtime) for runtime in _runtimes_of(model)},
        "architecture": model.model_dump(mode="json"),
    }


def dividing_degrees(model: Model) -> dict[str, list[int]]:
    """Degrees that divide the model: tp by query heads (and FFN size), tp without replicating keys and values, pp by
    layers, ep by routed experts.
    """
    kinds = model.layer_kinds
    heads = int(np.gcd.reduce([kind.attention.heads for kind in kinds]))
    kv_heads = int(np.gcd.reduce([kind.attention.kv_heads for kind in kinds]))
    ffn = int(np.gcd.reduce([kind.feed_forward.ffn_size for kind in kinds]))
    common = divisors(int(np.gcd(heads, ffn)))
    tp = [degree for degree in common if kv_heads % degree == 0 or degree % kv_heads == 0]
    degrees = {
        "tp": tp,
        "tp_without_replicated_kv": [degree for degree in tp if kv_heads % degree == 0],
        "pp": divisors(model.num_layers),
    }
    experts = [kind.feed_forward.count for kind in kinds if isinstance(kind.feed_forward, Experts)]
    return degrees | ({"ep": divisors(int(np.gcd.reduce(experts)))} if experts else {})


def _runtimes_of(model: Model) -> list[str]:
    """The runtimes that have such models."""
    return [name for name in catalog.names("runtimes") if read_runtime(name).plans.experts or not model.is_moe]


def legal_degrees(model: Model, runtime: str) -> dict[str, list[int]]:
    """The tp and pp that a runtime's own rules accept for a model, whatever the cluster and the job."""
    alone = read_inputs(model, "1x1:h100", Job(sequence_length=1, global_batch=1), runtime)

    def accepts(plan: Plan, topic: str) -> bool:
        return all(rule.legal(plan, alone) for rule in rules_of(alone) if rule.topic == topic)

    heads = int(np.gcd.reduce([kind.attention.heads for kind in model.layer_kinds]))
    ends = [(first, last) for first in (False, True) for last in (False, True)]
    return {
        "tp": [tp for tp in divisors(heads) if accepts(Plan(tp=tp), "tensor")],
        "pp": [
            pp
            for pp in range(1, model.num_layers + 1)
            if any(
                accepts(Plan(pp=pp, embedding_as_layer=first, head_as_layer=last), "pipeline") for first, last in ends
            )
        ],
    }


def model_screen(model: Model) -> tuple[Block, ...]:
    """The architecture, parameters by part and dividing degrees, for people."""
    count, active = parameter_count(model), active_parameter_count(model)
    title = f"**{model.name}** ({model.family}): {count} parameters ({format_count(count)})"
    if active != count:
        title += f", {active} active ({format_count(active)})"
    return (
        Paragraph(title),
        Table(("", ""), tuple(_architecture(model)), "ll"),
        _parts_table(model),
        _degrees_table(model),
        *([Bullets(tuple(model.assumptions))] if model.assumptions else []),
    )


def _architecture(model: Model) -> Iterator[tuple[str, str]]:
    yield "hidden size", str(model.hidden_size)
    yield "vocabulary", f"{model.vocab_size}{', tied to the head' if model.tied_embeddings else ''}"
    yield "positions", f"{model.learned_positions} learned" if model.learned_positions else "rotary or none"
    for kind, count in zip(model.layer_kinds, model.layers_per_kind, strict=True):
        yield f"{count} x {kind.name}", _describe(kind)
    if model.mtp_layers:
        yield f"{model.mtp_layers} x prediction", "multi-token prediction, not among these parameters"


def _describe(kind: LayerKind) -> str:
    attention, block = kind.attention, kind.feed_forward
    heads = f"{attention.heads} query and {attention.kv_heads} key-value heads of {attention.head_dim}"
    if attention.latent:
        heads = f"{attention.heads} latent heads of {attention.head_dim}, rank {attention.latent.kv_rank}"
    window = f", window {attention.window}" if attention.window else ""
    gated = "gated " if block.gated else ""
    if isinstance(block, Experts):
        shared = f", shared expert of {block.shared_ffn_size}" if block.shared_ffn_size else ""
        return f"{heads}{window}; {block.active} of {block.count} {gated}experts of {block.ffn_size}{shared}"
    return f"{heads}{window}; {gated}FFN of {block.ffn_size} ({block.activation})"


def _parts_table(model: Model) -> Table:
    count = parameter_count(model)
    parts = parameters_by_part(model).items()
    rows = tuple((part.replace("_", " "), f"{size:,}", f"{size / count:.1%}") for part, size in parts)
    return Table(("part", "parameters", "share"), rows)


def _degrees_table(model: Model) -> Table:
    rows = [
        (f"{axis.replace('_', ' ')}, dividing", ", ".join(map(str, degrees)))
        for axis, degrees in dividing_degrees(model).items()
    ]
    for runtime in _runtimes_of(model):
        rows += [(f"{axis}, {runtime}", _runs(degrees)) for axis, degrees in legal_degrees(model, runtime).items()]
    return Table(("axis", "degrees"), tuple(rows), "wl")


def _runs(degrees: Sequence[int]) -> str:
    """Degrees with runs of three or more shortened: `1-80`, or `1-5, 8-10, 16`."""
    runs: list[list[int]] = []
    for degree in degrees:
        if not runs or degree != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(degree)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
