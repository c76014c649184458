"""Documents: every writer shows every character of every block, and nothing of it as a mark of its own."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.answers.document.blocks import (
    Block,
    Bullets,
    Callout,
    Code,
    Document,
    Figure,
    Heading,
    Paragraph,
    Table,
)
from meshwright.answers.document.html import LONG, html, sections
from meshwright.answers.document.inline import pieces, plain, printable
from meshwright.answers.document.markdown import markdown
from meshwright.answers.document.pdf import pdf, source
from meshwright.errors import InvalidInput

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><title>t</title><text x="1" y="8">x</text></svg>'
NASTY = 'a|b *c* _d_ <e> &amp; [f](g) `h` $i$ #j @k \\l ~m~ "n" **o** 1. p'
TEXTS = st.text(max_size=60) | st.sampled_from([NASTY, "", "# x", "- y", "1. z", "> q", "**", "``", "a\nb"])
BLOCKS = (
    Heading("One | two", 2),
    Heading("Three", 3),
    Paragraph(NASTY),
    Code((NASTY, "```", "\tindented")),
    Bullets(("- a", "1. b", "# c")),
    Bullets(("first", "second"), numbered=True),
    Table(("name", "GiB"), (("a|b", "1.0"), ("`c|d`", "2.0"), ("sum", "3.0")), caption="Sizes", total=True),
    Figure("memory", SVG, "A picture"),
    Callout("Look", "at `this` **now**", "warning"),
)
WHOLE = Document("Title & more", "under it", BLOCKS)


class _Reader(HTMLParser):
    """The text of a page's body, and its tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.tags: list[str] = []
        self.hidden = False

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.hidden = self.hidden or tag in ("style", "head")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = self.hidden and tag != "head"

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.text.append(data)


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    return reader


def of(*blocks: Block) -> Document:
    return Document("T", "", blocks)


@given(TEXTS)
def test_html_shows_every_character_and_no_mark_of_its_own(text: str) -> None:
    read = _read(html(of(Paragraph(text))))
    assert plain(text) in "".join(read.text)
    assert not {"script", "e", "link", "img"} & set(read.tags)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_rows_of_markdown_have_as_many_cells_as_columns(rows: list[list[str]]) -> None:
    text, _ = markdown(of(Table(("a", "b"), tuple(tuple(row) for row in rows))), "memo")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert len(re.findall(r"(?<!\\)\|", line)) == 3


@given(TEXTS)
def test_typst_takes_text_as_strings_alone(text: str) -> None:
    """Outside of string literals stands nothing of the text."""
    written = source(of(Paragraph(text))).partition("#par(")[2]
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", written)
    assert set(re.findall(r"[a-z]+", outside)) <= {"raw", "strong"}


@given(TEXTS)
def test_pieces_hold_the_whole_text_without_its_marks(text: str) -> None:
    kinds = list(pieces(text))
    assert "".join(piece.text for piece in kinds) == plain(text)
    assert all(piece.text for piece in kinds)
    assert sum(len(piece.text) for piece in kinds) <= len(printable(text))


def test_markdown_is_readable_as_it_is() -> None:
    text, pictures = markdown(WHOLE, "memo")
    assert pictures == {"memo-memory.svg": SVG}
    assert text.startswith("# Title & more\n\nunder it\n\n## One \\| two\n")
    assert "![A picture](memo-memory.svg)" in text
    assert "| **sum** | **3.0** |" in text
    assert "> **Look**\n>\n> at `this` **now**" in text
    assert "1. first\n2. second" in text
    assert "- \\- a\n- 1\\. b\n- \\# c" in text


def test_a_page_holds_all_it_needs() -> None:
    page = html(WHOLE)
    read = _read(page)
    assert page.count("<svg") == 1
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "@import" not in page
    assert {"main", "section", "figure", "figcaption", "caption", "thead"} <= set(read.tags)
    assert read.tags.count("h1") == 1
    assert 'lang="en"' in page
    assert "@media print" in page


def test_long_cells_keep_room_for_more_than_a_word() -> None:
    page = html(of(Table(("plan", "GiB"), (("x" * (LONG + 1), "1.0"), ("short", "2.0")))))
    assert page.count('class="l long"') == 1


def test_long_tables_of_a_pdf_may_go_over_to_the_next_page() -> None:
    row = ("a plan of some length, and why it lost", "1.0")
    short, long = (source(of(Table(("plan", "GiB"), (row,) * count))) for count in (3, 30))
    assert "#together(table(" in short
    assert "#flowing(table(" in long


def test_blocks_before_the_first_heading_are_a_section() -> None:
    found = sections((Paragraph("a"), Heading("b", 2), Paragraph("c"), Heading("d", 3)))
    assert [len(section.blocks) for section in found] == [1, 2]
    assert sections(()) == []


def test_a_pdf_is_the_same_every_time() -> None:
    pytest.importorskip("typst")
    written = pdf(WHOLE)
    assert written.startswith(b"%PDF-")
    assert written == pdf(WHOLE)


def test_without_its_library_a_pdf_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = sys.modules
    monkeypatch.setitem(modules, "typst", None)
    with pytest.raises(InvalidInput, match=r"pip install 'meshwright\[pdf\]'; Markdown"):
        pdf(WHOLE)
