"""Blanks: what a start script of arguments asks its user for, and stops at where it is missing."""

from __future__ import annotations

import shlex

from meshwright.launch.export import Launch
from meshwright.launch.framework import Value

WHOLE = """\
# {key} takes a whole number: 500000.0 in a config.json becomes 500000.
[ -z "${{{name}-}}" ] || LC_ALL=C printf -v {name} %.15g "${name}"
"""
MOCKED = """\
if [ "${{{variable}-}}" = 1 ]; then
    DATA=({mock})
else
    DATA=(
{places}
    )
fi
"""


def blanks(launch: Launch) -> tuple[list[str], tuple[str, ...]]:
    """The lines that fill what a plan does not know, and the arrays that hold it."""
    mock, asked = launch.table.mock_data, launch.to_fill
    data = {key: what for key, what in asked.items() if mock and key in mock.instead_of}
    others = {key: what for key, what in asked.items() if key not in data}
    lines = ["# FILL IN what the plan does not know. The script stops at the first that is missing."]
    if mock and data:
        filled = "\n".join(f"        {_place(key, what)}" for key, what in data.items())
        words = shlex.join(word for each in words_of(mock.settings) for word in each)
        lines += MOCKED.format(variable=mock.variable, mock=words, places=filled).splitlines()
    for key in launch.table.whole_numbers:
        lines += WHOLE.format(key=key, name=_variable(key)).splitlines() if key in others else []
    lines += ["FILL_IN=(", *(f"    {_place(key, what)}" for key, what in others.items()), ")"]
    return lines, ("DATA", "FILL_IN") if data else ("FILL_IN",)


def words_of(settings: dict[str, Value]) -> list[list[str]]:
    """The words of every setting that is a flag; variables of the environment are none.

    >>> words_of({"--bf16": True, "--seq-length": 8192, "--recompute-modules": ["mlp", "moe"], "OMP": "1"})
    [['--bf16'], ['--seq-length', '8192'], ['--recompute-modules', 'mlp', 'moe']]
    """
    said = {key: value for key, value in settings.items() if is_flag(key) and value is not False}
    return [[key, *map(str, _values(key, value))] for key, value in said.items()]


def is_flag(key: str) -> bool:
    """Whether a setting is a flag of a command line."""
    return key.startswith("--")


def _values(key: str, value: Value) -> list[Value]:
    """The words of a value; one that argparse would take for another flag is never written."""
    if isinstance(value, list):
        return [*value]
    several = key == "--hierarchical-context-parallel-sizes"
    return [] if value is True else [*str(value).split()] if several else [value]


def _place(key: str, what: str) -> str:
    """A flag with the variable that fills its value, or a variable that holds flags.

    >>> print(_place("--data-path", "your data"), _place("ROUTER", "its flags"))
    --data-path "${DATA_PATH:?your data}" ${ROUTER:?its flags}
    """
    return f'{key} "${{{_variable(key)}:?{what}}}"' if is_flag(key) else f"${{{key}:?{what}}}"


def _variable(key: str) -> str:
    """The shell variable that fills a setting.

    >>> _variable("--data-path")
    'DATA_PATH'
    """
    return key.removeprefix("--").replace("-", "_").upper()
