"""Write the memos of `examples/memos`: one question each, as `meshwright memo` answers it, without its pictures."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = Path("examples") / "memos"
DENSE = "--model qwen2.5-32b --seq-len 4096 --global-batch 512 --baseline-gpus 8"
QUESTIONS = {
    "own-adapters": f"{DENSE} --cluster 4x8:a100-80gb",
    "shared-adapter": f"{DENSE} --cluster {FOLDER}/shared-adapter.toml",
    "fp16-v100": "--model llama-2-13b --cluster 4x8:v100-32gb --seq-len 2048 --global-batch 64 --precision fp16",
    "experts": "--model qwen3-235b-a22b --cluster 32x8:h100 --seq-len 4096 --global-batch 2048",
    "long-context": "--model llama-3.1-8b --cluster 4x8:h100 --seq-len 131072 --global-batch 32",
    "fully-sharded": "--model llama-3.1-8b --cluster 2x8:h100 --seq-len 8192 --global-batch 128 --runtime torchtitan",
    "fp8": "--model llama-3.1-70b --cluster 8x8:h100 --seq-len 8192 --global-batch 256 --precision fp8",
    "cannot-fit": "--model llama-3.1-70b --cluster 1x8:a100-80gb --seq-len 4096 --global-batch 512",
}
"""By the name of the file, the options of the question."""
NOTHING_FITS = 3


def main() -> None:
    """Write every memo."""
    for name in QUESTIONS:
        path(name).write_text(written(name), "utf-8")


def path(name: str) -> Path:
    """The file of a memo."""
    return ROOT / FOLDER / f"{name}.md"


def written(name: str) -> str:
    """The command and what it prints."""
    command = [sys.executable, "-m", "meshwright.cli", "memo", *shlex.split(QUESTIONS[name])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode not in (0, NOTHING_FITS):
        raise SystemExit(done.stderr)
    return page(name, done.stdout)


def page(name: str, printed: str) -> str:
    """The file of a memo that is printed so."""
    return f"<!-- meshwright memo {QUESTIONS[name]} -->\n\n{printed}"


if __name__ == "__main__":
    main()
