"""Forms: how the values of fields are written in launch files, and read back."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from meshwright.errors import InvalidInput, quoted
from meshwright.launch.framework import Value
from meshwright.layout.layout_string import layout_string, read_layout_string
from meshwright.specs.adapters import adapted_modules, named_modules
from meshwright.specs.job_options import ALL_LINEAR

Fields = dict[str, Any]
"""Values by the names of fields: `plan.tp`, `job.global_batch`, `model.heads`; see `fields`."""
LONGEST = 10_000
"""Layers: no model has more."""


class Form(NamedTuple):
    """One form: a value as it is written beside all fields, and as it is read."""

    write: Callable[[Any, Fields], Value]
    read: Callable[[Any], Any]


def _count(value: Any) -> int:
    """A whole number, also as `220_000_000` or `1e3`."""
    if isinstance(value, bool):
        raise ValueError
    number = float(str(value).replace("_", ""))
    if number != int(number):
        raise ValueError
    return int(number)


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else tuple(str(value).split())


def _write_layout(sizes: Sequence[int], fields: Fields) -> str:
    return layout_string(sizes, fields["job.mtp_layers"])


def module_names(sizes: Sequence[int], fields: Fields) -> list[list[str]]:
    """The modules of every stage as torchtitan names them: the embedding first, norm and head last.

    >>> module_names((1, 2), {})
    [['tok_embeddings', 'layers.0'], ['layers.1', 'layers.2', 'norm', 'lm_head']]
    """
    del fields
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    parts = [[f"layers.{layer}" for layer in range(end - size, end)] for size, end in zip(sizes, ends, strict=True)]
    parts[0] = ["tok_embeddings", *parts[0]]
    parts[-1] = [*parts[-1], "norm", "lm_head"]
    return parts


def _layers_of_names(value: Any) -> tuple[int, ...]:
    parts = ast.literal_eval(value) if isinstance(value, str) else value
    parts = [ast.literal_eval(part) if isinstance(part, str) else part for part in parts]
    return tuple(sum(str(name).startswith("layers.") for name in part) for part in parts)


def layer_marks(marks: Sequence[int], fields: Fields) -> str:
    """Which layers have experts, as Megatron-LM's --moe-layer-freq takes it: runs of a Python list.

    >>> layer_marks((0, 0, 0, 1, 1), {})
    '([0]*3+[1]*2)'
    """
    del fields
    runs = ((mark, len(list(run))) for mark, run in groupby(marks))
    return f"({'+'.join(f'[{int(mark)}]' + (f'*{count}' if count > 1 else '') for mark, count in runs)})"


def _read_marks(value: Any) -> tuple[int, ...] | int:
    """Marks of every layer, or the distance of layers with experts: sums and multiples of lists, read and not run."""
    if isinstance(value, list | tuple):
        return tuple(int(mark) for mark in value)
    marks = _multiplied(ast.parse(str(value).strip(), mode="eval").body)
    return tuple(marks) if isinstance(marks, list) else marks


def _multiplied(node: ast.expr) -> list[int] | int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.List):
        return [int(str(_multiplied(each))) for each in node.elts]
    if not isinstance(node, ast.BinOp):
        raise ValueError
    left, right = _multiplied(node.left), _multiplied(node.right)
    if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
        if len(left) * right > LONGEST:
            raise ValueError
        return left * right
    raise ValueError


def _read_window(value: Any) -> int:
    """Tokens that a query sees, itself among them, of a pair `(127, 0)` of those before and behind it; -1: all.

    Source: Megatron-Bridge@067f987df03b conversion/utils.py, mcore_to_hf_window_size, as Transformer Engine has it.
    """
    before, after = (int(number) for number in str(value).strip("()[] ").split(","))
    if after:
        raise ValueError
    return before + 1 if before >= 0 else 0


BRIDGE_MODULES = {
    "q_proj": ("linear_qkv", "linear_q"),
    "k_proj": ("linear_qkv", "linear_k"),
    "v_proj": ("linear_qkv", "linear_v"),
    "o_proj": ("linear_proj", "linear_proj"),
    "gate_proj": ("linear_fc1", "linear_fc1_gate"),
    "up_proj": ("linear_fc1", "linear_fc1_up"),
    "down_proj": ("linear_fc2", "linear_fc2"),
}
"""Linear layers by their names in models of transformers: what LoRA and CanonicalLoRA of Megatron-Bridge call them."""


def _write_bridge_modules(modules: Sequence[str], fields: Fields) -> list[str]:
    kind = int(bool(fields["runtime.canonical_lora"]))
    return list(dict.fromkeys(BRIDGE_MODULES[name][kind] for name in adapted_modules(tuple(modules))))


def _read_bridge_modules(value: Any) -> tuple[str, ...]:
    """Modules with the names that people of transformers have for them too, which a file may be told."""
    said = _words(value.replace(",", " ").strip("[]() ") if isinstance(value, str) else value)
    known = {called for names in BRIDGE_MODULES.values() for called in names} | {*BRIDGE_MODULES, ALL_LINEAR}
    if not said or not known.issuperset(said):
        raise ValueError
    named = [name for name, called in BRIDGE_MODULES.items() if {name, ALL_LINEAR, *called} & set(said)]
    return named_modules(tuple(named))


FORMS: dict[str, Form] = {
    "count": Form(lambda value, _: int(value), _count),
    "number": Form(lambda value, _: float(value), lambda value: float(str(value).replace("_", ""))),
    "switch": Form(lambda value, _: bool(value), _switch),
    "text": Form(lambda value, _: str(value), str),
    "literal": Form(lambda value, _: value, lambda value: value),
    "words": Form(lambda value, _: list(value), _words),
    "bridge_modules": Form(_write_bridge_modules, _read_bridge_modules),
    "layout": Form(_write_layout, lambda value: read_layout_string(str(value))),
    "module_names": Form(module_names, _layers_of_names),
    "window": Form(lambda value, _: f"{int(value) - 1},0", _read_window),
    "layer_marks": Form(layer_marks, _read_marks),
}


def read_value(form: str, key: str, value: Any) -> Any:
    """A setting's value as its field holds it; raises `InvalidInput` with the setting where it is none."""
    try:
        return FORMS[form].read(value)
    except (ValueError, TypeError, KeyError, SyntaxError, OverflowError, MemoryError, RecursionError):
        kinds = {"count": "a whole number", "number": "a number", "switch": "true or false"}
        kinds |= {"window": "the tokens before and behind that a token attends to, such as 127,0"}
        kinds |= {"bridge_modules": "among linear_qkv, linear_proj, linear_fc1 and linear_fc2"}
        raise InvalidInput(f"{key} {quoted(value)} is not {kinds.get(form, form.replace('_', ' '))}") from None
