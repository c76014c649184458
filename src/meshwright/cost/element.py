"""Bytes of one element: what the recipes that are priced keep weights, activations and states in."""

from meshwright.specs.precision import FP32_BYTES as FP32_BYTES
from meshwright.specs.precision import HALF_BYTES as HALF_BYTES
