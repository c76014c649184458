"""Layers of multi-token prediction that some runtimes train and others leave out, told where they are compared."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.answers.words import plural
from meshwright.errors import listed


def prediction_words(trained: Mapping[str, int]) -> str:
    """Which runtimes train such layers, where others leave them out; else nothing.

    trained: layers by the name of the runtime, counts.

    >>> prediction_words({"megatron-core": 1, "torchtitan": 0})
    'megatron-core also trains 1 layer of multi-token prediction; torchtitan trains the model without it.'
    """
    training = [name for name, layers in trained.items() if layers]
    others = [name for name in trained if name not in training]
    if not training or not others:
        return ""
    layers = plural(max(trained.values()), "layer")
    verbs = "trains" if len(training) == 1 else "train", "trains" if len(others) == 1 else "train"
    return (
        f"{listed(training)} also {verbs[0]} {layers} of multi-token prediction; "
        f"{listed(others)} {verbs[1]} the model without it."
    )
