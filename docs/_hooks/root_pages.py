"""Pages that are files of the project's root: on a code host a sentence with a link, on the site the whole file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FILES = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
"""By page, the file."""
_PAGES = {file: page for page, file in FILES.items()}
_LINK = re.compile(r"\]\(([\w./-]+)(#[\w-]+)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """What mkdocs shows of a page: the file in the root where it stands for one."""
    name = page.file.src_uri
    return root_page(name) if name in FILES else markdown


def root_page(name: str) -> str:
    """The file of a page, with links as the site has them."""
    return _LINK.sub(_linked, (ROOT / FILES[name]).read_text("utf-8"))


def _linked(link: re.Match[str]) -> str:
    path, anchor = link[1], link[2] or ""
    return f"]({_PAGES.get(path, path.removeprefix('docs/'))}{anchor})"
