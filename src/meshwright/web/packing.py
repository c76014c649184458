"""Packing: a config.json in a link, and out of it, never more than anybody means."""

from __future__ import annotations

import base64
import binascii
import json
import zlib

from meshwright.errors import InvalidInput

MOST_CHARACTERS = 64 * 1024
"""Of what is pasted; the largest published config.json has about 20,000."""
MOST_PACKED = 16 * 1024
"""Characters in a link; browsers and servers take 32,000."""


def pack(text: str) -> str:
    """A text as characters that a link may hold; JSON without its spaces. Raises `InvalidInput` for too long a text.

    >>> unpack(pack('{"a":  1}'))
    '{"a":1}'
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{len(text):,} characters are pasted; at most {MOST_CHARACTERS:,} are read")
    packed = base64.urlsafe_b64encode(zlib.compress(_compact(text).encode("utf-8", "replace"), 9)).decode().rstrip("=")
    if len(packed) > MOST_PACKED:
        raise InvalidInput(
            f"what is pasted takes {len(packed):,} characters of a link, which holds {MOST_PACKED:,}: "
            "leave out what does not describe the model"
        )
    return packed


def unpack(packed: str) -> str:
    """The text that `pack` made a link of. Raises `InvalidInput` for anything else, however large it would become."""
    try:
        data = base64.urlsafe_b64decode(packed[:MOST_PACKED] + "=" * (-len(packed) % 4))
        opened = zlib.decompressobj()
        text = opened.decompress(data, 4 * MOST_CHARACTERS)
        if opened.eof and len(packed) <= MOST_PACKED:
            return text.decode("utf-8")
    except (binascii.Error, zlib.error, ValueError):
        pass
    raise InvalidInput("the link is damaged: its config.json cannot be read; paste it again")


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except (ValueError, RecursionError):
        return text
