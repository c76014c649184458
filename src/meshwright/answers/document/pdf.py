"""PDF: a document typeset by the optional library typst."""

from __future__ import annotations

from importlib import import_module

from meshwright.answers.document.blocks import Document
from meshwright.answers.document.typeset import source
from meshwright.errors import InvalidInput


def pdf(document: Document) -> bytes:
    """A document as A4 pages; the same bytes every time, with the fonts that the library brings.

    Raises `InvalidInput` where the library is not installed.
    """
    try:
        typst = import_module("typst")
    except ImportError:
        raise InvalidInput(
            "a PDF needs the library typst, which is not installed: pip install 'meshwright[pdf]'; "
            "Markdown (.md) and HTML (.html) work without"
        ) from None
    written: bytes = typst.compile(source(document).encode(), format="pdf", ignore_system_fonts=True)
    return written
