"""Ask random questions for some minutes, and print what is wrong with their answers: `make fuzz MINUTES=10`."""

from __future__ import annotations

import argparse
import collections
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz_judge import faults_of, same_again
from fuzz_laws import broken_laws
from fuzz_questions import question

PLANS = "plans held to the laws"


def main() -> int:
    """Exit with 1 where anything was found; every finding is kept with its files, and its seed asks it again."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--only", help="questions of this command alone")
    options.add_argument("--one", action="store_true", help="the question of this seed alone")
    options.add_argument("--keep", type=Path, default=Path("fuzzed"), help="where findings are written")
    given = options.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**40)
    ends, asked, found = time.monotonic() + 60 * given.minutes, collections.Counter[str](), 0
    print(f"seeds from {seed} on")
    while time.monotonic() < ends:
        found += _one(seed, given.only, given.keep, asked)
        seed += 1
        if given.one:
            break
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(asked.items()))
    print(f"{asked.total() - asked[PLANS]:,} inputs: {counts}; {found} findings")
    return int(found > 0)


def _one(seed: int, only: str | None, keep: Path, asked: collections.Counter[str]) -> int:
    chance = random.Random(seed)
    if only is None and chance.random() < 0.02:
        held, broken = broken_laws(chance)
        asked[PLANS] += held
        return _told(seed, ["plan", "of a random question"], broken)
    each = question(chance, only)
    asked[each.command] += 1
    with tempfile.TemporaryDirectory() as folder:
        faults = faults_of(each, Path(folder))
        if not faults and chance.random() < 0.02 and not same_again(each, Path(folder)):
            faults = ["the same question is answered in other words"]
    if faults:
        where = keep / str(seed)
        where.mkdir(parents=True, exist_ok=True)
        for name, data in each.files.items():
            (where / name).write_bytes(data)
    return _told(seed, each.words, faults)


def _told(seed: int, words: list[str], faults: list[str]) -> int:
    for fault in faults:
        print(f"seed {seed}: meshwright {shlex.join(words)!a}\n  {fault}", flush=True)
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
