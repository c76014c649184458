"""How help reads: options in groups, each whole at 80 columns, with examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose help shows examples, and its options in the groups that they name; its epilog is the examples,
    one in a line.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.rich_markup_mode = None

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """As typer makes it; where a word is missing, an example shows it."""
        try:
            return super().make_context(*arguments, **more)
        except Exception as error:
            if type(error).__name__ == "MissingParameter" and self.epilog:
                error.message = f"As in: meshwright {self.epilog.splitlines()[0]}"  # type: ignore[attr-defined]
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Options and arguments."""
        return ["[OPTIONS]", *(name for name, _ in self._arguments(ctx))]

    def _arguments(self, ctx: Any) -> list[tuple[str, str]]:
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return [(each.metavar or str(each.name).upper(), getattr(each, "help", None) or "") for each in arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Examples and arguments first, then the groups in the order in which the command names them."""
        groups = {"Arguments": arguments} if (arguments := self._arguments(ctx)) else {}
        options = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        panels = [getattr(each, "rich_help_panel", None) for each in options]
        for panel, option in sorted(zip(panels, options, strict=True), key=lambda each: each[0] is None):
            if record := option.get_help_record(ctx):
                groups.setdefault(panel or ("Other options" if any(panels) else "Options"), []).append(record)
        if self.epilog:
            with formatter.section("Examples"):
                for example in self.epilog.splitlines():
                    formatter.write_text(f"meshwright {example}")
        write_groups(formatter, groups)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Nothing: the examples stand above."""


class Group(TyperGroup):
    """Commands of a command, each with its whole line of help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the options."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((each.help or "").partition("\n\n")[0].split())) for name, each in commands if each]
        records = [each.get_help_record(ctx) for each in self.get_params(ctx)]
        write_groups(formatter, {"Commands": rows, "Options": [record for record in records if record]})


def write_groups(formatter: Any, groups: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Names and what they mean, by group."""
    for name, records in groups.items():
        with formatter.section(name):
            formatter.write_dl(records)
