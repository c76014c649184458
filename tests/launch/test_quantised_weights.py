"""Quantised weights: a written script trains what OpenAI publishes in MXFP4, and loads all else as it is."""

from __future__ import annotations

import ast
from importlib import resources
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed"])
@pytest.mark.parametrize(
    ("config", "asked"),
    [
        ({"quantization_config": {"quant_method": "mxfp4"}}, {"quantization_config": "dequantised"}),
        ({"quantization_config": {"quant_method": "fp8"}}, {}),
        ({"quantization_config": None}, {}),
        ({}, {}),
    ],
)
def test_mxfp4_is_dequantised(runtime: str, config: dict[str, Any], asked: dict[str, str]) -> None:
    text = (resources.files("meshwright.launch.writers") / "templates" / f"{runtime}.py.txt").read_text()
    (function,) = (
        node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "dequantised"
    )
    names: dict[str, Any] = {"Mxfp4Config": lambda dequantize: "dequantised" if dequantize else "kept"}
    exec(ast.unparse(function), names)
    assert names["dequantised"](SimpleNamespace(**config)) == asked
