"""Write: the memo as files, each whole or not at all."""

from __future__ import annotations

from pathlib import Path

from meshwright.answers.document.blocks import Document
from meshwright.answers.files import writable, write_whole
from meshwright.errors import InvalidInput

SUFFIXES = (".md", ".html", ".pdf")


def memo_files(names: list[Path]) -> list[Path]:
    """The files that a memo will be written to; raises `InvalidInput` for one that cannot be, or of another format."""
    paths = [writable(name, "--out") for name in names]
    for path in paths:
        if path.suffix not in SUFFIXES:
            near = repr(path.stem + ".html")
            raise InvalidInput(f"--out {str(path)!r}: a memo is written as {', '.join(SUFFIXES)}; name it {near}")
    return paths


def write_memo(document: Document, paths: list[Path]) -> list[Path]:
    """Write a document to files of `memo_files`: pictures of Markdown beside it, first. Returns what was written."""
    written = [each for path in paths for each in _written(document, path)]
    for path, content in written:
        write_whole(path, content)
    return [path for path, _ in written]


def _written(document: Document, path: Path) -> list[tuple[Path, str | bytes]]:
    """The files of one format and what is in them, the one that was asked for last."""
    from meshwright.answers.document.html import html
    from meshwright.answers.document.markdown import markdown
    from meshwright.answers.document.pdf import pdf

    if path.suffix == ".md":
        text, pictures = markdown(document, path.stem)
        return [*((writable(path.with_name(name)), svg) for name, svg in pictures.items()), (path, text)]
    return [(path, pdf(document) if path.suffix == ".pdf" else html(document))]
