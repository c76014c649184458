"""Docs: what their pages take from the code exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from meshwright.specs import catalog
from meshwright.specs.runtime import Runtime, read_runtime

PAGES = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_docstring_that_a_page_shows_exists(page: Path) -> None:
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
        assert pkgutil.resolve_name(name).__doc__, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_that_a_page_links_to_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([\w-]+\.md)(?:#[\w-]+)?\)", page.read_text("utf-8")):
        assert (page.parent / target).is_file(), target


RUNTIMES = [read_runtime(name) for name in catalog.names("runtimes")]
RUNTIMES_PAGE = (PAGES[0].parent / "runtimes.md").read_text("utf-8")


def _row(heading: str, name: str) -> list[str]:
    """The cells of a runtime in the table under a heading of docs/runtimes.md, which may name several at once."""
    section = RUNTIMES_PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    (found,) = (cells for cells in rows if f"`{name}`" in cells[0].split(", "))
    return found[1:]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.id)
def test_the_pages_say_of_every_runtime_what_its_file_says(runtime: Runtime) -> None:
    assert f"`{runtime.id}`" in (PAGES[0].parent.parent / "README.md").read_text("utf-8")
    assert f"- **`{runtime.id}`**" in RUNTIMES_PAGE
    plans, yes = runtime.plans, {True: "yes", False: "-"}
    tensor, context, pipelines, zero, hybrid, recomputes = _row("Which plans they have", runtime.id)
    assert tensor == ("tp, sp" if plans.sequence_parallel else "tp" if plans.tensor_parallel else "-")
    exchanges = ", ".join(name.replace("_", "-") for name in plans.context_exchanges)
    assert context.partition(" (")[0] == (exchanges or "-")
    assert (pipelines != "-") == plans.pipeline_parallel
    assert zero.partition(" (")[0] == ", ".join(map(str, plans.zero_stages))
    assert hybrid == yes[plans.hybrid_sharding]
    assert recomputes == ", ".join(plans.recompute[1:])
    assert _row("Which recipes and models they have", runtime.id) == [", ".join(plans.precisions), yes[plans.experts]]
    weights, gradients, attention, elementwise, cross_entropy = _row("What they keep and send", runtime.id)
    assert weights == {"half": "2 bytes", "full": "fp32"}[runtime.storage.weights]
    assert gradients == {2: "2 bytes", 4: "fp32"}[runtime.storage.gradient_bytes]
    assert attention.lower().replace("flashattention", "flash") == runtime.kernels.attention_kernel
    assert (elementwise, cross_entropy) == (runtime.kernels.elementwise, runtime.kernels.cross_entropy)
