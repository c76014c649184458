"""Walk: through a script as far as it can be followed without running it, to the commands that it would run."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field

from meshwright.launch.readers.shell import handed
from meshwright.launch.readers.shell.arithmetic import computed
from meshwright.launch.readers.shell.conditions import tested
from meshwright.launch.readers.shell.expansion import (
    UNKNOWN,
    Variables,
    document_of,
    expand,
    expand_one,
    names_of_unknown,
)
from meshwright.launch.readers.shell.parser import parse
from meshwright.launch.readers.shell.syntax import (
    Assignment,
    Block,
    Case,
    Chain,
    Group,
    If,
    Loop,
    Node,
    Not,
    Simple,
    assigned_in,
)
from meshwright.launch.readers.traced import Traced, Unreadable, joined

MAX_COMMANDS = 20_000
MAX_DEPTH = 12
Status = bool | None
"""Of a command: whether it succeeds; None where only running it would tell."""


@dataclass
class Followed:
    """What a script would run."""

    commands: list[list[Traced]] = field(default_factory=list)
    documents: dict[str, Traced] = field(default_factory=dict)
    """Here-documents by the file that they are written to."""
    scripts: list[Traced] = field(default_factory=list)
    """Here-documents that are handed to a shell or a scheduler, and files that are handed to Slurm."""
    exported: dict[str, Traced] = field(default_factory=dict)
    environments: dict[int, dict[str, Traced]] = field(default_factory=dict)
    """What each command starts its program with, by the identity of the command."""
    undecided: dict[int, list[str]] = field(default_factory=dict)
    """Names that conditions rest on which the script does not decide, by their places; neither side is followed."""
    skipped: set[str] = field(default_factory=set)
    """Variables that are set in what is not followed."""
    absent: dict[int, str] = field(default_factory=dict)
    """Scripts that commands read or hand on and that are not there, by the places of the commands."""
    sets: bool = False
    """Whether it sets variables."""
    ended: int | None = None
    """Where `exit` stands that ends it."""
    because: list[tuple[int, list[str]]] = field(default_factory=list)
    """The conditions that hold around it, by their places, with the names that nothing sets and they look at."""


class _Leave(Exception):
    """The script ends here."""


class Walk:
    """A walk; read: the text of a script beside this one, or None."""

    def __init__(self, given: dict[str, str], read: Callable[[str], Traced | None]) -> None:
        self.variables, self.read = Variables(given), read
        self.followed = Followed()
        self.functions: dict[str, Node] = {}
        self.count, self.depth = 0, 0
        self.within: list[tuple[int, list[str]]] = []

    def script(self, source: Traced) -> None:
        """Follow a whole script, and what it runs."""
        with contextlib.suppress(_Leave):
            self.block(parse(source))

    def block(self, block: Block) -> Status:
        """Follow commands in order; the status of the last one."""
        status: Status = True
        for node in block:
            status = self.node(node)
        return status

    def node(self, node: Node) -> Status:
        """Follow one command."""
        self.count += 1
        if self.count > MAX_COMMANDS:
            raise Unreadable(f"it takes more than {MAX_COMMANDS} commands to follow", getattr(node, "origin", 0))
        if isinstance(node, Simple):
            return self._simple(node)
        if isinstance(node, Chain):
            return self._chain(node)
        if isinstance(node, Group):
            return self.block(node.body)
        if isinstance(node, Not):
            status = self.node(node.body)
            return None if status is None else not status
        if isinstance(node, If):
            return self._if(node)
        if isinstance(node, Case):
            return self._case(node)
        if isinstance(node, Loop):
            return self._loop(node)
        self.functions[node.name] = node.body
        return True

    def _chain(self, chain: Chain) -> Status:
        status: Status = True
        for operator, node in chain.links:
            if (operator == "&&" and status is False) or (operator == "||" and status is not False):
                continue
            status = self.node(node)
        return status

    def _if(self, node: If) -> Status:
        for condition, body in node.branches:
            status = True if condition is None else self.block(condition)
            if status is None:
                self._undecided(node, condition or ())
                return None
            if status:
                self.within.append((node.origin, self._names(condition or ())))
                status = self.block(body)
                self.within.pop()
                return status
        return True

    def _case(self, node: Case) -> Status:
        value = expand_one(node.word, self.variables).text
        if UNKNOWN.search(value):
            self._undecided(node, ())
            self.followed.undecided[node.origin] = names_of_unknown(value)
            return None
        for patterns, body in node.branches:
            if any(fnmatch.fnmatchcase(value, expand_one(pattern, self.variables).text) for pattern in patterns):
                return self.block(body)
        return True

    def _loop(self, node: Loop) -> Status:
        if node.name:
            for word in node.words:
                for value in expand(word, self.variables):
                    self.variables.values[node.name] = value
                    self.block(node.body)
            return True
        status = None if node.condition is None else self.block(node.condition)
        if status is None or status != node.until:
            self._undecided(node, node.condition or ())
            return None
        return True

    def _undecided(self, node: Node, condition: Block) -> None:
        """Note a condition with what it rests on, and what is set in the sides that are not followed."""
        self.followed.undecided[getattr(node, "origin", 0)] = self._names(condition)
        self.followed.skipped |= set(assigned_in(node))

    def _names(self, condition: Block) -> list[str]:
        """What a condition looks at and the script does not say; of the number of arguments, the next one."""
        words = [word for each in condition if isinstance(each, Simple) for word in each.words]
        names = [name for word in words for name in names_of_unknown(expand_one(word, self.variables).text)]
        if any(part.kind == "variable" and part.source.text == "#" for word in words for part in word):
            names.append(str(len(self.variables.arguments) + 1))
        return list(dict.fromkeys(names))

    def _simple(self, node: Simple) -> Status:
        variables = self.variables
        words = [value for word in node.words for value in expand(word, variables)]
        for assignment in node.assignments:
            self._assign(assignment)
        name = words[0].text if words else ""
        if node.document is not None:
            self._document(node, node.document, words)
        if name in ("export", "declare", "readonly", "local") or not words:
            if name == "export":
                self._export([each.name for each in node.assignments] + [word.text for word in words[1:]])
            return True
        if node.assignments:
            self._export([each.name for each in node.assignments])
        if name in ("[", "[[", "test", "(("):
            return self._tested(node, words)
        return self._command(name, words)

    def _export(self, names: list[str]) -> None:
        for name in names:
            value = self.variables.scalar(name)
            if value is not None:
                self.followed.exported[name] = value

    def _tested(self, node: Simple, words: list[Traced]) -> Status:
        name = words[0].text
        if name == "((":
            value = computed(
                joined(words[1:], " ").text, lambda each: getattr(self.variables.scalar(each), "text", None)
            )
            return None if value is None else bool(value)
        inner = node.words[1:] if name == "test" else node.words[1:-1]
        return tested([expand_one(word, self.variables).text for word in inner], self.variables)

    def _command(self, name: str, words: list[Traced]) -> Status:
        if name in ("true", ":", "false"):
            return name != "false"
        if name in ("exit", "return"):
            if name == "exit":
                self.followed.ended, self.followed.because = words[0].origin(0), list(self.within)
            raise _Leave
        if name in self.functions:
            return self._within(lambda: self.node(self.functions[name]))
        if name in (".", "source") and len(words) > 1:
            source = self.read(words[1].text)
            if source is None:
                self._absent(words[0], words[1].text)
                return None
            return self._within(lambda: self.block(parse(source)))
        if name == "unset":
            for word in words[1:]:
                self.variables.values.pop(word.text, None)
                self.followed.exported.pop(word.text, None)
        if name == "eval":
            return self._text(joined(words[1:], " ")) if words[1:] else True
        if name in ("echo", "printf"):
            return True
        self.followed.commands.append(words)
        followed, outer, usual = self.followed, self.followed.exported, self.variables.scalar(handed.EXPORTED_BY_SLURM)
        followed.exported = followed.environments[id(words)] = handed.environment_of(words, outer, usual)
        self._inner_script(words)
        followed.exported = outer
        return None

    def _inner_script(self, words: list[Traced]) -> None:
        """Follow the text or the file that the command hands to a shell."""
        texts = [word.text for word in words]
        if line := handed.line_for_a_shell(words):
            self._text(line)
            return
        if line := handed.line_in_a_word(words):
            if not handed.takes_a_script(texts[0]):
                self.followed.commands.remove(words)
            self._text(line)
            return
        if handed.takes_a_script(texts[0]):
            name = next((text for text in texts[1:] if text.endswith((".sh", ".slurm", ".sbatch", ".sub"))), None)
            source = self.read(name) if name else None
            if source is not None:
                self.followed.scripts += [source] if texts[0].endswith("sbatch") else []
                self._text(source)
            elif name:
                self._absent(words[0], name)

    def _absent(self, command: Traced, name: str) -> None:
        self.followed.absent[command.origin(0)] = UNKNOWN.sub(r"$\1", name)

    def _text(self, source: Traced) -> Status:
        return self._within(lambda: self.block(parse(source)))

    def _within(self, follow: Callable[[], Status]) -> Status:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} scripts or functions within one another", 0)
        try:
            return follow()
        except _Leave:
            return True
        finally:
            self.depth -= 1

    def _document(self, node: Simple, document: Traced, words: list[Traced]) -> None:
        text = document_of(document, node.expands_document, self.variables)
        if node.output is not None:
            self.followed.documents[expand_one(node.output, self.variables).text] = text
        if words and handed.takes_a_script(words[0].text):
            self.followed.scripts.append(text)
            self._text(text)

    def _assign(self, each: Assignment) -> None:
        variables, before = self.variables, self.variables.values.get(each.name)
        self.followed.sets = True
        if each.array:
            words = [value for word in each.value for value in expand(word, variables)]  # type: ignore[arg-type]
            old = variables.array(each.name) or [] if each.append else []
            variables.values[each.name] = [*old, *words]
            return
        value = expand_one(each.value, variables)  # type: ignore[arg-type]
        if each.index is not None or (isinstance(before, list) and each.append):
            return
        if each.append and isinstance(before, Traced):
            value = joined([before, value])
        variables.values[each.name] = value
