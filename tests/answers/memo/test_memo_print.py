"""The memo's page as a browser prints it, where one is installed: one page to sign, and six of appendix at the most."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import memos
from commands import asked

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")]
APPENDIX_PAGES = 6


def printed(html: str) -> int:
    """A4 pages of a page."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(html)
        pdf = page.pdf(prefer_css_page_size=True)
        browser.close()
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_one_page_is_signed_and_the_appendix_is_short(tmp_path: Path) -> None:
    """Of the longest memo."""
    file = tmp_path / "memo.html"
    asked("memo", *shlex.split(memos.QUESTIONS["experts"]), "--out", str(file))
    html = file.read_text("utf-8")
    appendix = re.search(r'<section class="[^"]*page', html)
    assert appendix
    assert printed(html[: appendix.start()]) == 1
    assert printed(html) <= 1 + APPENDIX_PAGES
