"""Every command: where it is answered, what help says of it, and an example."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from meshwright.cli.help import Command

CHOOSE, ONE_PLAN, RUNS, KNOWN = "Choose a plan", "Look at one plan", "Compare with real runs", "Look things up"


class Entry(NamedTuple):
    """One command."""

    home: str
    """The module of `meshwright.cli` and the function that answer it, so that only the one asked for is imported."""
    panel: str
    """The group of help in which it stands."""
    help: str
    examples: tuple[str, ...]
    """Questions that work as they stand, after `meshwright`, but for the files that they name."""


COMMANDS = {
    "plan": Entry(
        "plan.plan",
        CHOOSE,
        "Find the best plans for a model on a cluster.",
        examples=("plan llama-3.1-70b 8x8:h100", "plan mixtral-8x7b 8x8:h100 --seq-len 4k --tp 1,2"),
    ),
    "compare": Entry(
        "compare.compare",
        CHOOSE,
        "Compare the best plans of several clusters, or several plans on one cluster.",
        examples=("compare llama-3.1-70b 8x8:h100 8x8:b200", "compare --plan-file A.json --plan-file B.json"),
    ),
    "limits": Entry(
        "limits.limits",
        CHOOSE,
        "Find the longest sequence, the fewest nodes and the largest micro-batch that fit safely.",
        examples=("limits llama-3.1-8b 2x8:h100 --global-batch 64",),
    ),
    "memo": Entry(
        "memo.memo",
        CHOOSE,
        "Write a recommendation memo: which plan, why, and what could go wrong; exit code 3 if nothing fits.",
        examples=("memo llama-3.1-8b 2x8:h100 --tokens 1T --out memo.html",),
    ),
    "sweep": Entry(
        "sweep.sweep",
        CHOOSE,
        "Find the best plan for every question in a file; a stopped sweep resumes where it ended.",
        examples=("sweep SWEEP.toml --out answers",),
    ),
    "serve": Entry(
        "serve.serve",
        CHOOSE,
        "Serve the planner as a web page; by default only this machine can reach it.",
        examples=("serve", "serve --port 9000 --searches 4"),
    ),
    "explain": Entry(
        "explain.explain",
        ONE_PLAN,
        "Price one plan: whether it fits, where its memory and time go, and what each change would do.",
        examples=(
            "explain llama-3.1-70b 8x8:h100 --tp 8 --pp 2",
            "explain PLAN.json --micro-batch 2",
            "explain --from run.sh",
        ),
    ),
    "check": Entry(
        "explain.check",
        ONE_PLAN,
        "Check one plan against every rule of its runtime; exit code 2 if one is broken.",
        examples=("check llama-3.1-70b 8x8:h100 --tp 8 --pp 4 --vpp 5", "check --from run.sh --cluster 8x8:h100"),
    ),
    "launch": Entry(
        "launch.launch",
        ONE_PLAN,
        "Write the files that launch one plan: configuration, start script and Slurm batch file.",
        examples=("launch PLAN.json --to torchtitan --out run",),
    ),
    "verify": Entry(
        "verify.verify",
        ONE_PLAN,
        "Run one plan in PyTorch on fake tensors and compare with the prediction; exit code 1 if they differ.",
        examples=("verify llama-3.1-8b 1x8:h100 --runtime torchtitan",),
    ),
    "validate": Entry(
        "validate.validate",
        RUNS,
        "Predict published training runs, or your own, and print the errors.",
        examples=("validate", "validate --runs RUNS.csv"),
    ),
    "runs": Entry(
        "runs.runs",
        RUNS,
        "Read step times and memory from training logs and compare them with the prediction for their launch file.",
        examples=("runs train.log --from run.sh --cluster 8x8:h100",),
    ),
    "legend": Entry(
        "catalog.show_legend",
        KNOWN,
        "Explain each part of a plan's name.",
        examples=('legend "tp4 sp cp2 ring pp4 vpp5 dp2 zero1 mbs1 m128"',),
    ),
    "model": Entry(
        "catalog.show_model",
        KNOWN,
        "Show a model's architecture, its parameters by part, and which tp, pp and ep divide it.",
        examples=("model qwen3-30b-a3b",),
    ),
    "catalog": Entry(
        "catalog.catalog",
        KNOWN,
        "List the known models, accelerators, clusters or runtimes, or show one with its sources.",
        examples=("catalog accelerators", "catalog runtimes torchtitan"),
    ),
    "textbook": Entry(
        "textbook.app",
        KNOWN,
        "Run published closed-form calculators exactly as published, next to the planner.",
        examples=(),
    ),
}


def command(name: str) -> Any:
    """The command of that name with its options."""
    entry = COMMANDS[name]
    module, _, function = entry.home.partition(".")
    found = getattr(import_module(f"meshwright.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=Command, epilog="\n".join(entry.examples))(found)
    return get_command(alone)
