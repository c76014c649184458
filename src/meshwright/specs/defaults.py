"""Defaults: what is taken where a question says nothing; importing them costs a help page nothing."""

DEFAULT_RUNTIME = "megatron-core"
DEFAULT_PRECISION = "bf16"
