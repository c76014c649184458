"""Bytes of one element: what the recipes that are priced keep weights, activations and states in."""

from meshwright.specs.precision import HALF_BYTES as HALF_BYTES

FP32_BYTES = 4
"""Master weights, each Adam moment, statistics."""
