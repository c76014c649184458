"""The process `meshwright`, and `python -m meshwright`: an interrupt ends it with one line, whatever it is about."""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

LATER_S = 0.01
"""Seconds after which an interrupt that nothing could raise comes again."""
OBJECTS_BETWEEN_COLLECTIONS = 500_000
"""Python's default, 700, collects some 60 times while modules are imported, and frees nothing."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""What NumPy multiplies here is small; the threads that it starts for large matrices, one for each core, only spin."""
NO_PLUGINS = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Pydantic looks for plugins in the metadata of all that is installed; none is of use to a command."""


def run() -> None:
    """Run the command; it exits as `cli.guard.run` does, and with 130 where it is interrupted while modules load."""
    sys.unraisablehook = _interrupted_later
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    os.environ.update({**ONE_THREAD, **NO_PLUGINS, **os.environ})
    atexit.register(gc.freeze)  # else the interpreter looks through all objects for cycles before it ends
    try:
        from meshwright.cli.guard import run as guarded

        guarded()
    except KeyboardInterrupt:
        from meshwright.errors import INTERRUPTED, NO_ANSWER

        print(f"meshwright: {NO_ANSWER}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _interrupted_later(unraisable: UnraisableHookArgs) -> None:
    """An interrupt where Python can raise nothing, as in what frees an object, comes again a moment later."""
    if unraisable.exc_type is KeyboardInterrupt:
        again = threading.Timer(LATER_S, _thread.interrupt_main)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    run()
