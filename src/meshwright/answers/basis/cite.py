"""Cite: the papers and the data behind an answer, each where the formula or the data file itself names it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from meshwright.answers.basis.conditions import CONDITIONS
from meshwright.answers.document.blocks import Block, Heading, Lines
from meshwright.cost.comms.collectives import collective_time
from meshwright.cost.comms.context import context_bytes
from meshwright.cost.comms.data import data_exchanges
from meshwright.cost.comms.experts import all_gather_messages, all_to_all_messages, expert_exchanges, fused_traffic
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.sharded import gathers_weights, sharded_exchanges
from meshwright.cost.comms.tensor import layer_collectives
from meshwright.cost.compute.attention import eager_attention_time, fused_attention_time
from meshwright.cost.compute.elementwise import elementwise_time
from meshwright.cost.compute.ends import prediction_time
from meshwright.cost.compute.experts import expert_time
from meshwright.cost.compute.gemm import gemm_time
from meshwright.cost.compute.optimizer import optimizer_time
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.components import communicator_bytes
from meshwright.cost.memory.exchange_buffers import exchange_buffer_bytes
from meshwright.cost.memory.fit import verdict
from meshwright.cost.memory.graph_pool import pool_bytes
from meshwright.cost.memory.states import state_bytes
from meshwright.cost.repeated import repeated_parts
from meshwright.layout.plan import Plan
from meshwright.specs.assumed import Condition
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime.communication import FOR_EXPERTS as FIELDS_FOR_EXPERTS

ALWAYS: dict[str, Callable[..., Any]] = {
    "model FLOPs and MFU": model_flops_per_step,
    "matrix products": gemm_time,
    "element-wise kernels": elementwise_time,
    "optimizer step": optimizer_time,
    "parameters, gradients and optimizer states": state_bytes,
    "activations": layer_memory,
    "communicators": communicator_bytes,
    "verdict": verdict,
}
EXCHANGES: dict[str, Callable[..., Any]] = {
    "all_to_all": all_to_all_messages,
    "all_gather": all_gather_messages,
    "fused": fused_traffic,
}
FOR_EXPERTS = ("all_to_all", "expert_exchange", "hybrid_exchange", "fused_dispatch", "grouped", *FIELDS_FOR_EXPERTS)
ONLY_WITH: dict[str, Condition] = {
    **dict.fromkeys(FOR_EXPERTS, "experts"),
    "multi_token_prediction": "prediction",
    "quantised_gathers": "quantised",
    "gemm_fp8": "fp8",
    "gemm_fp4": "fp4",
    "graphed_expert_rows": "graphs",
}
"""Entries of data files that an answer may not rest on, and when it does."""


class Citation(NamedTuple):
    """One source."""

    about: str
    """What rests on it."""
    source: str


def citations(plans: Sequence[Plan], inputs: Inputs) -> list[Citation]:
    """The sources of the formulas that price these plans, then those of the data of accelerator, cluster and runtime.

    Formulas name theirs in their docstrings, data files in their `sources`.
    """
    formulas = {about: formula for plan in plans for about, formula in _formulas(plan, inputs).items()}
    cited = [Citation(about, source) for about, formula in formulas.items() if (source := _source(formula))]
    return cited + [Citation(about, " ".join(source.split())) for about, source in _data(inputs)]


def citation_list(plans: Sequence[Plan], inputs: Inputs) -> tuple[Block, ...]:
    """The citations on screen, one line each."""
    lines = tuple(f"**{each.about}**: {each.source}" for each in citations(plans, inputs))
    return Heading("Sources", 2), Lines(lines)


def _formulas(plan: Plan, inputs: Inputs) -> dict[str, Callable[..., Any]]:
    """The formulas that price a plan, by what they price."""
    fused, together = inputs.attention_generation != "eager", plan.dp * plan.cp
    weights = sharded_exchanges if gathers_weights(plan, inputs) else data_exchanges
    exchange = EXCHANGES[inputs.dispatcher]
    chosen: dict[str, tuple[bool, Callable[..., Any]]] = {
        "attention core": (True, fused_attention_time if fused else eager_attention_time),
        "recomputation": (plan.recompute == Recompute.SELECTIVE, repeated_parts),
        "collectives": (plan.num_gpus > 1, collective_time),
        "tp: tensor parallelism": (plan.tp > 1, layer_collectives),
        "cp: context parallelism": (plan.cp > 1, context_bytes),
        f"dp: data parallelism with ZeRO {plan.zero}": (together > 1, weights),
        "pp: stage-to-stage messages": (plan.pp > 1, pipeline_exchanges),
        "experts": (inputs.model.is_moe, expert_time),
        "ep: expert parallelism": (plan.ep > 1, expert_exchanges),
        f"ep: {inputs.dispatcher.replace('_', '-')} dispatcher": (plan.ep > 1, exchange),
        "ep: exchange buffers": (bool(exchange_buffer_bytes(plan, inputs)), exchange_buffer_bytes),
        "multi-token prediction": (inputs.mtp_layers > 0, prediction_time),
        "CUDA graphs": (inputs.runtime.host.graphs != "none", pool_bytes),
        "pp: schedule": (plan.pp > 1, plan.schedule.record.in_flight),
    }
    return ALWAYS | {about: formula for about, (used, formula) in chosen.items() if used}


def _source(formula: Callable[..., Any]) -> str:
    """What a docstring says after `Source:`, up to the end of its paragraph; of a partial function that of its own."""
    text = inspect.getdoc(formula.func if isinstance(formula, partial) else formula)
    match = re.search(r"\bSources?: (.*?)(?:\n\n|\Z)", text or "", re.DOTALL)
    return " ".join(match[1].split()) if match else ""


def _data(inputs: Inputs) -> Iterator[tuple[str, str]]:
    accelerator, runtime = inputs.cluster.accelerator, inputs.runtime
    named = {
        accelerator.id: accelerator.sources,
        f"kernels {accelerator.kernels.id}": accelerator.kernels.sources,
        inputs.cluster.library.id: inputs.cluster.library.sources,
        f"cluster {inputs.cluster.name}": inputs.cluster.sources,
        f"precision {inputs.recipe.id}": inputs.recipe.sources if inputs.recipe.quantises else {},
        runtime.id: runtime.sources,
    }
    yield f"{runtime.id}", f"every behaviour and rule as of {runtime.version}"
    for name, sources in named.items():
        for key, source in sources.items():
            if key not in ONLY_WITH or CONDITIONS[ONLY_WITH[key]](inputs):
                yield f"{name}, {key.replace('_', ' ')}", source
