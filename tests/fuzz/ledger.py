"""Ledger: what the fuzzer asked, by command, by kind of answer and by file; of several runs one sum."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_files import seeds
from fuzz_questions import Question


@dataclass
class Ledger:
    """The counts of one run, of the seeds from `first` to before `end`; `tree` is the code that was asked."""

    first: int
    end: int
    tree: str
    commands: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    """Of each kind of file, how often it was read mutated."""
    same_again: int = 0
    """Questions that were asked twice, whose answers were compared byte by byte."""
    repeats: int = 0
    """Inputs that had been asked before, and count nowhere else."""
    plans: int = 0
    """Plans held to the laws."""
    findings: int = 0

    def enter(self, question: Question, kind: str) -> None:
        """Count one input and how it was answered."""
        self.commands[question.command] += 1
        self.answers[kind] += 1
        self.files.update(name for name, data in question.files.items() if data != seeds()[name])

    @property
    def inputs(self) -> int:
        """Inputs in all."""
        return self.commands.total()

    def lines(self) -> list[str]:
        """The counts, as `make fuzz` prints them."""
        return [
            f"{self.inputs:,} inputs: {_listed(self.commands)}",
            f"answers: {_listed(self.answers)}",
            f"{self.files.total():,} mutated files: {_listed(self.files)}",
            f"{self.same_again:,} asked twice; {self.repeats:,} repeats not counted; "
            f"{self.plans:,} plans held to the laws; {self.findings:,} findings",
        ]


COUNTERS = ("commands", "answers", "files")


def write(ledger: Ledger, path: Path) -> None:
    """One line at the end of a file of ledgers."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(vars(ledger)) + "\n")


def read(paths: Sequence[Path]) -> list[Ledger]:
    """Every ledger of some files."""
    lines = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    return [Ledger(**line | {name: Counter(line[name]) for name in COUNTERS}) for line in lines]


def total(ledgers: Sequence[Ledger]) -> Ledger:
    """The sum of runs; raises `ValueError` where two asked the same seeds of the same code."""
    runs = sorted(ledgers, key=lambda each: (each.tree, each.first))
    for before, after in itertools.pairwise(runs):
        if before.tree == after.tree and after.first < before.end:
            raise ValueError(f"seeds {after.first} to {min(before.end, after.end)} of {after.tree} are counted twice")
    whole = Ledger(runs[0].first, runs[-1].end, ", ".join(dict.fromkeys(each.tree for each in runs)))
    for each in runs:
        for name in COUNTERS:
            getattr(whole, name).update(getattr(each, name))
        for name in ("same_again", "repeats", "plans", "findings"):
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
    return whole


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
