"""Fitted: the few constants that rest on whole training runs, in one file of the catalogue."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from meshwright.specs import catalog
from meshwright.specs.base import Spec


class FittedConstant(Spec):
    """How much longer kernels take in a training step than alone, where a kernel table or a runtime names it."""

    why: str
    value: Annotated[float, Field(gt=0, le=10)]


@cache
def fitted_constants() -> dict[str, FittedConstant]:
    """Every constant by its name."""
    return {name: FittedConstant(**entry) for name, entry in catalog.table("fitted").items()}


@cache
def fitted_values() -> dict[str, float]:
    """The value of every constant by its name, shares."""
    return {name: constant.value for name, constant in fitted_constants().items()}
