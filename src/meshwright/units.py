"""The only place that knows prefixes: inside the package everything is bytes, seconds, FLOP and bytes/s.

`GB` is 1e9 bytes and `GiB` 2**30 bytes; `Gb` is 1e9 bits. Counts take `k`, `M`, `B` (1e9) and `T`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from meshwright.errors import InvalidInput, quoted

GIB = 2**30
MIB = 2**20
GIGA = 1e9
MOST_PRICE = 1e9
"""Of an accelerator-hour, in any currency: more is a slip, and what a training costs at it might be no number."""

_POWER = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12, "P": 15}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_BINARY_COUNT = {"K": 10, "M": 20, "B": 30}
_SECONDS = {"ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0}
_NUMBER = r"\s*([0-9][0-9_]{0,30}\.?[0-9]{0,30}(?:[eE][+-]?[0-9]{1,2})?)\s*"
_COUNT = _NUMBER + r"([kKMBGT]?)"


def is_price(value: object) -> bool:
    """Whether a value is the price of an accelerator-hour.

    >>> is_price(2.9), is_price(-1), is_price(1e300), is_price(True)
    (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_PRICE


def parse_bytes(text: str | int | float) -> float:
    """Bytes from a size such as `80GB`, `80 GiB` or a plain number of bytes.

    >>> parse_bytes("80GB")
    80000000000.0
    >>> parse_bytes("1GiB")
    1073741824.0
    """
    if (plain := _plain(text, "size")) is not None:
        return plain
    match = re.fullmatch(_NUMBER + r"([kKMGT]i?)?B(?:ytes)?", str(text).strip())
    if not match:
        raise InvalidInput(f"{quoted(text)} is not a size: write it as 80GB or 79.6GiB")
    return float(_scale(match[1], match[2] or ""))


def parse_bandwidth(text: str | int | float) -> float:
    """Bytes per second, one direction, from `50GB/s`, `400Gb/s` (bits), `400Gbps` or a plain number of bytes/s.

    >>> parse_bandwidth("400Gb/s")
    50000000000.0
    >>> parse_bandwidth("450GB/s")
    450000000000.0
    """
    if (plain := _plain(text, "bandwidth")) is not None:
        return plain
    match = re.fullmatch(_NUMBER + r"([kKMGT]i?)?(B|b|bit)(?:/s|ps)", str(text).strip())
    if not match:
        raise InvalidInput(f"{quoted(text)} is not a bandwidth: write it as 50GB/s or 400Gb/s")
    return float(_scale(match[1], match[2] or "") / (1 if match[3] == "B" else 8))


def parse_seconds(text: str | int | float) -> float:
    """Seconds from `5us`, `3.4 ms`, `1s` or a plain number of seconds.

    >>> parse_seconds("5us")
    5e-06
    """
    if (plain := _plain(text, "duration")) is not None:
        return plain
    match = re.fullmatch(_NUMBER + r"(ns|us|µs|ms|s)", str(text).strip())
    if not match:
        raise InvalidInput(f"{quoted(text)} is not a duration: write it as 5us, 2ms or 1s")
    return float(Decimal(match[1].replace("_", "")).scaleb(_SECONDS[match[2]]))


def parse_count(text: str | int) -> int:
    """A whole count from `256`, `4M` or `1.5T`.

    >>> parse_count("4M")
    4000000
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(_COUNT, str(text).strip())
    value = _scale(match[1], match[2]) if match else None
    if value is None or value != int(value):
        raise InvalidInput(f"{quoted(text)} is not a whole count: write it as 256, 4M or 15T")
    return int(value)


def count_in_powers_of_two(text: str) -> int | None:
    """The same count with prefixes that are powers of two; None where it has no prefix or would not be whole.

    >>> count_in_powers_of_two("1.5M")
    1572864
    """
    match = re.fullmatch(_COUNT, text.strip())
    if not match or match[2].upper() not in _BINARY_COUNT:
        return None
    value = _scale(match[1], "") * 2 ** _BINARY_COUNT[match[2].upper()]
    return int(value) if value == int(value) else None


def parse_length(text: str | int) -> int:
    """Tokens of a sequence, as `parse_count` reads them, but in powers of two, in which lengths are counted.

    >>> parse_length("8k"), parse_length("8000")
    (8192, 8000)
    """
    return (count_in_powers_of_two(text) if isinstance(text, str) else None) or parse_count(text)


def parse_share(text: str | float) -> float:
    """A share of one from `5%` or `0.05`.

    >>> parse_share("5%"), parse_share(0.05)
    (0.05, 0.05)
    """
    try:
        share = float(str(text).removesuffix("%")) / (100 if str(text).endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise InvalidInput(f"{quoted(text)} is not a share: write it as 10% or 0.1")
    return share


def format_count(value: float) -> str:
    """A count for people.

    >>> format_count(70553706496), format_count(38.7512), format_count(128)
    ('70.55B', '38.8', '128')
    """
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{suffix}"
    return f"{round(value, 1):g}" if abs(value) >= 10 else f"{value:.3g}"


def format_days(*days: float) -> str:
    """A time in days for people, or the range of two: in hours below two days.

    >>> format_days(26.25), format_days(0.2), format_days(21.8, 32.4), format_days(0.16, 0.24)
    ('26.2 days', '4.8 hours', '22 to 32 days', '3.8 to 5.8 hours')
    """
    factor, unit = (24.0, "hours") if max(days) < 2 else (1.0, "days")
    digits = 0 if len(days) > 1 and min(days) * factor >= 10 else 1
    return f"{' to '.join(f'{each * factor:,.{digits}f}' for each in days)} {unit}"


def format_gib(value: float) -> str:
    """Bytes as GiB for people.

    >>> format_gib(2**30)
    '1.0 GiB'
    """
    return f"{value / GIB:,.1f} GiB" if abs(value) >= 0.05 * GIB else f"{value / GIB:.3f} GiB"


def format_bytes(value: float) -> str:
    """Bytes for people, in the unit that suits them.

    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    return f"{value / MIB:,.1f} MiB" if value < GIB else format_gib(value)


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


def _plain(value: str | int | float, kind: str) -> float | None:
    """A bare number as a float; None for text."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(f"a {kind} of {str(value)[:12]}… is beyond every {kind} there is") from None


def _scale(number: str, prefix: str) -> Decimal:
    value = Decimal(number.replace("_", ""))
    return value * 2 ** _BINARY[prefix] if prefix in _BINARY else value.scaleb(_POWER[prefix])
