"""Tables: any file of the schema is read, nothing in it is lost, and what is no such file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.errors import InvalidInput, NotModelled
from meshwright.validation.rows.table import CHOICES, COLUMNS, COUNTS, FIGURES, figure, normalised, read_rows
from tables import llama, shipped, written


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path / "runs.csv", shipped()[:50])) == list(shipped()[:50])


def test_a_byte_order_mark_and_spaces_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\ufeffid, model ,notes\n a , b ,good\n", "utf-8")
    (row,) = read_rows(path)
    assert set(row) == set(COLUMNS)
    assert (row["id"], row["model"], row["tp"]) == ("a", "b", "")


def test_rows_without_an_id_or_a_dataset_are_named_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("id,model\n,a\n,b\nshort\n", "utf-8")
    assert [(row["dataset"], row["id"]) for row in read_rows(path)] == [
        ("mine", "row 1"),
        ("mine", "row 2"),
        ("mine", "short"),
    ]


def test_a_table_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(written(tmp_path / "runs.csv", [])) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "none of the columns"),
        (b"a,b\n1,2\n", "none of the columns"),
        (b"id;model\n1;2\n", "semicolons between its columns; write commas"),
        (b"id\tmodel\n1\t2\n", "tabs between its columns; write commas"),
        (b"\xff\xfe\x00\x01", "not UTF-8 text"),
        (b'id,model\n"a"b,c\n', "is not a CSV file"),
        (b"id,model\na,b,c\n", "line 2: there are more values than columns"),
        (b"id,tp,tp\na,1,2\n", "more than once: tp"),
        (b"id,global_batch\na,1\n", "not known: unknown column 'global_batch'; nearest: global_batch_size"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=told):
        read_rows(path)


@pytest.mark.parametrize("name", ["missing.csv", ".", "nul\0.csv"])
def test_a_path_without_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"no table of runs|cannot read the table of runs"):
        read_rows(tmp_path / name)


@pytest.mark.parametrize("text", ["abc", "-1", "1e400", "nan", "inf", "1e10", "2.5", "0"])
def test_junk_in_a_count_is_refused_by_name(text: str) -> None:
    with pytest.raises(NotModelled, match=f"hidden is '{text}'; it must be a whole number from 1 to"):
        normalised(llama(hidden=text))


@pytest.mark.parametrize("text", ["abc", "-1", "1e400", "nan", "1e16", "1e-10"])
def test_junk_in_a_figure_is_refused_by_name(text: str) -> None:
    told = rf"memory_gib is '{text}'; it must be a number from \S+ to \S+, or 0 or blank where it is not known"
    with pytest.raises(NotModelled, match=told):
        normalised(llama(memory_gib=text))


@pytest.mark.parametrize("column", FIGURES)
def test_a_figure_of_0_is_not_known(column: str) -> None:
    assert normalised(llama(**{column: "0"})) == normalised(llama(**{column: ""}))


@pytest.mark.parametrize("column", ["sp", "compiled", "fits"])
def test_yes_and_no_may_be_written_in_several_ways_but_not_in_any(column: str) -> None:
    assert len({normalised(llama(**{column: text}))[column] for text in ("Yes", "TRUE", "1")}) == 1
    assert normalised(llama(**{column: "no"})) == normalised(llama(**{column: "False"}))
    with pytest.raises(NotModelled, match=f"{column} is 'perhaps'"):
        normalised(llama(**{column: "perhaps"}))


@pytest.mark.parametrize("column", CHOICES)
def test_a_word_that_a_column_does_not_take_is_refused_with_those_that_it_takes(column: str) -> None:
    with pytest.raises(NotModelled, match=f"{column} is 'warp'; it must be one of {', '.join(CHOICES[column])}"):
        normalised(llama(**{column: "warp"}))


def test_memory_is_of_a_kind_that_is_named() -> None:
    kinds = ("max_memory_allocated", "max_memory_reserved", "nvidia-smi", "Device")
    assert [normalised(llama(memory_kind=kind))["memory_kind"] for kind in kinds] == [
        *("allocated", "reserved", "device", "device")
    ]
    with pytest.raises(NotModelled, match="memory_gib needs a memory_kind"):
        normalised(llama(memory_kind=""))


def test_numbers_may_have_commas_and_decimals_of_zero() -> None:
    row = normalised(llama(hidden="4,096", tp="2.0", step_time_s="1,000.5"))
    assert (row["hidden"], row["tp"], row["step_time_s"]) == ("4096", "2", "1000.5")
    assert figure("１2") == 12


@pytest.mark.parametrize("text", ["4,3", "1,0245", "12,34,567"])
def test_a_comma_before_decimals_is_refused_instead_of_dropped(text: str) -> None:
    with pytest.raises(NotModelled, match=f"step_time_s is '{text}'; .*with a point before its decimals"):
        normalised(llama(step_time_s=text))


def test_no_experts_are_none() -> None:
    assert normalised(llama(moe_experts="0", moe_topk="0", moe_ffn="0")) == normalised(llama())


def test_every_shipped_value_is_readable() -> None:
    assert shipped()
    for row in shipped():
        done = normalised(row)
        assert all(figure(done[column]) == figure(row[column]) for column in (*COUNTS, *FIGURES))
