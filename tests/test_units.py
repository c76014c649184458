"""Units: what is read from text, what is written for people, and that both agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.errors import InvalidInput
from meshwright.units import (
    GIB,
    format_bandwidth,
    format_count,
    format_gib,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_seconds,
)

PARSERS: list[Callable[[str], float]] = [parse_bytes, parse_bandwidth, parse_seconds, parse_count]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80GB", 80e9), ("79.65 GiB", 79.65 * GIB), ("81559MiB", 81559 * 2**20), ("5", None), ("12B", 12.0), (7, 7.0)],
)
def test_sizes(text: str | int, expected: float | None) -> None:
    if expected is None:
        with pytest.raises(InvalidInput, match="not a size"):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("400Gb/s", 50e9), ("400Gbps", 50e9), ("400 Gbit/s", 50e9), ("450GB/s", 450e9), ("3.35TB/s", 3.35e12), (5e9, 5e9)],
)
def test_bandwidths_tell_bits_from_bytes(text: str | float, expected: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("text", "expected"), [("5us", 5e-6), ("5µs", 5e-6), ("2ms", 2e-3), ("1s", 1.0), (3, 3.0)])
def test_durations(text: str | int, expected: float) -> None:
    assert parse_seconds(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "expected"), [("256", 256), ("4M", 4_000_000), ("1.5T", 15 * 10**11), ("2B", 2 * 10**9)]
)
def test_counts(text: str, expected: int) -> None:
    assert parse_count(text) == expected


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize(
    "text", ["", "GB", "-5GB", "5 parsecs", "1..2s", "nan", "inf", "0x10", "1,000", "True", "５ＧＢ"]
)
def test_nonsense_is_refused_with_the_value_and_an_example(parser: Callable[[str], float], text: str) -> None:
    with pytest.raises(InvalidInput, match="write it as") as refused:
        parser(text)
    assert repr(text) in str(refused.value)


def test_a_truth_value_is_no_quantity() -> None:
    for parser in PARSERS:
        with pytest.raises(InvalidInput):
            parser(True)  # type: ignore[arg-type]


def test_half_a_token_is_no_count() -> None:
    with pytest.raises(InvalidInput, match="whole count"):
        parse_count("1.5")


@given(st.integers(min_value=1, max_value=10**18), st.sampled_from(["", "k", "M", "G", "T"]))
def test_a_bit_is_an_eighth_of_a_byte(value: int, prefix: str) -> None:
    assert parse_bandwidth(f"{value}{prefix}b/s") * 8 == pytest.approx(parse_bandwidth(f"{value}{prefix}B/s"))


@given(st.floats(min_value=1e6, max_value=1e15))
def test_a_written_bandwidth_reads_back(value: float) -> None:
    assert parse_bandwidth(format_bandwidth(value)) == pytest.approx(value, rel=1e-3)


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_a_written_duration_reads_back(value: float) -> None:
    assert parse_seconds(format_seconds(value)) == pytest.approx(value, rel=1e-2)


@given(st.floats(min_value=0.01, max_value=1e4))
def test_a_written_size_reads_back(gib: float) -> None:
    assert parse_bytes(format_gib(gib * GIB).replace(",", "")) == pytest.approx(gib * GIB, abs=0.051 * GIB)


@given(st.integers(min_value=1, max_value=999), st.sampled_from([1, 10**3, 10**6, 10**9, 10**12]))
def test_a_written_count_reads_back(value: int, scale: int) -> None:
    assert parse_count(format_count(value * scale)) == value * scale
