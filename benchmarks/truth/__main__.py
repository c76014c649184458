"""Print the score of every published run, what was assumed and a summary; `--rows FILE.csv` writes a table of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from .listing import print_assumptions, print_refusals, print_scores, print_unscored_memory, print_wrong_verdicts
from .orders import print_orders
from .rows_file import write_rows
from .runs import configurations
from .scoring import outcome_of
from .summary import print_summary


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE.csv", help="write one line per configuration")
    rows: Path | None = parser.parse_args().rows
    outcomes = [outcome_of(configuration) for configuration in configurations()]
    for part in (
        print_scores,
        print_unscored_memory,
        print_assumptions,
        print_refusals,
        print_wrong_verdicts,
        print_summary,
        print_orders,
    ):
        part(outcomes)
    if rows:
        write_rows(rows, outcomes)


if __name__ == "__main__":
    main()
