"""Help: every option whole at 80 columns, in groups, with examples that the command takes."""

from __future__ import annotations

import io
import re
import shlex

import pytest
from typer.main import get_command

from commands import asked, refused
from meshwright.cli.commands import COMMANDS, command
from meshwright.cli.textbook import app as textbook

SINGLE = [name for name in COMMANDS if name != "textbook"]
QUESTIONS = [*((name,) for name in COMMANDS), *(("textbook", name) for name in sorted(get_command(textbook).commands))]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_help_is_whole_at_80_columns(words: tuple[str, ...]) -> None:
    answer = asked(*words, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 80
    assert not re.search(r"…|<\w+|[a-z]\.\.\.$", answer.out, re.MULTILINE)


@pytest.mark.parametrize("name", SINGLE)
def test_help_names_every_option_and_says_what_it_is(name: str) -> None:
    shown = asked(name, "--help").out
    assert command(name).params
    for parameter in command(name).params:
        assert parameter.param_type_name == "argument" or all(f"{each} " in shown for each in parameter.opts)
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", SINGLE)
def test_a_command_takes_its_examples(name: str) -> None:
    assert COMMANDS[name].examples
    for example in COMMANDS[name].examples:
        first, *words = shlex.split(example)
        assert first == name
        assert len(f"  meshwright {example}") <= 80
        assert command(name).make_context(name, words).params


@pytest.mark.parametrize(
    "words", [("launch",), ("runs",), ("sweep",), ("model",), ("catalog",), ("legend",)], ids=" ".join
)
def test_where_a_word_is_missing_an_example_shows_it(words: tuple[str, ...]) -> None:
    message = refused(asked(*words))
    assert "Missing" in message
    assert f"As in: meshwright {COMMANDS[words[0]].examples[0]}" in message


def test_a_long_message_is_wrapped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ("compare", "--cluster", "8x8:h100", "--cluster", "2x8:h100")
    plain = asked(*question).err
    assert plain.count("\n") == 1
    monkeypatch.setattr(io, "StringIO", type("Terminal", (io.StringIO,), {"isatty": lambda _: True}))
    wrapped = asked(*question).err
    assert max(map(len, wrapped.splitlines())) <= 80
    assert wrapped.split() == plain.split()


def test_the_first_page_names_every_command_and_all_that_it_does() -> None:
    shown = "".join(asked("--help").out.split())
    for name, entry in COMMANDS.items():
        assert f"{name}{entry.help}".replace(" ", "") in shown
    assert "Chooseaplan:plan" in shown
