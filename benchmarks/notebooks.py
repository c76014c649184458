"""Execute the notebooks of docs/notebooks where they stand, and write what their cells say now."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        path.write_text(written(executed(json.loads(path.read_text("utf-8")))), "utf-8")


def written(notebook: dict[str, Any]) -> str:
    """A notebook as the text of its file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook with the outputs that its code has now; a cell that fails raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    with _folder(FOLDER):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell = cell | {"execution_count": None, "outputs": _outputs("".join(cell["source"]), names)}
            cells.append(cell)
    return notebook | {"cells": cells}


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell prints, and its last expression as text and as HTML."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = _lines(value._repr_html_())
        outputs.append({"output_type": "execute_result", "execution_count": None, "data": shown, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
