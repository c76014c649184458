"""Expansion: words with their variables, defaults and arithmetic filled in as far as the script itself says."""

from __future__ import annotations

import fnmatch
import re

from meshwright.launch.readers.shell.arithmetic import computed
from meshwright.launch.readers.shell.words import Part, Word, in_quotes, read_word
from meshwright.launch.readers.traced import Traced, Unreadable, joined, split_words

OPEN, CLOSE = "\ue000", "\ue001"
"""Around the name of what is not known, in a value."""
UNKNOWN = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_ALL_IN_ONE = re.compile(r"\*$|\w+\[\*\]")
"""Expansions that are one word within quotes, whatever they hold."""
_REFERENCE = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?:\[([^]]*)\])?(.*)", re.DOTALL | re.ASCII)
_OPERATION = re.compile(r"(:?[-=+?])(.*)", re.DOTALL)
_HERE = re.compile(r"\s*(pwd|dirname\s+(-- )?\"?\$\{?(0|BASH_SOURCE(\[0\])?)\}?\"?)\s*")
_EXPR = re.compile(r"expr\s+")
_UNPLAIN = re.compile(r"[^\w.@/:-]+")
MAX_DEPTH = 30
Value = Traced | list[Traced]


class Variables:
    """What the script has set so far, and the arguments that it is given."""

    def __init__(self, given: dict[str, str]) -> None:
        self.values: dict[str, Value] = {name: Traced.at(text, 0) for name, text in given.items()}
        self.values.setdefault("PWD", Traced.at(".", 0))
        self.arguments = [name for name in given if name.isdecimal()]
        self.depth = 0

    def scalar(self, name: str) -> Traced | None:
        """The value of a variable as one text; the first of an array; None where it is not set."""
        value = self.values.get(name)
        return (value[0] if value else None) if isinstance(value, list) else value

    def array(self, name: str) -> list[Traced] | None:
        """The values of an array, or the one of a variable."""
        value = self.values.get(name)
        return value if isinstance(value, list) or value is None else [value]


def unknown(what: str, origin: int) -> Traced:
    """The place of a value that the script does not say; a plain word, so that a text with it can be read again."""
    return Traced.at(f"{OPEN}{_UNPLAIN.sub('_', what).strip('_') or 'value'}{CLOSE}", origin)


def names_of_unknown(text: str) -> list[str]:
    """What is not known in a value."""
    return UNKNOWN.findall(text)


def expand(word: Word, variables: Variables) -> list[Traced]:
    """The words that a word becomes: unquoted values are split, arrays spread."""
    done: list[Traced] = []
    current: list[Traced] = []
    for part in word:
        if part.kind == "literal":
            current.append(part.source)
            continue
        values = _values(part, variables)
        if part.quoted and values and _ALL_IN_ONE.match(part.source.text):
            values = [joined(values, " ")]
        pieces = values if part.quoted else [piece for value in values for piece in _pieces(value)]
        if not part.quoted and values and values[0].text[:1].isspace() and current:
            done.append(joined(current))
            current = []
        if pieces:
            current.append(pieces[0])
            for piece in pieces[1:]:
                done.append(joined(current))
                current = [piece]
        if not part.quoted and values and values[-1].text[-1:].isspace() and current:
            done.append(joined(current))
            current = []
    if current and (any(current) or any(part.quoted for part in word)):
        done.append(joined(current))
    return done


def expand_one(word: Word, variables: Variables) -> Traced:
    """The text that a word becomes where it is not split."""
    parts = []
    for part in word:
        values = [part.source] if part.kind == "literal" else _values(part, variables)
        parts.append(joined(values, " ") if values else Traced("", []))
    return joined(parts) if parts else Traced("", [])


def document_of(source: Traced, expands: bool, variables: Variables) -> Traced:
    """The text of a here-document."""
    return expand_one(in_quotes(source), variables) if expands else source


def _pieces(value: Traced) -> list[Traced]:
    return list(split_words(value))


def _values(part: Part, variables: Variables) -> list[Traced]:
    variables.depth += 1
    if variables.depth > MAX_DEPTH:
        raise Unreadable(f"more than {MAX_DEPTH} expansions within one another", part.source.origin(0))
    try:
        if part.kind == "variable":
            return _reference(part, variables)
        if part.kind == "arithmetic":
            return [_arithmetic(part.source, variables)]
        return [_command(part.source, variables)]
    finally:
        variables.depth -= 1


def _arithmetic(source: Traced, variables: Variables) -> Traced:
    text = expand_one(in_quotes(source), variables)
    missing = names_of_unknown(text.text)

    def known(name: str) -> str | None:
        value = variables.scalar(name)
        if value is None or UNKNOWN.search(value.text):
            missing.extend(names_of_unknown(value.text) if value else [name])
            return None
        return value.text

    value = None if missing else computed(text.text.replace("\\*", "*"), known)
    origin = source.origin(0)
    return unknown((missing or [source.text[:60]])[0], origin) if value is None else Traced.at(str(value), origin)


def _command(source: Traced, variables: Variables) -> Traced:
    text = source.text.strip()
    if _HERE.fullmatch(text):
        return Traced.at(".", source.origin(0))
    if match := _EXPR.match(text):
        return _arithmetic(source.part(source.text.index(text) + match.end()), variables)
    if match := re.fullmatch(r"cd\s+(.*?)\s*(&&|;)\s*pwd(\s+-P)?", text):
        words = expand(read_word(source.part(source.text.index(match[1])), 0, set(" \t\n;&"))[0], variables)
        return words[0] if words else Traced.at(".", source.origin(0))
    return unknown(f"@{text[:60]}" if text.isidentifier() else text[:60], source.origin(0))


def _reference(part: Part, variables: Variables) -> list[Traced]:
    source = part.source
    match = _REFERENCE.fullmatch(source.text)
    if not match:
        return [unknown(source.text[:60], source.origin(0))]
    counts, name, index, rest = match.groups()
    origin = source.origin(0)
    if name in "@*" and not counts:
        given = [variables.values[each] for each in variables.arguments]
        return [value for value in given if isinstance(value, Traced)]
    if source.text == "#":
        return [Traced.at(str(len(variables.arguments)), origin)]
    values = _indexed(name, index, variables)
    if counts:
        return [_length(name, index, values, origin)]
    operation = _OPERATION.fullmatch(rest)
    if operation:
        alternative = source.part(match.start(4) + len(operation[1]))
        return _with_default(name, values, operation[1], alternative, part.quoted, variables)
    if values is None:
        return [] if index in ("@", "*") else [unknown(name, origin)]
    return [_changed(value, rest) for value in values] if rest else values


def _indexed(name: str, index: str | None, variables: Variables) -> list[Traced] | None:
    if index in ("@", "*"):
        return variables.array(name)
    if index is None:
        value = variables.scalar(name)
        return None if value is None else [value]
    values = variables.array(name)
    at = computed(index.replace("$", ""), lambda each: getattr(variables.scalar(each), "text", None))
    return [values[at]] if values is not None and at is not None and -len(values) <= at < len(values) else None


def _length(name: str, index: str | None, values: list[Traced] | None, origin: int) -> Traced:
    if values is None:
        return unknown(name, origin)
    return Traced.at(str(len(values) if index in ("@", "*") else len(values[0].text)), origin)


def _with_default(
    name: str, values: list[Traced] | None, operator: str, other: Traced, quoted: bool, variables: Variables
) -> list[Traced]:
    is_set = values is not None and (":" not in operator or any(value.text for value in values))
    kind = operator[-1]
    if kind == "+":
        return _default(other, quoted, variables) if is_set else []
    if is_set:
        return values or []
    if kind == "?":
        return [unknown(name, other.origin(0))]
    chosen = _default(other, quoted, variables)
    if kind == "=":
        variables.values[name] = joined(chosen, " ") if chosen else Traced("", [])
    return chosen


def _default(other: Traced, quoted: bool, variables: Variables) -> list[Traced]:
    word = in_quotes(other) if quoted else read_word(other, 0, set())[0]
    if quoted and other.text[:1] == other.text[-1:] == '"' and len(other.text) > 1:
        word = in_quotes(other.part(1, -1))
    return [expand_one(word, variables)] if word else []


def _changed(value: Traced, operation: str) -> Traced:
    """A value with a prefix or suffix taken off, or in another case."""
    if operation in ("^^", ",,"):
        return Traced(value.text.upper() if operation == "^^" else value.text.lower(), value.origins)
    match = re.fullmatch(r"(%%?|##?)([^$`]{0,200})", operation, re.DOTALL)
    if match is None or UNKNOWN.search(value.text) or len(value.text) > 10_000:
        return unknown(UNKNOWN.sub(r"\1", value.text)[:40] + operation, value.origin(0))
    size = len(value.text)
    cuts = range(size + 1) if match[1] in ("#", "%%") else range(size, -1, -1)
    for cut in cuts:
        taken = value.text[:cut] if match[1][0] == "#" else value.text[cut:]
        if fnmatch.fnmatchcase(taken, match[2]):
            return value.part(cut) if match[1][0] == "#" else value.part(0, cut)
    return value
