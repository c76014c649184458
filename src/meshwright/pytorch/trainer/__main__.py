"""One process of a check: reads a request as JSON, trains, and writes what it saw."""

from __future__ import annotations

import json
import sys

from meshwright.errors import InvalidInput, quoted
from meshwright.pytorch.processes.request import Request


def main() -> None:
    """Train as the one argument says, `fake` or `real`, and write what was seen as the last line."""
    kinds = {"fake": fake, "real": real}
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    if asked not in kinds:
        raise InvalidInput(f"the trainer runs as {' or '.join(kinds)}, not as {quoted(asked)}")
    kinds[asked]()


def fake() -> None:
    """Answer every request of the list on stdin, in order; all are of one rank of one plan."""
    from meshwright.pytorch.trainer.step import observe

    requests = [Request.from_json(given) for given in json.load(sys.stdin)]
    seen = [observed.to_json() for observed in observe(requests)]
    json.dump(seen, sys.stdout)


def real() -> None:
    """Train what stdin asks as one process of a few."""
    from meshwright.pytorch.trainer.real import train

    seen = [trained.to_json() for trained in train(json.load(sys.stdin))]
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
