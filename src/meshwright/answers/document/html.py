"""HTML: a document as one page that holds all it needs."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from meshwright.answers.document.blocks import Block, Document, Heading
from meshwright.answers.document.inline import pieces, plain

if TYPE_CHECKING:
    from markupsafe import Markup

LONG = 40
"""Characters of a cell that wraps, but not into a column of single words."""
WIDE = 8
"""Columns of a table that reaches beyond the text where the window has room."""


class Section(NamedTuple):
    """A heading of the second level, or none, with the blocks up to the next."""

    id: str
    heading: Heading | None
    blocks: tuple[Block, ...]
    small: bool = False
    """Whether it stands behind a heading that began a page."""

    @property
    def classes(self) -> str:
        """As the style sheet knows it."""
        begins = self.heading is not None and self.heading.new_page
        return " ".join(name for name, there in (("small", self.small), ("page", begins)) if there)


def html(document: Document) -> str:
    """A document as one self-contained page: no script, no network, the pictures inside."""
    return _rendered("page.html.j2", document, linked=True)


def fragment(document: Document) -> str:
    """A document as one element inside another page, as a notebook shows it: as self-contained, and without ids, which
    several of them on a page would share.
    """
    return _rendered("fragment.html.j2", document, linked=False)


def body(blocks: Iterable[Block]) -> str:
    """Blocks as the sections of a page that somebody else writes around them, with ids; `page.css` is their style."""
    return _rendered("sections.html.j2", Document("", "", tuple(blocks)), linked=True)


def page_style() -> str:
    """The style sheet of a page."""
    return files(__package__).joinpath("page.css").read_text("utf-8")


def _rendered(template: str, document: Document, linked: bool) -> str:
    """linked: whether sections have ids."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    here = files(__package__)
    house = Environment(
        loader=FunctionLoader(lambda name: here.joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    house.filters |= {"marked": _marked, "plain": plain, "svg": Markup, "kind": lambda block: type(block).__name__}
    house.globals |= {"LONG": LONG, "WIDE": WIDE}
    page = house.get_template(template)
    return page.render(document=document, sections=sections(document.blocks), linked=linked) + "\n"


def sections(blocks: Iterable[Block]) -> list[Section]:
    """Blocks under the headings of the second level that they follow; those before the first have none."""
    number, parts = count(1), [Section("start", None, ())]
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            small = parts[-1].small or block.new_page
            parts.append(Section(id=f"part-{next(number)}", heading=block, blocks=(), small=small))
        else:
            parts[-1] = parts[-1]._replace(blocks=(*parts[-1].blocks, block))
    return [section for section in parts if section.heading or section.blocks]


def _marked(text: str) -> Markup:
    """Text with its marks as elements, everything else escaped."""
    from markupsafe import Markup, escape

    return Markup("").join(
        escape(piece.text) if piece.kind == "text" else Markup("<{0}>{1}</{0}>").format(Markup(piece.kind), piece.text)
        for piece in pieces(text)
    )
