"""Bytes of one element: what the recipes that are priced keep weights, activations and states in."""

HALF_BYTES = 2
"""bf16 and fp16: weights, activations and their traffic."""
FP32_BYTES = 4
"""Master weights, each Adam moment, statistics."""
