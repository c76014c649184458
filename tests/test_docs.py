"""Docs: what their pages take from the code exists."""

from __future__ import annotations

import math
import pkgutil
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshwright.cli.guard import UNFORESEEN
from meshwright.errors import INTERRUPTED
from meshwright.launch.imports.dialects import DIALECTS
from meshwright.launch.table import launch_tables
from meshwright.schedules.pipeline import PassTimes, PipelineShape, PipelineTimes
from meshwright.schedules.record import ScheduleRecord
from meshwright.schedules.records import Schedule
from meshwright.specs import catalog
from meshwright.specs.choices import CHOICES
from meshwright.specs.predictive import MEDIAN, NINE_OF_TEN
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.huggingface.families import FAMILIES
from meshwright.specs.residuals import order_error
from meshwright.specs.runtime import Runtime, read_runtime

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def test_every_docstring_that_a_page_shows_exists() -> None:
    shown = [name for page in PAGES for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)]
    assert shown
    assert [name for name in shown if not pkgutil.resolve_name(name).__doc__] == []


def test_every_page_that_a_page_links_to_exists() -> None:
    links = [(page, target) for page in PAGES for target in _linked(page.read_text("utf-8"))]
    assert links
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).is_file()] == []


def _linked(text: str) -> list[str]:
    """The pages that a page links to."""
    return re.findall(r"\]\(([\w./-]+\.md)(?:#[\w.-]+)?\)", text)


def test_pages_that_are_files_of_the_root_lead_to_them_on_a_code_host_and_hold_them_on_the_site() -> None:
    hook = runpy.run_path(str(DOCS / "_hooks" / "root_pages.py"))
    for page, file in hook["FILES"].items():
        assert f"](../{file})" in (DOCS / page).read_text("utf-8")
        whole = hook["root_page"](page)
        assert whole.splitlines()[0] == (DOCS.parent / file).read_text("utf-8").splitlines()[0]
        assert [target for target in _linked(whole) if not (DOCS / target).is_file()] == []


def test_no_page_includes_another_as_only_the_site_would_show() -> None:
    assert not [page.name for page in PAGES if re.search(r"^-+8<-+ ", page.read_text("utf-8"), re.MULTILINE)]


NAMED = [
    ("../README.md", catalog.names("precisions")),
    ("precision.md", catalog.names("precisions")),
    (
        "constraints.md",
        [name for field in ("recompute_modules", "context_exchange") for name in CHOICES[field].values()],
    ),
    ("launch.md", launch_tables()),
    ("existing-launch.md", [dialect.framework for dialect in DIALECTS]),
    ("models.md", sorted(FAMILIES.keys() - {"qwen3_vl_text", "qwen3_vl_moe_text"})),
]
"""Pages that list all of some kind; of Qwen3-VL they name what a user calls it."""


@pytest.mark.parametrize(("page", "names"), NAMED, ids=[page for page, _ in NAMED])
def test_a_page_that_lists_names_has_every_one(page: str, names: Sequence[str]) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)] == []


RUNTIMES = [read_runtime(name) for name in catalog.names("runtimes")]
RUNTIMES_PAGE = (DOCS / "runtimes.md").read_text("utf-8")


def _row(heading: str, name: str) -> list[str]:
    """The cells of a runtime in the table under a heading of docs/runtimes.md, which may name several at once."""
    section = RUNTIMES_PAGE.partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    (found,) = (cells for cells in rows if f"`{name}`" in cells[0].split(", "))
    return found[1:]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: runtime.id)
def test_the_pages_say_of_every_runtime_what_its_file_says(runtime: Runtime) -> None:
    assert f"`{runtime.id}`" in (DOCS.parent / "README.md").read_text("utf-8")
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
    summed = 2 if runtime.sharding.reduces_half_copies else runtime.storage.gradient_bytes
    assert gradients == {2: "2 bytes", 4: "fp32"}[summed]
    assert attention.lower().replace("flashattention", "flash") == runtime.kernels.attention_kernel
    assert (elementwise, cross_entropy) == (runtime.kernels.elementwise, runtime.kernels.cross_entropy)


TIME_PAGE = (DOCS / "time.md").read_text("utf-8")


@pytest.mark.parametrize("record", [schedule.record for schedule in Schedule], ids=lambda record: record.name)
@pytest.mark.parametrize("passes", [PassTimes(1.0, 1.25, 0.9), PassTimes(1.0, 1.0, 1.0)])
@pytest.mark.parametrize("stages", [6, 12])
def test_the_table_of_schedules_says_what_their_records_say(
    record: ScheduleRecord, passes: PassTimes, stages: int
) -> None:
    (row,) = (line for line in TIME_PAGE.splitlines() if line.startswith(f"| `{record.name}`"))
    bubble, keeps, chunks, messages = (cell.strip() for cell in row.strip("|").split("|")[1:])
    of_a_rank = 3 if record.chunks == "several" else record.chunks
    shape = PipelineShape(stages, micro_batches=10 * stages, chunks=of_a_rank, microbatch_group=stages)
    symbols = {"p": stages, "v": of_a_rank, "m": shape.micro_batches, "max": max}
    symbols |= {"F": passes.forward, "B": passes.input_gradient, "W": passes.weight_gradient}
    formula, _, least = bubble.partition(", or ")
    times = PipelineTimes(
        slowest=passes,
        whole=PassTimes(*(stages * each for each in passes)),
        stages=stages,
        chunks=of_a_rank,
        micro_batches=shape.micro_batches,
        waiting=1.0,
        overlaps_steps=True,
    )
    idle = max(_evaluated(formula, symbols), 0.0 if least == "nothing" else -math.inf)
    longer = max(_least_micro_batch(record.name, symbols) - passes.total, 0.0)
    assert float(record.bubble_time(times)) == pytest.approx(idle + shape.micro_batches * longer)
    in_flight = (np.sum(record.in_flight(stage, shape)) for stage in range(stages))
    assert max(in_flight) / of_a_rank == pytest.approx(_evaluated(keeps, symbols))
    both_ways = "1, of two copies of the model" if record.placement == "both-ways" else "1"
    assert chunks == {1: both_ways, 2: "2, as a V", "several": "v"}[record.chunks]
    assert messages == {1: "1x", 2: "2x", "several": "v x"}[record.chunks]


def _least_micro_batch(name: str, symbols: dict[str, Any]) -> float:
    """What a micro-batch takes at least on the fixed patterns of V-Half and V-Min, as the page says."""
    (formulas,) = re.findall(r"takes at least (max\(.*\)) or\s+(3 max\(.*?\))", TIME_PAGE)
    return _evaluated(dict(zip(("v-half", "v-min"), formulas, strict=True)).get(name, "0"), symbols)


def _evaluated(formula: str, symbols: dict[str, Any]) -> float:
    """The value of a formula of the page, in which factors stand side by side."""
    return float(eval(re.sub(r"(?<=[\d)])\s*(?=[(A-Za-z])", "*", formula), symbols))


def test_the_readme_names_every_exit_code_that_the_page_on_errors_explains() -> None:
    codes = {"0", "1", "2", "3", str(UNFORESEEN), str(INTERRUPTED)}
    rows = re.findall(r"^\| (\d+) \|", (DOCS / "errors.md").read_text("utf-8"), re.MULTILINE)
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    (sentence,) = re.findall(r"^Exit codes: .*?\n\n", readme, re.MULTILINE | re.DOTALL)
    assert {*rows} == codes
    assert {*re.findall(r"(\d+) means", sentence)} == codes


def test_the_page_on_time_says_how_far_apart_plans_must_be_as_published_runs_have_it() -> None:
    text, order = (DOCS / "time.md").read_text(), order_error()
    usual, experts = (f"{100 * share:.1f} %" for share in (order.median, order.experts))
    assert f"{experts} where it is {usual} for dense models" in text
    share, other = (f"{100 * NINE_OF_TEN * share:.0f} %" for share in (order.experts, order.median))
    assert f"1.9 times that share, {share} with experts and {other} for dense models" in text
    kinds, deviation = 100 * order.plan_kinds, 100 * order.plan_kinds / MEDIAN
    assert f"computes, is {kinds:.1f} %" in text
    assert f"1.9 sqrt(m^2 + {kinds:.1f}^2) %" in text
    assert f"sqrt(s^2 + {deviation:.1f}^2) %" in text
    assert f"{deviation:.1f} % is the standard\ndeviation of a normal error whose median is {kinds:.1f} %" in text


def test_older_attention_takes_what_the_page_says() -> None:
    page = (DOCS / "runtimes.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:[A-Z]+\d+\w?(?:, | and others)?)+)[^|]*\| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(rows) >= 5
    for names, newer, oldest in rows:
        for name in re.findall(r"[A-Z]+\d+\w?", names):
            older = read_accelerator(name.lower()).kernels.attention.older
            assert older["flash-2"] == pytest.approx(float(newer), abs=0.01), name
            assert older["flash-1"] == pytest.approx(float(oldest), abs=0.05), name
    flex = re.search(r"takes ([\d.]+) times as long as the newest on B200 and GB200,\n([\d.]+) times on B300", page)
    assert flex
    told = [read_accelerator(name).kernels.attention.older["flex"] for name in ("gb200", "gb300")]
    assert told == [float(each) for each in flex.groups()]
