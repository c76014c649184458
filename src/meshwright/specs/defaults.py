"""What every way to ask a question takes where its asker says nothing; importing it costs a help page nothing."""

DEFAULT_RUNTIME = "megatron-core"
DEFAULT_PRECISION = "bf16"
