"""Write the answers that the README and the pages show, from what the commands print now."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import meshwright
from meshwright.answers.public.pictures import waterfall_figure

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "waterfall.svg"
MEMORY = "Memory of"
SEARCHED = r"\n\d+ plans considered.*"
LARGE = 1e6
SHOWN = {
    "model": ("name", "family", "hidden_size"),
    "cluster": ("name", "num_nodes", "gpus_per_node"),
    "job": ("sequence_length", "global_batch", "precision"),
    "runtime": ("id", "version"),
}


def main() -> None:
    shown = {"answer": answer(), "truth": truth()}
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        text = filled(page.read_text("utf-8"), "answer", shown["answer"])
        page.write_text(filled(text, "truth", shown["truth"]), "utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), "utf-8")
    page = ROOT / "docs" / "plan-file.md"
    page.write_text(filled(page.read_text("utf-8"), "excerpt", excerpt(), "json"), "utf-8")
    page = ROOT / "docs" / "explain.md"
    page.write_text(filled(page.read_text("utf-8"), "explain", explained()), "utf-8")
    page = ROOT / "docs" / "limits.md"
    page.write_text(filled(page.read_text("utf-8"), "limits", limited()), "utf-8")
    page = ROOT / "docs" / "verify.md"
    page.write_text(filled(page.read_text("utf-8"), "verified", verified()), "utf-8")
    page = ROOT / "docs" / "fine-tuning.md"
    text = filled(page.read_text("utf-8"), "adapters", adapted())
    page.write_text(filled(text, "liger", with_liger()), "utf-8")
    page = ROOT / "docs" / "time.md"
    page.write_text(filled(page.read_text("utf-8"), "documents", packed()), "utf-8")
    page = ROOT / "docs" / "logs.md"
    page.write_text(filled(page.read_text("utf-8"), "logs", logged()), "utf-8")
    page = ROOT / "docs" / "compare.md"
    for mark in ("clusters", "plans"):
        text = page.read_text("utf-8")
        page.write_text(filled(text, mark, compared(text, mark)), "utf-8")
    page = ROOT / "docs" / "sweep.md"
    text = filled(
        page.read_text("utf-8"), "file", (ROOT / "examples" / "sweep.toml").read_text("utf-8").rstrip(), "toml"
    )
    page.write_text(filled(text, "sweep", swept()), "utf-8")


def swept() -> str:
    """The command and what it prints, without the folder that it is run in."""
    with TemporaryDirectory() as folder:
        printed = run("-m", "meshwright.cli", "sweep", "examples/sweep.toml", "--out", folder, columns=110)
        lines = [line.rstrip() for line in printed.partition("Written: ")[0].splitlines()]
    shown = "\n".join([*lines, "Written: swept/best.parquet, swept/sweep.html"])
    return f"$ meshwright sweep examples/sweep.toml --out swept\n{shown}"


def answer() -> str:
    """The command and its answer, without how many plans were searched how fast."""
    words = ["plan", "--model", "examples/llama-3.1-70b/config.json", "--cluster", "8x8:h100"]
    words += ["--seq-len", "8192", "--global-batch", "256"]
    printed = run("-m", "meshwright.cli", *words)
    return f"$ meshwright {' '.join(words)}\n{re.sub(SEARCHED, '', printed, flags=re.DOTALL).rstrip()}"


def adapted() -> str:
    """The command that plans adapters, and its answer in short."""
    words = ["plan", "llama-3.1-70b", "1x8:h100", "--runtime", "accelerate", "--lora-rank", "16"]
    words += ["--seq-len", "4096", "--global-batch", "32"]
    printed = run("-m", "meshwright.cli", *words)
    return f"$ meshwright {' '.join(words)}\n{printed.partition('Memory of')[0].rstrip()}"


def with_liger() -> str:
    """Commands that plan with and without the kernels of Liger, each with its best plan, its pace and its memory."""
    shown = []
    for position in ("off", "on"):
        words = ["plan", "qwen3-8b", "1x8:h100", "--runtime", "accelerate", "--with", f"liger={position}"]
        words += ["--seq-len", "16k", "--global-batch", "32"]
        best = run("-m", "meshwright.cli", *words).partition("\n\n")[2].splitlines()[:3]
        shown += [f"$ meshwright {' '.join(words)}", "...", *best]
    return "\n".join(shown)


def packed() -> str:
    """Commands that plan whole sequences, and documents packed into them, each with its best plan and its pace."""
    shown = []
    for documents in ([], ["--document-length", "4096"], ["--document-length", "512"]):
        words = ["plan", "llama-3.1-8b", "1x8:h100", "--seq-len", "32k", "--global-batch", "64", *documents]
        best = run("-m", "meshwright.cli", *words).partition("\n\n")[2].splitlines()[:2]
        shown += [f"$ meshwright {' '.join(words)}", "...", *best]
    return "\n".join(shown)


def picture() -> str:
    """One step of the plan of the README's answer, from the accelerators' peak to the prediction."""
    job = meshwright.Job(sequence_length=8192, global_batch=256)
    found = meshwright.plan(ROOT / "examples" / "llama-3.1-70b" / "config.json", "8x8:h100", job)
    return waterfall_figure(found.best[0], found.inputs).svg


def explained() -> str:
    """The command and its answer, without the account of the worst stage's memory, the rules and the assumptions."""
    words = ["explain", "--model", "llama-3.1-70b", "--cluster", "8x8:h100", "--seq-len", "8192"]
    words += ["--global-batch", "256", "--tp", "8", "--pp", "4", "--vpp", "5", "--more"]
    printed = run("-m", "meshwright.cli", *words)
    above, rest = printed.partition(f"\n{MEMORY}")[::2]
    below = rest[rest.index("From peak") : rest.index("The plan passes")]
    return f"$ meshwright {' '.join(words)}\n{above.rstrip()}\n...\n\n{below.rstrip()}"


def verified() -> str:
    """The command and its answer, without how long it took."""
    words = ["verify", "--model", "llama-3.1-8b", "--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "64"]
    words += ["--runtime", "torchtitan", "--tp", "4", "--pp", "2", "--zero", "2"]
    printed = re.sub(r" \(\d+ s\)", "", run("-m", "meshwright.cli", *words))
    return f"$ meshwright {' '.join(words)}\n" + "\n".join(line.rstrip() for line in printed.splitlines())


def limited() -> str:
    """The command and its limits, without the question and the assumptions."""
    words = ["limits", "--model", "llama-3.1-8b", "--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256"]
    printed = run("-m", "meshwright.cli", *words)
    shown = printed[printed.index("Longest sequence") : printed.index("Every plan here")]
    return f"$ meshwright {' '.join(words)}\n...\n{shown.rstrip()}"


def logged() -> str:
    """The command and its answer."""
    words = ["runs", "examples/logs/megatron.log", "--cluster", "8x8:h100"]
    return f"$ meshwright {' '.join(words)}\n{run('-m', 'meshwright.cli', *words).rstrip()}"


def compared(page: str, mark: str) -> str:
    """The command that the page shows, and what it prints on a narrow screen, without the assumptions."""
    shown = re.search(rf"<!-- {mark} -->\n```\n\$ meshwright (.*)", page)
    if not shown:
        raise SystemExit(f"docs/compare.md shows no command of {mark}")
    printed = run("-m", "meshwright.cli", *shlex.split(shown[1]), columns=80)
    return f"$ meshwright {shown[1]}\n" + printed.partition("\nAssumed")[0].rstrip()


def truth() -> str:
    """The score of the published runs: what is judged together, intervals and the rest, without sources and rows."""
    printed = run("-m", "meshwright.cli", "validate", columns=120)
    judged, _, sources = printed.partition("\n\nstep time  ")
    rest = sources[sources.index("inside intervals") : sources.index("Not represented")]
    return f"$ meshwright validate\n{judged}\n...\n{rest.rstrip()}"


def excerpt() -> str:
    """The plan file of the README's question, shortened, as the page about it shows it."""
    given = ["--cluster", "8x8:h100", "--seq-len", "8192", "--global-batch", "256", "--top", "1", "--json"]
    printed = run("-m", "meshwright.cli", "plan", "--model", "examples/llama-3.1-70b/config.json", *given)
    document = json.loads(printed)
    for part, names in SHOWN.items():
        document["inputs"][part] = {name: document["inputs"][part][name] for name in names}
    document |= {"other_splits": [], "assumptions": document["assumptions"][:2]}
    return json.dumps(shortened(document), indent=2)


def shortened(value: Any) -> Any:
    """Numbers to four digits, bytes whole."""
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if isinstance(value, float):
        return round(value) if value > LARGE else float(f"{value:.4g}")
    return value


def filled(text: str, mark: str, block: str, language: str = "") -> str:
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}```{language}\n{block}\n```\n{found[2]}", text, flags=re.DOTALL)


def run(*words: str, columns: int = 100) -> str:
    command, environment = [sys.executable, *words], {"COLUMNS": str(columns), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


if __name__ == "__main__":
    main()
