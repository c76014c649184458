"""Shows on a page what the README shows, which a test holds to what is printed: `{{ readme answer }}`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with every mark replaced by the README's text between `<!-- name -->` and `<!-- /name -->`."""
    return re.sub(r"^{{ readme (\w+) }}$", lambda match: shown(match[1]), markdown, flags=re.MULTILINE)


def shown(name: str) -> str:
    """What stands between the README's marks of a name; raises `ValueError` where there are none."""
    found = re.search(f"<!-- {name} -->\n(.*?)<!-- /{name} -->", README.read_text("utf-8"), re.DOTALL)
    if not found:
        raise ValueError(f"README.md has no text between <!-- {name} --> and <!-- /{name} -->")
    return found[1].strip()
