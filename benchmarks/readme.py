"""Write the README's answer and its figures of truth from what the commands print now."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
ANSWER_LINES = "Memory of"


def main() -> None:
    readme = ROOT / "README.md"
    text = filled(readme.read_text("utf-8"), "answer", answer())
    readme.write_text(filled(text, "truth", truth()), "utf-8")


def answer() -> str:
    """The command and the first screenful of its answer."""
    words = ["plan", "--model", "examples/llama-3.1-70b/config.json", "--cluster", "8x8:h100"]
    words += ["--seq-len", "8192", "--global-batch", "256"]
    printed = run("-m", "meshwright.cli", *words)
    return f"$ meshwright {' '.join(words)}\n{printed.partition(ANSWER_LINES)[0].rstrip()}"


def truth() -> str:
    """The summary of predicted against measured."""
    return run(str(ROOT / "benchmarks" / "truth.py")).rpartition("\n\n")[2].partition("not represented")[0].rstrip()


def filled(text: str, mark: str, block: str) -> str:
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}```\n{block}\n```\n{found[2]}", text, flags=re.DOTALL)


def run(*words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env={"COLUMNS": "100"})
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


if __name__ == "__main__":
    main()
