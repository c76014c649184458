"""Families with routed experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationInfo

from meshwright.specs.huggingface.decoder import Decoder
from meshwright.specs.model import Experts


class Routed(Decoder):
    """A decoder some of whose layers are mixtures of experts."""

    def routed(self) -> tuple[int, int, int]:
        """Experts, those that one token visits, and the FFN size of one."""
        raise NotImplementedError

    def experts(self) -> Experts:
        """The mixture of experts."""
        count, active, ffn_size = self.routed()
        return Experts(
            count=count, active=active, ffn_size=ffn_size, activation=self.hidden_act, **self.expert_details()
        )

    def expert_details(self) -> dict[str, Any]:
        """Fields of `Experts` in which the family differs."""
        return {}


def at_most(key: str) -> Callable[[int | None, ValidationInfo], int | None]:
    """A check that a value does not exceed the one under `key`."""

    def check(value: int | None, info: ValidationInfo) -> int | None:
        most = info.data.get(key)
        if most and value and value > most:
            raise ValueError(f"cannot exceed {key} {most}")
        return value

    return check
