"""Plans drawn at random, each held against PyTorch: `make verified`, or `python benchmarks/verified.py`.

Every figure but the peak must be exact, the peak within 2 %. Compiled plans are run without the compiler. A run of all
132 takes hours: what was seen is written down plan by plan, and the same seed goes on where it was left as long as the
code is the same. It exits with 1 if any figure is off, and always says how many of how many plans were run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import meshwright
from drawn_plans import NAMES, Case, drawn_plans
from meshwright.pytorch.fake_world.verify import Verification, verify
from meshwright.pytorch.frameworks import INSTALLED
from meshwright.pytorch.processes.process import TORCH

CASES = 12 * len(NAMES)
FOLDER = Path(__file__).parent.parent / ".verified"


class Seen(NamedTuple):
    """What was seen of one plan, as it is written down."""

    code: str
    """Of the package and the frameworks that saw it."""
    name: str
    plan: str
    agrees: bool
    figures: int
    """Counts, sizes, orders and peaks that were compared."""
    peak: float
    """Predicted over observed, of the stage in which they differ most."""
    off: str
    """What was not as it must be."""
    own_model: str
    """Whose model was run, by name and version; none: that of the trainer."""
    seconds: float

    def line(self, place: int, cases: int) -> str:
        """One line of a screen."""
        verdict = "ok " if self.agrees else "OFF"
        seen = f"peak {self.peak:.4f}  {self.off or 'exact'}"
        return f"[{place:3}/{cases}] {verdict} {self.plan} ({self.seconds:.0f} s)  {seen}"


def seen_of(case: Case, done: Verification, code: str) -> Seen:
    """What PyTorch did with a plan."""
    ratios = [each.ratio for stage in done.stages for each in stage.quantities if each.name == "peak allocated"]
    return Seen(
        code=code,
        name=case.name,
        plan=str(case),
        agrees=done.holds,
        figures=len(done.results),
        peak=max(ratios, key=lambda ratio: abs(ratio - 1)),
        off="; ".join(_off(done)),
        own_model=done.scope.framework,
        seconds=done.elapsed_s,
    )


def _off(done: Verification) -> Iterator[str]:
    for stage in done.stages:
        name = f"stage {stage.stages[0]}"
        for each in stage.quantities:
            if not each.holds:
                yield f"{name} {each.name} {each.predicted:.0f} for {each.observed:.0f}"
        for count in stage.collectives:
            if not count.holds:
                yield f"{name} {' '.join(map(str, count.collective))} {count.predicted} for {count.observed}"
        if not stage.order_holds:
            yield f"{name} order"


def code_of() -> str:
    """A digest of the package's files and of the frameworks that are installed."""
    root, digest = Path(meshwright.__file__).parent, hashlib.sha256(repr(INSTALLED).encode())
    for file in sorted(each for each in root.rglob("*") if each.suffix in (".py", ".toml")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def known(file: Path, code: str) -> dict[str, Seen]:
    """What this code has seen before, by the plan."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    every = [Seen(**json.loads(line)) for line in lines]
    return {each.plan: each for each in every if each.code == code}


def table(every: Sequence[Seen], cases: Sequence[Case]) -> str:
    """What was seen of the plans of each name, and how many of how many were run."""
    lines = [f"{'':18}    plans  figures  agree      peaks of PyTorch's"]
    for name in dict.fromkeys(case.name for case in cases):
        mine, asked = [each for each in every if each.name == name], sum(case.name == name for case in cases)
        lines.append(_row(name, mine, asked))
    lines.append(_row("all", every, len(cases)))
    whose: dict[str, int] = {}
    for each in every:
        model = f"{each.own_model}'s own model" if each.own_model else "Meshwright's model, wrapped as the runtime does"
        whose[model] = whose.get(model, 0) + 1
    lines += [f"{count} run on {model}" for model, count in sorted(whose.items())]
    wrong = [each for each in every if not each.agrees]
    lines += [f"OFF {each.plan}: {each.off}" for each in wrong]
    left = len(cases) - len(every)
    rest = f"; {left} {'was' if left == 1 else 'were'} not run" if left else ""
    return "\n".join([*lines, f"{len(every)} of {len(cases)} plans were run{rest}; {len(wrong)} disagree"])


def _row(name: str, every: Sequence[Seen], asked: int) -> str:
    peaks = [each.peak for each in every]
    span = f"{min(peaks):.4f} to {max(peaks):.4f}" if peaks else "none was run"
    agree, figures = sum(each.agrees for each in every), sum(each.figures for each in every)
    return f"{name:18} {len(every):3} of {asked:3} {figures:8,} {agree:6}      {span}"


def run(seed: str, count: int, names: Sequence[str], minutes: float) -> bool:
    """Verify the plans of a seed that this code has not seen yet, print one line a plan and the table, and tell whether
    all agree; minutes: after which no plan is begun.
    """
    cases, code, began = drawn_plans(seed, count, names), code_of(), time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{seed}.jsonl"
    seen, versions = known(file, code), {name: version or "none" for name, version in INSTALLED._asdict().items()}
    print(f"seed {seed}: {len(cases)} plans, torch {TORCH}, {versions}, code {code}", flush=True)
    for place, case in enumerate(cases, start=1):
        if str(case) not in seen and time.monotonic() - began < 60 * minutes:
            seen[str(case)] = seen_of(case, verify(case.plan, case.inputs), code)
            with file.open("a", encoding="utf-8") as record:
                record.write(json.dumps(seen[str(case)]._asdict()) + "\n")
        if str(case) in seen:
            print(seen[str(case)].line(place, len(cases)), flush=True)
    every = [seen[str(case)] for case in cases if str(case) in seen]
    print(table(every, cases))
    return all(each.agrees for each in every)


def main() -> None:
    """Verify what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", help="draws the same plans again, and goes on with those that are left", default="")
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many plans; {CASES} unless told", metavar="N")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no plan is begun")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    asked = parser.parse_args()
    seed = asked.seed or str(random.SystemRandom().randrange(10**6))
    sys.exit(not run(seed, asked.cases, asked.names or NAMES, asked.minutes))


if __name__ == "__main__":
    main()
