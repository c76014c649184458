"""The only place that knows prefixes: inside the package everything is bytes, seconds, FLOP and bytes/s.

`GB` is 1e9 bytes and `GiB` 2**30 bytes; `Gb` is 1e9 bits. Counts take `k`, `M`, `B` (1e9) and `T`.
"""

from __future__ import annotations

import re

from meshwright.errors import InvalidInput

KIB, MIB, GIB = 2**10, 2**20, 2**30
MICROSECOND = 1e-6
GIGA = 1e9

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_COUNT = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_NUMBER = r"\s*([0-9][0-9_]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)\s*"


def parse_bytes(text: str | int | float) -> float:
    """Bytes from a size such as `80GB`, `80 GiB` or a plain number of bytes.

    >>> parse_bytes("80GB")
    80000000000.0
    >>> parse_bytes("1GiB")
    1073741824.0
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(_NUMBER + r"([kKMGT]i?)?B(?:ytes)?", str(text).strip())
    if not match:
        raise InvalidInput(f"{text!r} is not a size: write it as 80GB, 79.6GiB or a number of bytes")
    prefix = match[2] or ""
    return _number(match[1]) * (_BINARY[prefix] if prefix in _BINARY else _PREFIX[prefix])


def parse_bandwidth(text: str | int | float) -> float:
    """Bytes per second, one direction, from `50GB/s`, `400Gb/s` (bits), `400Gbps` or a plain number of bytes/s.

    >>> parse_bandwidth("400Gb/s")
    50000000000.0
    >>> parse_bandwidth("450GB/s")
    450000000000.0
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(_NUMBER + r"([kKMGT]i?)?(B|b|bit)(?:/s|ps)", str(text).strip())
    if not match:
        raise InvalidInput(f"{text!r} is not a bandwidth: write it as 50GB/s, 400Gb/s or a number of bytes/s")
    prefix = match[2] or ""
    scale = _BINARY[prefix] if prefix in _BINARY else _PREFIX[prefix]
    return _number(match[1]) * scale / (1 if match[3] == "B" else 8)


def parse_seconds(text: str | int | float) -> float:
    """Seconds from `5us`, `3.4 ms`, `1s` or a plain number of seconds.

    >>> parse_seconds("5us")
    5e-06
    """
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = re.fullmatch(_NUMBER + r"(ns|us|µs|ms|s)", str(text).strip())
    if not match:
        raise InvalidInput(f"{text!r} is not a duration: write it as 5us, 2ms, 1s or a number of seconds")
    return _number(match[1]) * {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[match[2]]


def parse_count(text: str | int) -> int:
    """A whole count from `256`, `4M` or `1.5T`.

    >>> parse_count("4M")
    4000000
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(_NUMBER + r"([kKMBGT]?)", str(text).strip())
    value = _number(match[1]) * _COUNT[match[2]] if match else 0.5
    if value != int(value):
        raise InvalidInput(f"{text!r} is not a whole count: write it as 256, 4M or 15T")
    return int(value)


def format_count(value: float) -> str:
    """A count for people.

    >>> format_count(70553706496)
    '70.55B'
    """
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{suffix}"
    return f"{value:g}"


def format_gib(value: float) -> str:
    """Bytes as GiB for people.

    >>> format_gib(2**30)
    '1.0 GiB'
    """
    return f"{value / GIB:,.1f} GiB" if abs(value) >= 0.05 * GIB else f"{value / GIB:.3f} GiB"


def format_seconds(value: float) -> str:
    """A duration for people.

    >>> format_seconds(0.0123)
    '12.3 ms'
    """
    for limit, unit in ((1.0, "s"), (1e-3, "ms")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {unit}" if abs(value) < 100 * limit else f"{value / limit:.0f} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-6:.3g} us"


def format_bandwidth(value: float) -> str:
    """Bytes per second for people.

    >>> format_bandwidth(50e9)
    '50 GB/s'
    """
    return f"{value / 1e9:.4g} GB/s"


def _number(text: str) -> float:
    return float(text.replace("_", ""))
