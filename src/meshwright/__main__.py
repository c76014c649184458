"""The process `meshwright`, and `python -m meshwright`: an interrupt ends it with one line, whatever it is about."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command; it exits as `cli.guard.run` does, and with 130 where it is interrupted while modules load."""
    try:
        from meshwright.cli.guard import run as guarded

        guarded()
    except KeyboardInterrupt:
        from meshwright.errors import INTERRUPTED, NO_ANSWER

        print(f"meshwright: {NO_ANSWER}", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
