"""Ask random questions for some minutes, and print what is wrong with their answers: `make fuzz MINUTES=10`."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import ledger
from fuzz_judge import judged, same_again
from fuzz_laws import broken_laws
from fuzz_questions import Question, question

import meshwright

OF_LAWS, ASKED_TWICE = 0.005, 0.03
"""Shares of seeds that hold plans to the laws, and of questions that are asked a second time."""
LEDGER = "ledger.jsonl"


def main() -> int:
    """Exit with 1 where anything was found; every finding is kept with its files, and its seed asks it again."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--inputs", type=int, default=sys.maxsize, help="end after so many")
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--only", help="questions of this command alone")
    options.add_argument("--one", action="store_true", help="the question of this seed alone")
    options.add_argument("--keep", type=Path, default=Path("fuzzed"), help="where findings and counts are written")
    options.add_argument("--sum", type=Path, nargs="+", help="add up the counts of these files, and ask nothing")
    given = options.parse_args()
    if given.sum:
        return _told(ledger.total(ledger.read(given.sum)))
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**40)
    run = Run(seed, given.only, given.keep)
    signal.signal(signal.SIGTERM, run.end)
    print(f"seeds from {seed} on")
    ends = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < ends and run.counts.inputs < given.inputs and not run.ended:
            run.ask(Path(folder))
            if given.one:
                break
    if not given.one:
        given.keep.mkdir(exist_ok=True)
        ledger.write(run.counts, given.keep / LEDGER)
    return _told(run.counts)


class Run:
    """Questions of the seeds from one on, and what was counted and found."""

    def __init__(self, seed: int, only: str | None, keep: Path) -> None:
        self.counts = ledger.Ledger(seed, seed, _tree())
        self.ended = False
        self._only, self._keep, self._asked = only, keep, set[bytes]()

    def end(self, *_: object) -> None:
        """Ask no further question: what was counted is kept where the process is told to end."""
        self.ended = True

    def ask(self, folder: Path) -> None:
        """Ask the question of the next seed, in a folder that is empty but for its files."""
        seed = self.counts.end
        self.counts.end += 1
        chance = random.Random(seed)
        if self._only is None and chance.random() < OF_LAWS:
            held, broken = broken_laws(chance)
            self.counts.plans += held
            self._found(seed, Question("plan", ["plan", "of a random question"]), broken)
            return
        each = question(chance, self._only)
        if (key := _key(each)) in self._asked:
            self.counts.repeats += 1
            return
        self._asked.add(key)
        kind, faults = judged(each, folder)
        self.counts.enter(each, kind)
        if not faults and chance.random() < ASKED_TWICE:
            self.counts.same_again += 1
            faults = [] if same_again(each, folder) else ["the same question is answered with other bytes"]
        self._found(seed, each, faults)
        _empty(folder)

    def _found(self, seed: int, each: Question, faults: list[str]) -> None:
        self.counts.findings += len(faults)
        where = self._keep / str(seed)
        if faults and each.files:
            where.mkdir(parents=True, exist_ok=True)
        for name, data in each.files.items() if faults else ():
            (where / name).write_bytes(data)
        for fault in faults:
            print(f"seed {seed}: meshwright {shlex.join(each.words)!a}\n  {fault}", flush=True)


def _key(each: Question) -> bytes:
    return hashlib.sha256(repr((each.words, sorted(each.files.items()))).encode("utf-8", "surrogatepass")).digest()


def _tree() -> str:
    """The package that is asked: a hash of its files."""
    whole = hashlib.sha256()
    for file in sorted(Path(meshwright.__file__).parent.rglob("*")):
        if file.suffix in (".py", ".toml", ".json", ".txt", ".csv", ".html"):
            whole.update(file.read_bytes())
    return whole.hexdigest()[:12]


def _empty(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            Path(entry.path).unlink()


def _told(counts: ledger.Ledger) -> int:
    print("\n".join(counts.lines()))
    return int(counts.findings > 0)


if __name__ == "__main__":
    sys.exit(main())
