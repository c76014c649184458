"""Fitted: the few constants that rest on whole training runs, in one file of the catalogue."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import Field

from meshwright.specs.base import Spec
from meshwright.specs.kernels import NumberFormat

FILE = resources.files("meshwright.specs.catalog") / "fitted.toml"


class FittedConstant(Spec):
    """How much longer some kernels take in a training step than alone."""

    why: str
    value: Annotated[float, Field(gt=0, le=10)]
    kernels: dict[NumberFormat, tuple[str, ...]] = {}
    """Ids of kernel constants that it holds for, by the number format of the recipe's products."""
    runtimes: tuple[str, ...] = ()
    """Ids of runtimes that it holds for; with neither: for what names it, as `attention_constant` of a runtime does."""


@cache
def fitted_constants() -> dict[str, FittedConstant]:
    """Every constant by its name."""
    return {name: FittedConstant(**entry) for name, entry in tomllib.loads(FILE.read_text("utf-8")).items()}


@cache
def fitted_values() -> dict[str, float]:
    """The value of every constant by its name, shares."""
    return {name: constant.value for name, constant in fitted_constants().items()}


@cache
def slowdowns(kernels: str, number_format: NumberFormat, runtime: str) -> tuple[str, ...]:
    """The names of the constants that all kernels of a run have; kernels, runtime: ids.

    >>> slowdowns("h100", "fp8", "torchtitan")
    ('hopper', 'torchtitan')
    """
    return tuple(
        name
        for name, constant in fitted_constants().items()
        if kernels in constant.kernels.get(number_format, ()) or runtime in constant.runtimes
    )
