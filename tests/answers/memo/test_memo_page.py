"""The memo's page in a browser, where one is installed: nothing overflows, nothing complains, nothing is fetched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from commands import asked

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUESTION = ("--model", "qwen2.5-32b", "--cluster", "4x8:a100-80gb", "--seq-len", "4096", "--global-batch", "512")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_the_page_reads_well_narrow_and_wide(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    page_file = tmp_path / "memo.html"
    for file in (page_file, tmp_path / "memo.md"):
        assert asked("memo", *QUESTION, "--out", str(file)).code == 0
    pictures = len(list(tmp_path.glob("*.svg")))
    said: list[str] = []
    fetched: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for width in (400, 1400):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: fetched.append(request.url))
            page.goto(page_file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("figure svg").count() == pictures > 2
            assert page.locator("h1").count() == 1
        browser.close()
    assert said == []
    assert set(fetched) == {page_file.as_uri()}
