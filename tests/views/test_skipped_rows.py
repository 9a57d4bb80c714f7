"""Rows of text that cannot be read are left out alone, however many there are, and with the reasons that an error would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evercurrent.views.connectors import skipped_rows
from evercurrent.views.connectors.csv_quotes import end_of_records, is_open, is_shown_stray, records
from evercurrent.views.connectors.file_columns import Reading
from evercurrent.views.connectors.files import Reader
from evercurrent.views.connectors.skipped_rows import csv_separated, json_separated
from evercurrent.views.connectors.text_files import csv_rows, json_rows

SCHEMA = pl.Schema({"shop": pl.String(), "price": pl.Int64(), "kind": pl.Enum(["new", "old"])})
LINES = [
    "north,1,new",
    "south,x,old",
    "east,3",
    "west,4,other",
    ",,",
    "a,5,old,",
    'so"uth,6,new',
    '"q",7,"old"',
    "",
]


@given(st.lists(st.sampled_from(LINES)), st.booleans())
def test_rows_of_csv_are_those_that_can_be_read_alone(lines: list[str], has_end: bool) -> None:
    block = ("\n".join(lines) + "\n" * has_end).encode()
    rows, refused = csv_separated(block, SCHEMA.names(), SCHEMA, ",")
    alone = [csv_rows(line.encode(), SCHEMA.names(), SCHEMA) for line in lines if line]
    good = [
        row
        for frame, fault in alone
        for row in frame.rows()
        if fault is None and row[2] in (None, "new", "old")
    ]
    assert rows.rows() == good
    assert len(good) + len(refused) == len(alone)
    for each in refused:
        fault = alone[each.row][1]
        assert fault is None or fault.message == each.message
        assert each.text.decode().rstrip("\n") == [line for line in lines if line][each.row]


JSON = [
    '{"shop":"a","price":1}',
    '{"price":"x"}',
    "[]",
    "{",
    "",
    '{"shop":"b"}',
    '{"kind":"other"}',
    '{"x":1}',
]


@given(st.lists(st.sampled_from(JSON)))
def test_rows_of_json_are_those_that_can_be_read_alone(lines: list[str]) -> None:
    block = "\n".join(lines).encode()
    rows, refused = json_separated(block, SCHEMA, ignores_others=False)
    there = [line for line in lines if line]
    bad = [at for at, line in enumerate(there) if line not in (JSON[0], JSON[5])]
    assert [each.row for each in refused] == bad
    assert rows.height == len(there) - len(bad)
    for each in refused:
        fault = json_rows(there[each.row].encode(), SCHEMA)[1]
        assert fault is None or fault.message == each.message


@given(st.text('a",\n', max_size=30))
@example('"unclosed,4\nwest,5\n"ok",7\n')
def test_records_are_all_bytes_of_a_block(text: str) -> None:
    block = text.encode()
    taken = b"".join(record for record, _ in records(block, ",", 1))
    assert taken == block
    end = end_of_records(block, ",")
    assert end == 0 or block[end - 1 : end] == b"\n"


def test_a_quote_within_a_value_opens_nothing() -> None:
    tail = b'5" tv,1\n'
    assert end_of_records(b"x,1\n" + tail + b"y,2\n", ",") == len(tail) + 8
    assert not is_open(tail, ",")
    assert end_of_records(b'x,1\n"y\nz', ",") == 4
    assert is_open(b'"y\nz', ",")


def test_many_rows_after_an_open_quote_show_that_it_is_stray() -> None:
    """In a file that is followed it is unknown whether the value goes on; a text of many lines has other separators."""
    assert is_shown_stray(b'"a,1\n' + b"b,2\n" * 16, ",", 2)
    assert not is_shown_stray(b'"a,1\n' + b"b,2\n" * 15, ",", 2)
    assert not is_shown_stray(b'"a,1\n' + b"once upon a time\n" * 99, ",", 2)
    assert not is_shown_stray(b'"a\n' + b"once upon a time\n" * 99, ",", 1)


def test_a_followed_file_goes_on_after_a_stray_quote(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('shop,price\nnorth,1\n"south,2\n')
    reading = Reading(skips=True, follows_replaced=True)
    schema = pl.Schema({"shop": pl.String(), "price": pl.Int64()})
    reader = Reader("sales", [path], schema, diffs=False, batch_rows=100, reading=reading)
    assert sum(batch.frame.height for batch in reader.batches(final=False)) == 1
    with path.open("a") as file:
        file.write("west,3\n" * 20)
    assert sum(batch.frame.height for batch in reader.batches(final=False)) == 20
    assert reader.refused["line"].to_list() == [2]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_bad_line_in_ten_costs_a_few_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Each of them was one more pass over the rest of its block."""
    parsed: list[int] = []
    for name in ("csv_table", "json_table"):
        parse = getattr(skipped_rows, name)

        def counted(block: bytes, *options: Any, parse: Any = parse) -> Any:
            parsed.append(len(block))
            return parse(block, *options)

        monkeypatch.setattr(skipped_rows, name, counted)

    def passes(share: int) -> float:
        path = tmp_path / f"{share}{suffix}"
        with path.open("w") as file:
            file.write("price\n" if suffix == ".csv" else "")
            for number in range(10_000):
                value = '"x"' if number % share == 0 else number
                file.write(f"{value}\n" if suffix == ".csv" else f'{{"price":{value}}}\n')
        parsed.clear()
        schema = pl.Schema({"price": pl.Int64()})
        reader = Reader("s", [path], schema, diffs=False, batch_rows=100_000, reading=Reading(skips=True))
        rows = sum(batch.frame.height for batch in reader.batches())
        assert rows + len(reader.refused) == 10_000
        return sum(parsed) / path.stat().st_size

    assert all(0 < passes(share) < 15 for share in (1000, 10))


def test_numbers_beyond_the_range_of_floats_are_refused_alone() -> None:
    schema = pl.Schema({"k": pl.Int64(), "x": pl.Float32()})
    numbers = ["1e38", "1e39", "-inf", "-1e39"]
    rows, refused = csv_separated("".join(f"0,{x}\n" for x in numbers).encode(), schema.names(), schema, ",")
    lines = [f'{{"k": 0, "x": {x}}}' for x in numbers]
    others, others_refused = json_separated(
        "\n".join(lines).replace("-inf", '"-Infinity"').encode(), schema, ignores_others=False
    )
    for frame, refusals in ((rows, refused), (others, others_refused)):
        assert frame["x"].equals(pl.Series("x", [1e38, float("-inf")], pl.Float32))
        assert [each.row for each in refusals] == [1, 3]
        assert all("is beyond the range of its type Float32; correct" in each.message for each in refusals)
