"""What the scripts that read exported files with a framework's own objects share. argv: a JSON file of cases."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def print_answers(read: Callable[[Any], dict[str, Any]]) -> None:
    """Print, as JSON, what the framework says of each case, or how it refuses it; all else goes to standard error."""
    answers = []
    with contextlib.redirect_stdout(sys.stderr):
        for each in json.loads(Path(sys.argv[1]).read_text("utf-8")):
            try:
                answers.append(read(each))
            except BaseException as error:
                answers.append({"error": f"{type(error).__name__}: {error}"[:400]})
    print(json.dumps(answers))
