"""The command `meshwright`: thin; every answer is made elsewhere."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import meshwright
from meshwright import errors
from meshwright.cli.commands import COMMANDS, command
from meshwright.cli.help import write_groups
from meshwright.cli.show import show

REFUSED_PATHS = {errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.ENOTDIR}
"""What a path of a user can raise wherever it is first looked at."""
REFUSED_BY_STANDARD_OUTPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE, errno.EBADF}
"""What writing an answer can raise (write(2)); any other `OSError` has another cause."""


class Commands(TyperGroup):
    """The commands, each imported where it is asked for."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands by group, each with its whole line of help, and the options."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            rows.setdefault(entry.panel, []).append((name, entry.help))
        records = [each.get_help_record(ctx) for each in self.get_params(ctx)]
        write_groups(formatter, rows | {"Options": [record for record in records if record]})

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """As typer makes it; what it says of wrong words shows their control characters."""
        with _shown():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        """As typer does; what it says of wrong words shows their control characters."""
        with _shown():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the words name, with its options, and the words left to it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, command(name) if name else None, rest


@contextmanager
def _shown() -> Iterator[None]:
    """Replaces the message of an error of typer's by one that a terminal shows as it is."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = _visible(message)  # type: ignore[attr-defined]
        raise


def _visible(text: str) -> str:
    from meshwright.answers.document.inline import visible

    return visible(text)


app = typer.Typer(
    name="meshwright",
    cls=Commands,
    help="Plan distributed training of large language models: which layout fits, how fast it is, and why.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"meshwright {meshwright.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def _in_its_module() -> None:
    """Stands for a command in the list of commands."""


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.help)(_in_its_module)


def main() -> None:
    """Run the command; it exits with 2 for a wrong question, 3 where no plan fits, 130 where it is stopped, and 1 where
    no answer is written or a figure of `verify` differs.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")  # else it reads the metadata of every installed package
    codecs.register_error("plain", _plain)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="plain")
    try:
        _run()
    except errors.InvalidInput as error:
        _fail(error, 2)
    except errors.NothingFits as error:
        if "--json" in sys.argv:
            show(error.document, as_json=True)
        _fail(error, 3)
    except errors.Stopped as error:
        if "--json" in sys.argv:
            show({"error": str(error), "complete": False}, as_json=True)
        _fail(error, errors.INTERRUPTED)
    except MemoryError:
        _fail("this question needs more memory than there is here; ask for fewer plans, as with --tp 8 --cp 1", 1)
    except OSError as error:
        if error.errno in REFUSED_PATHS and error.filename is not None:
            _fail(f"{errors.quoted(str(error.filename))} cannot be opened: {error.strerror}", 2)
        if error.errno not in REFUSED_BY_STANDARD_OUTPUT or error.filename is not None:
            raise
        sys.stdout = io.StringIO()  # else Python writes what is left when it ends, fails again and exits with 120
        _fail(f"cannot write the answer: {error.strerror}", 1)


def _run() -> None:
    """Run the command as typer does, which makes a silent exit of an interrupt."""
    try:
        app(prog_name="meshwright")
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            raise errors.Stopped(errors.NO_ANSWER) from None
        print(end="", flush=True)  # here, where a refused write is still told
        raise


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What a terminal shows in place of characters that it does not have: bars stay bars."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join("#" if character == "█" else "?" for character in missing), error.end


def _wrapped(text: str) -> str:
    """A text whose lines a terminal shows without breaking words, list items below their text."""
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="    " if line.startswith("  - ") else "", break_on_hyphens=False)
        for line in text.splitlines()
    )


def _fail(error: object, code: int) -> NoReturn:
    text = _visible(f"meshwright: {error}")
    print(_wrapped(text) if sys.stderr.isatty() else text, file=sys.stderr)
    sys.exit(code)
