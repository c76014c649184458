"""Guard: an unexpected error becomes a message that asks for a report."""

from __future__ import annotations

import shlex
import sys

import meshwright
from meshwright.cli import main
from meshwright.errors import unforeseen

UNFORESEEN = 70
"""EX_SOFTWARE of sysexits.h."""


def run() -> None:
    """Run the command; it exits as `main`, and with 70 where it meets an error that it should have foreseen."""
    try:
        main()
    except Exception as error:
        if _is_interrupt(error):
            raise KeyboardInterrupt from None
        print(_report(error), file=sys.stderr)
        sys.exit(UNFORESEEN)


def _is_interrupt(error: Exception) -> bool:
    """Whether it is an interrupt while a class was made: Python gives it as the cause, pydantic in the words alone."""
    in_words = type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error)
    return in_words or isinstance(error.__cause__, KeyboardInterrupt)


def _report(error: Exception) -> str:
    from meshwright.answers.document.inline import visible

    what = unforeseen(error)
    typed = shlex.join(["meshwright", *sys.argv[1:]])
    lines = (
        f"meshwright: this is a bug in Meshwright {meshwright.__version__}, not an error in your question: {what}",
        "No output file is left half-written. Please report it with the files that you named and this command:",
        f"  {typed}",
    )
    return visible("\n".join(lines))
