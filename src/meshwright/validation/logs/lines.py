"""Lines of a log: plain or gzipped, in any encoding, of one rank or of many, without what launchers add."""

from __future__ import annotations

import codecs
import os
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from meshwright.errors import InvalidInput

CHUNK = 2**20
"""Bytes that are read at once."""
GZIP = b"\x1f\x8b"
LONGEST_LINE = 2**16
"""Characters of a line that are read; what follows them in it is skipped."""
MOST_FILES = 20_000
"""Of one folder."""
_TERMINAL = re.compile(r"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Control sequences (ECMA-48)."""
_LAUNCHER = re.compile(
    r"""\s*(?:
        \[[\w.-]*\d\]:\s?                    # torchrun --tee, PyTorch: [default3]:  [rank0]:
      | \[\d+,\d+\]<std(?:out|err)>:\s?      # mpirun --tag-output
      | \(\w[\w. ]*\bpid=\d+[^()]{0,60}\)\s? # Ray
      | [\w.-]*\d:\s                         # srun --label, pdsh
    )""",
    re.VERBOSE,
)


class Line(NamedTuple):
    """A line, and which process printed it as far as its launcher says."""

    source: str
    text: str


def files_of(path: Path) -> list[Path]:
    """The file, or every plain file in a folder and below: the logs of the ranks of one run.

    Raises `InvalidInput` where there is none, or too many.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        known = "is no plain file" if path.exists() else "does not exist"
        raise InvalidInput(f"the log {str(path)!r} {known}; give a file, or the folder of one run with a file a rank")
    files = []
    for folder, _, names in os.walk(path):
        files += [each for name in names if (each := Path(folder) / name).is_file() and not each.is_symlink()]
        if len(files) > MOST_FILES:
            raise InvalidInput(f"the folder {str(path)!r} holds more than {MOST_FILES} files; give that of one run")
    if not files:
        raise InvalidInput(f"the folder {str(path)!r} holds no files; give a log, or a folder with those of one run")
    return sorted(files)


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a log, one after another, however large it is; a bar that is drawn again is a line each time.

    Bytes that are no text in its encoding become replacement characters; a gzip file that breaks off ends there.
    Raises `InvalidInput` where the file cannot be read.
    """
    for text in _split(chunks_of(path)):
        plain = _TERMINAL.sub("", text) if "\x1b" in text else text
        end = 0
        while match := _LAUNCHER.match(plain, end):
            end = match.end()
        yield Line(plain[:end].strip()[:80], plain[end:])


def chunks_of(path: Path) -> Iterator[str]:
    """The text of a file in pieces, unpacked where it is gzipped; raises `InvalidInput` where it cannot be read."""
    try:
        with path.open("rb") as file:
            yield from _decoded(_unpacked(file))
    except OSError as error:
        raise InvalidInput(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except ValueError as error:
        raise InvalidInput(f"{str(path)!r} is not a path: {error}") from None


def _unpacked(file: BufferedReader) -> Iterator[bytes]:
    if file.peek(2)[:2] != GZIP:
        yield from iter(lambda: file.read(CHUNK), b"")
        return
    member, packed = zlib.decompressobj(wbits=31), b""
    while packed := packed or file.read(CHUNK):
        try:
            yield member.decompress(packed, CHUNK)
        except zlib.error:
            return
        packed = member.unconsumed_tail
        if member.eof:
            packed, member = member.unused_data, zlib.decompressobj(wbits=31)


def _decoded(chunks: Iterator[bytes]) -> Iterator[str]:
    first = next(chunks, b"")
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    decoder = codecs.getincrementaldecoder(marks.get(first[:2], "utf-8"))(errors="replace")
    yield decoder.decode(first).removeprefix("\ufeff")
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _split(chunks: Iterator[str]) -> Iterator[str]:
    rest = ""
    for chunk in chunks:
        *whole, last = re.split(r"[\r\n]", chunk)
        for text in whole:
            if rest:
                text, rest = rest + text, ""
            if text:
                yield text[:LONGEST_LINE]
        rest = (rest + last)[:LONGEST_LINE]
    if rest:
        yield rest
