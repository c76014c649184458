"""Answer: what every answer of Python can do: a page for notebooks, the JSON of the command, rows for data frames."""

from __future__ import annotations

from typing import Any

from meshwright.answers.document.blocks import Block, Document
from meshwright.answers.document.html import fragment
from meshwright.errors import InvalidInput

ARROW = (
    "Arrow data needs pyarrow, which is not installed: pip install 'meshwright[sweep]'; or give the rows to the data "
    "frame: polars.DataFrame(answer.rows()), pandas.DataFrame(answer.rows())"
)


class Answer:
    """The answer to a question."""

    def to_dict(self) -> dict[str, Any]:
        """What the command of the same name prints with `--json`."""
        raise NotImplementedError

    def blocks(self) -> tuple[Block, ...]:
        """What a notebook shows."""
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """A table as a list of rows, cells by column, in base units; any data frame takes it."""
        raise NotImplementedError

    def document(self) -> Document:
        """What a notebook shows, with a title where it has one."""
        return Document("", "", self.blocks())

    def _repr_html_(self) -> str:
        return fragment(self.document())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows by the Arrow PyCapsule protocol, which polars, pandas 3 and pyarrow read; needs pyarrow."""
        try:
            import pyarrow
        except ImportError:
            raise InvalidInput(ARROW) from None
        return pyarrow.Table.from_pylist(self.rows()).__arrow_c_stream__(requested_schema)
