"""The page in a browser: it asks nobody else, complains of nothing, and needs neither mouse nor script."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from served import LARGE, LLAMA_70B, SMALL, TINY, UNFIT, Served, link, server, until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
AXE_OR_GIVEN = Path(os.environ.get("AXE", AXE))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients("fastapi", "uvicorn", "playwright"),
    pytest.mark.skipif(BROWSER is None or sys.platform != "linux", reason="no Chromium is installed"),
]
KINDS = {
    "start": "/",
    "plan": link(TINY),
    "changed": f"{link(TINY | {'with': 'overlap.expert=0.7', 'sp': 'with', 'risk': '5%'})}&was_seq_len=512&was_tp=2",
    "unfit": link(UNFIT),
    "wrong": link(SMALL | {"model": "lama", "tp": "x"}),
    "refused": link(SMALL | {"tp": "3"}),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Served]:
    with server("--searches", "2") as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def tab(chromium: Any, served: Served, width: int = 1600, **options: Any) -> Iterator[Any]:
    """A tab that must say nothing on its console and ask nobody but the server."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(120_000)
    opened, said = context.new_page(), list[str]()
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: request.url.startswith(served.url) or said.append(request.url))
    yield opened
    context.close()
    assert said == []


def test_a_newcomer_asks_and_reads(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as newcomer:
        newcomer.goto(page.url)
        newcomer.get_by_label("Model", exact=True).fill("llama-3.1-8b")
        newcomer.get_by_label("Cluster").fill("1x8:h100")
        newcomer.get_by_label("Global batch").fill("64")
        newcomer.get_by_role("button").click()
        newcomer.get_by_role("heading", name="The plan").wait_for()
        assert newcomer.title() == "llama-3.1-8b on 1x8:h100-sxm-80gb · Meshwright"
        assert newcomer.locator("article svg").count() == 3
        assert not newcomer.locator("#progress").is_visible()
        newcomer.get_by_role("link", name="twice the sequence length").click()
        newcomer.get_by_role("heading", name="What changed").wait_for()
        assert newcomer.get_by_label("Sequence length").input_value() == "16384"
        assert "was_seq_len=8192" in newcomer.url


def test_a_newcomer_takes_the_memo_home(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as newcomer:
        newcomer.goto(page.url + link(SMALL))
        with newcomer.expect_download() as download:
            newcomer.get_by_role("link", name="Memo, one page").click()
        assert download.value.suggested_filename == "llama-3.1-8b-1x8-h100-sxm-80gb-memo.html"


def test_pictures_tell_their_figures_to_a_pointer_and_to_the_keyboard(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as reader:
        reader.goto(page.url + link(SMALL))
        bars = reader.locator("figure").first.locator(".mark")
        first, second = (bars.nth(index).locator(".readout") for index in (0, 1))
        assert not first.is_visible()
        bars.nth(0).locator("rect").first.hover(force=True)
        assert first.is_visible()
        bars.nth(0).focus()
        reader.keyboard.press("Tab")
        assert second.is_visible()
        assert bars.nth(1).get_attribute("aria-label").startswith(second.locator("tspan").first.text_content())


def test_without_a_mouse_the_whole_question_can_be_asked(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as typist:
        typist.goto(page.url)
        typist.keyboard.press("Tab")
        assert typist.evaluate("document.activeElement.textContent") == "Skip to the question"
        for _ in range(20):
            if typist.evaluate("document.activeElement.id") == "model":
                break
            typist.keyboard.press("Tab")
        typist.keyboard.press("Control+A")
        typist.keyboard.type("gpt2")
        typist.keyboard.press("Tab")
        typist.keyboard.press("Control+A")
        typist.keyboard.type("1x8:h100")
        typist.keyboard.press("Tab")
        typist.keyboard.press("Control+A")
        typist.keyboard.type("1024")
        typist.keyboard.press("Enter")
        typist.get_by_role("heading", name="The plan").wait_for()


def test_with_scripts_off_the_form_answers(chromium: Any, page: Served) -> None:
    with tab(chromium, page, java_script_enabled=False) as plain:
        plain.goto(page.url)
        plain.get_by_label("Model", exact=True).fill("lama")
        plain.get_by_role("button").click()
        assert "unknown model 'lama'" in plain.locator("#fault-model").text_content()
        plain.get_by_label("Model", exact=True).fill("llama-3.1-8b")
        plain.get_by_role("button").click()
        plain.get_by_role("heading", name="The plan").wait_for()


def test_two_tabs_do_not_meet(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as one, tab(chromium, page) as other:
        one.goto(page.url + link(SMALL), wait_until="commit")
        other.goto(page.url + link(TINY), wait_until="commit")
        for each, name in ((one, "llama-3.1-8b on 1x8"), (other, "gpt2 on 1x8")):
            each.get_by_role("heading", name="The plan").wait_for()
            assert name in each.locator("article > h1").text_content()


def test_closing_a_tab_ends_its_search(chromium: Any, page: Served) -> None:
    """The search is stopped before, so that it cannot end by itself."""
    with tab(chromium, page) as leaver:
        leaver.goto(page.url + link(LARGE), wait_until="commit")
        until(page.searches, "a search runs")
        (search,) = page.searches()
        os.kill(search, signal.SIGSTOP)
        leaver.locator("#progress progress").last.wait_for()
        leaver.close()
        until(lambda: not page.searches(), "the search has ended")


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_fits_its_window_and_is_open_to_all(chromium: Any, page: Served, kind: str, tmp_path: Path) -> None:
    """No violation of axe-core's rules, in dark and light, on a telephone and on a wide screen."""
    for width, scheme in ((400, "dark"), (1600, "light"), (1600, "dark")):
        with tab(chromium, page, width, color_scheme=scheme) as reader:
            reader.goto(page.url + KINDS[kind])
            assert reader.evaluate("document.documentElement.scrollWidth") <= width
            reader.screenshot(path=tmp_path / f"{kind}-{width}-{scheme}.png", full_page=True)
            if AXE_OR_GIVEN.is_file():
                reader.evaluate(AXE_OR_GIVEN.read_text("utf-8"))
                found = reader.evaluate("axe.run()")["violations"]
                assert [(each["id"], each["nodes"][0]["html"][:120]) for each in found] == []


def test_the_first_answer_for_70b_on_64_comes_whole(chromium: Any, page: Served) -> None:
    with tab(chromium, page) as reader:
        reader.goto(page.url + link(LLAMA_70B))
        headings = reader.locator("article h2").all_text_contents()
        assert headings == ["The plan", "Memory", "Time", "Pipeline", "Time against memory", "Assumptions"]
