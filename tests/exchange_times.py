"""Seconds of exchanges, by pass and by direction."""

from __future__ import annotations

from typing import Any, NamedTuple

from meshwright.cost.comms.data import shard_messages
from meshwright.cost.comms.exchange import Exchange, exposed_seconds, total_seconds
from meshwright.cost.comms.experts import token_messages
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind


class PassSeconds(NamedTuple):
    """Exposed seconds."""

    forward: Any
    backward: Any


class TokenTimes(NamedTuple):
    """Seconds if nothing ran beside them."""

    dispatch: Any
    combine: Any


def pass_times(exchanges: tuple[Exchange, ...], inputs: Inputs) -> PassSeconds:
    """What either pass waits for, recomputation with backward."""
    forward = [each for each in exchanges if each.phase == "forward"]
    backward = [each for each in exchanges if each.phase != "forward"]
    return PassSeconds(exposed_seconds(forward, inputs), exposed_seconds(backward, inputs))


def token_times(plan: Layout, inputs: Inputs, kind: LayerKind, tokens: Any, width: float) -> TokenTimes:
    """Of the tokens of one layer and micro-batch to their experts, and back."""
    return TokenTimes(*map(total_seconds, token_messages(plan, inputs, kind, tokens, width)))


def shard_times(plan: Layout, inputs: Inputs, parameters: Any, ends: Any = 0) -> tuple[Any, Any]:
    """Of scattering the gradients of some parameters, and of gathering their weights."""
    gather, scatter = map(total_seconds, shard_messages(plan, inputs, parameters, ends=ends))
    return scatter, gather


def pipeline_time(plan: Layout, inputs: Inputs, work: Any) -> Any:
    """What a step waits for messages between stages."""
    return exposed_seconds(pipeline_exchanges(plan, inputs, work), inputs)
