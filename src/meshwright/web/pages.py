"""Pages: the HTML around an answer, in the order in which it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from meshwright.answers.document.html import page_style
from meshwright.answers.launch.files import framework_of
from meshwright.errors import InvalidInput
from meshwright.specs.inputs import Inputs
from meshwright.version import VERSION
from meshwright.web.changes import knobs
from meshwright.web.fields import CONFIG, FRAMEWORK, LIMITS, QUESTION
from meshwright.web.packing import MOST_CHARACTERS
from meshwright.web.question import Question
from meshwright.web.task import Event, Waiting, Working

if TYPE_CHECKING:
    from jinja2 import Template

STATIC = {"page.css": "text/css", "memo.css": "text/css", "icon.svg": "image/svg+xml"}
"""The only files that are served, with what they are."""
EXAMPLE = Question.of({each.name: each.default for each in QUESTION})
"""The question of the first page."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the form, with an answer if there is one."""

    question: Question = EXAMPLE
    before: Question | None = None
    inputs: Inputs | None = None
    """The question read, where it is a right one."""
    faults: Mapping[str, str] = field(default_factory=dict)
    """By field; under no name those of the whole."""

    @property
    def title(self) -> str:
        """In the tab of a browser."""
        if self.inputs is None:
            return "Meshwright"
        return f"{self.inputs.model.name} on {self.inputs.cluster.name} · Meshwright"

    def top(self, answering: bool) -> str:
        """All that comes before an answer. answering: whether one follows."""
        fields = {"question_fields": QUESTION, "limits": LIMITS, "framework": FRAMEWORK, "config": CONFIG}
        asked = {**self.question.values, **self.faults}
        changes = [*knobs(self.question, self.inputs)] if self.inputs else []
        return _template("top.html.j2").render(
            page=self,
            answering=answering,
            open_limits=any(each.name in asked for each in LIMITS),
            open_framework=any(each.name in asked for each in FRAMEWORK),
            changes=[(name, changed.link(self.question)) for name, changed in changes],
            most=MOST_CHARACTERS,
            version=VERSION,
            **fields,
        )

    def bottom(self) -> str:
        """All that comes after an answer."""
        return _template("bottom.html.j2").render(page=self)

    def answer(self, html: str, fits: bool) -> str:
        """The answer with the links to what can be made of it. html: of its sections; fits: whether a plan does."""
        return _template("answer.html.j2").render(page=self, html=Markup(html), downloads=self._downloads(fits))

    def refusal(self, words: str) -> str:
        """Why there is no answer."""
        return _template("refusal.html.j2").render(words=words)

    def _downloads(self, fits: bool) -> dict[str, str]:
        """Words by kind of task."""
        kinds = {"memo.html": "Memo, one page to sign and its appendix (HTML)"}
        if find_spec("typst"):
            kinds["memo.pdf"] = "Memo (PDF)"
        if not fits:
            return kinds
        kinds["plan.json"] = "Plan file (JSON)"
        try:
            framework_of(self.inputs.runtime.id if self.inputs else "")
        except InvalidInput:
            return kinds
        return kinds | {"launch.zip": "Launch files (ZIP)"}


def progress(event: Event) -> str:
    """One line on how far a search is; a later one replaces it."""
    waiting = event.ahead if isinstance(event, Waiting) else 0
    working = event if isinstance(event, Working) else Working(0, 0)
    return _template("progress.html.j2").render(waiting=waiting, done=working.done, total=working.total)


@cache
def static(name: str) -> bytes:
    """The content of a file of `STATIC`."""
    return (page_style() if name == "memo.css" else _read(f"static/{name}")).encode()


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _template(name: str) -> Template:
    house = Environment(
        loader=FunctionLoader(lambda name: _read(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return house.get_template(name)
