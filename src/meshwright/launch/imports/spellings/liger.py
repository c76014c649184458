"""Liger: which of its two losses a Trainer asks for."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.spelling import Settings

_PLAIN, _FUSED = "cross_entropy", "fused_linear_cross_entropy"


def require_one_loss(settings: Settings, config: str) -> None:
    """Raises `InvalidInput` where both losses of Liger are on, as the fused one is unless it is said.

    config: the key of what is handed to Liger. Source: linkedin/Liger-Kernel@ead96b618
    src/liger_kernel/transformers/monkey_patch.py L245, apply_liger_kernel_to_llama, and the others; transformers 5.23.0
    training_args.py, liger_kernel_config.
    """
    switch = f"{config.removesuffix('liger_kernel_config')}use_liger_kernel"
    plain, fused = (settings.get(f"{config}.{name}") for name in (_PLAIN, _FUSED))
    if settings.get(switch) in (True, "True") and plain is True and fused is not False:
        raise InvalidInput(
            f"{config}: {_PLAIN} is true and {_FUSED} is {'' if fused else 'left out, which is '}true: Liger takes one "
            f"of the two; set {_FUSED}: false, or leave out {_PLAIN}, as the fused one keeps no logits"
        )
