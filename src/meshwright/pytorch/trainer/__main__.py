"""One process of a check: reads its question from a file, trains, and writes what it saw into another.

A sequence of `Request`, all of one rank of one plan, is observed on fake tensors; a `RealRequest` is trained for real.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from meshwright.pytorch.processes.records import RealRequest


def main() -> None:
    """Answer the question in the file that the first argument names, in that of the second."""
    question = pickle.loads(Path(sys.argv[1]).read_bytes())
    if isinstance(question, RealRequest):
        from meshwright.pytorch.trainer.real import train

        answer: list[object] = [*train(question)]
    else:
        from meshwright.pytorch.trainer.step import observe

        answer = [*observe(question)]
    Path(sys.argv[2]).write_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    main()
