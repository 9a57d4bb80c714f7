"""Files as batches: every format gives the same rows, and what is torn or wrong is refused by name and row."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from evercurrent.core.data.columns.polars_versions import MAP
from evercurrent.core.data.errors import FileError
from evercurrent.views.connectors.delta_files import DeltaFile, write_contents
from evercurrent.views.connectors.file_columns import NULL_ARRAYS
from evercurrent.views.connectors.files import PATIENCE, Batch, Reader, files_of
from evercurrent.views.connectors.lines import BLOCK_BYTES
from evercurrent.views.connectors.text_files import Parsed, csv_rows

SCHEMA = pl.Schema({"k": pl.Int64(), "name": pl.String(), "at": pl.Datetime("us"), "x": pl.Float64()})

ROWS = pl.DataFrame(
    {
        "k": [1, 2, None, 4],
        "name": ["plain", 'comma, "quote"\nline', "", None],
        "at": [
            datetime(2011, 12, 9, 12, 50),
            datetime(2011, 12, 9, 12, 50, 0, 123456),
            None,
            datetime(2012, 1, 1),
        ],
        "x": [0.1, -1e300, None, 3.0],
    },
    schema=SCHEMA,
)

WRITERS = {
    ".csv": pl.DataFrame.write_csv,
    ".jsonl": pl.DataFrame.write_ndjson,
    ".ndjson": pl.DataFrame.write_ndjson,
    ".parquet": pl.DataFrame.write_parquet,
    ".arrow": pl.DataFrame.write_ipc,
    ".feather": pl.DataFrame.write_ipc,
    ".arrows": pl.DataFrame.write_ipc_stream,
}


def reader(*paths: Path, schema: pl.Schema = SCHEMA, diffs: bool = False, batch_rows: int = 1000) -> Reader:
    return Reader("things", paths, schema, diffs=diffs, batch_rows=batch_rows)


def read(*paths: Path, **options) -> pl.DataFrame:
    return pl.concat([batch.frame for batch in reader(*paths, **options).batches()])


def read_until_error(path: Path, **options) -> tuple[list[Batch], str]:
    """The batches before the error, and its message."""
    batches = []
    with pytest.raises(FileError) as error:
        batches.extend(reader(path, **options).batches())  # extend keeps what came before the error
    return batches, str(error.value)


def text(path: Path, content: str) -> Path:
    path.write_text(content, "utf-8", newline="")
    return path


def as_file(folder: Path, suffix: str, frame: pl.DataFrame, name: str = "part") -> Path:
    path = folder / f"{name}{suffix}"
    WRITERS[suffix](frame, path)
    return path


@pytest.mark.parametrize("suffix", WRITERS)
class TestEveryFormat:
    def test_gives_the_rows(self, tmp_path, suffix):
        assert read(as_file(tmp_path, suffix, ROWS)).equals(ROWS)

    def test_in_batches_of_the_requested_size_with_their_first_rows(self, tmp_path, suffix):
        rows = pl.select(k=pl.int_range(10_000)).with_columns(
            name=pl.lit("n"), at=pl.lit(datetime(2020, 1, 1)), x=pl.col("k") / 2
        )
        batches = list(reader(as_file(tmp_path, suffix, rows), batch_rows=3000).batches())
        assert [(batch.first_row, batch.frame.height) for batch in batches] == [
            (1, 3000),
            (3001, 3000),
            (6001, 3000),
            (9001, 1000),
        ]
        assert pl.concat([batch.frame for batch in batches]).equals(rows)

    def test_counts_its_bytes(self, tmp_path, suffix):
        found = reader(as_file(tmp_path, suffix, ROWS))
        assert found.done_bytes == 0
        assert len(list(found.batches())) == 1
        assert found.done_bytes == found.total_bytes > 0
        assert found.unfinished == []

    def test_takes_diffs_where_the_source_does(self, tmp_path, suffix):
        path = as_file(tmp_path, suffix, ROWS.with_columns(_diff=pl.Series([1, -1, 2, 1])))
        found = read(path, diffs=True)
        assert found.columns == [*SCHEMA, "_diff"]
        assert found["_diff"].to_list() == [1, -1, 2, 1]
        assert "_diff" in read_until_error(path)[1]

    def test_columns_come_in_the_declared_order(self, tmp_path, suffix):
        assert read(as_file(tmp_path, suffix, ROWS.select("x", "at", "name", "k"))).equals(ROWS)

    def test_a_column_too_many_is_refused(self, tmp_path, suffix):
        path = as_file(tmp_path, suffix, ROWS.with_columns(colour=pl.lit("red")))
        batches, message = read_until_error(path)
        assert batches == []
        assert str(path) in message
        assert "'colour'" in message


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".arrows"])
def test_a_missing_column_is_refused(tmp_path, suffix):
    path = as_file(tmp_path, suffix, ROWS.drop("at"))
    message = read_until_error(path)[1]
    assert str(path) in message
    assert "'at'" in message
    assert "'things'" in message


def test_an_absent_key_of_a_json_line_is_null_and_an_absent_diff_is_one(tmp_path):
    path = text(tmp_path / "a.jsonl", '{"k": 1}\n\n{"k": 2, "_diff": -1}\n')
    assert read(path, diffs=True).rows() == [(1, None, None, None, 1), (2, None, None, None, -1)]


class TestTypesOfText:
    SCHEMA = pl.Schema(
        {
            "flag": pl.Boolean(),
            "small": pl.UInt8(),
            "price": pl.Decimal(10, 2),
            "day": pl.Date(),
            "hour": pl.Time(),
            "zoned": pl.Datetime("ms", "UTC"),
            "kind": pl.Enum(["a", "b"]),
            "word": pl.Categorical(),
        }
    )
    ROW = (
        True,
        200,
        Decimal("1.25"),
        date(2020, 2, 29),
        time(8, 30, 0, 500),
        datetime(2020, 1, 1, 12, tzinfo=UTC),
        "b",
        "w",
    )

    def test_csv(self, tmp_path):
        path = text(
            tmp_path / "a.csv",
            ",".join(self.SCHEMA)
            + "\ntrue,200,1.25,2020-02-29,08:30:00.0005,2020-01-01T13:00:00+01:00,b,w\n",
        )
        assert read(path, schema=self.SCHEMA).rows() == [self.ROW]

    def test_json_lines(self, tmp_path):
        values = [True, 200, 1.25, "2020-02-29", "08:30:00.0005", "2020-01-01 12:00:00Z", "b", "w"]
        path = text(tmp_path / "a.jsonl", json.dumps(dict(zip(self.SCHEMA, values, strict=True))))
        assert read(path, schema=self.SCHEMA).rows() == [self.ROW]

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("flag", "maybe"),
            ("small", "300"),
            ("price", "1.255"),
            ("day", "29.2.2020"),
            ("hour", "noon"),
            ("zoned", "2020-01-01 12:00+1"),
            ("kind", "c"),
        ],
    )
    def test_a_value_that_is_none_names_row_column_and_value(self, tmp_path, column, value):
        schema = pl.Schema({"k": pl.Int64(), column: self.SCHEMA[column]})
        good = text(tmp_path / "a.csv", f"k,{column}\n1,\n2,{value}\n")
        batches, message = read_until_error(good, schema=schema)
        assert f"{good}: row 2: column {column!r}: {value!r}" in message
        assert [batch.frame.height for batch in batches] in ([1], [])

    def test_nested_values_of_json_lines(self, tmp_path):
        schema = pl.Schema(
            {"tags": pl.List(pl.String()), "who": pl.Struct({"id": pl.Int32(), "at": pl.Datetime("us")})}
        )
        path = text(
            tmp_path / "a.jsonl", '{"tags": ["x", null], "who": {"id": 1, "at": "2020-01-01 00:00:00"}}\n'
        )
        assert read(path, schema=schema).rows() == [(["x", None], {"id": 1, "at": datetime(2020, 1, 1)})]

    @pytest.mark.parametrize(
        ("name", "dtype"),
        [
            ("a.csv", pl.List(pl.Int64())),
            ("a.csv", pl.Duration("us")),
            ("a.jsonl", pl.Binary()),
            ("a.jsonl", pl.Float16()),
            ("a.jsonl", pl.Struct({"a": pl.Float16})),
            ("a.jsonl", pl.List(pl.Null)),
            *([] if MAP is None else [("a.jsonl", MAP(pl.String, pl.Int64))]),
        ],
    )
    def test_types_without_a_text_form_are_refused_at_once(self, tmp_path, name, dtype):
        path = text(tmp_path / name, "")
        with pytest.raises(FileError, match=r"column 'v'.*use Parquet"):
            reader(path, schema=pl.Schema({"v": dtype}))

    @pytest.mark.parametrize(
        ("name", "dtype"),
        [(name, dtype()) for name in ("a.csv", "a.jsonl") for dtype in (pl.Int128, pl.UInt128)]
        + [("a.jsonl", pl.List(pl.UInt128()))],
    )
    def test_integers_of_128_bits_are_refused_at_once(self, tmp_path, name, dtype):
        path = text(tmp_path / name, "")
        with pytest.raises(
            FileError, match=r"column 'v'.*declare it with Decimal\(38, 0\) in place of integers"
        ):
            reader(path, schema=pl.Schema({"v": dtype}))

    def test_a_column_of_nulls(self, tmp_path):
        schema = pl.Schema({"k": pl.Int64(), "v": pl.Null()})
        lines = text(tmp_path / "a.jsonl", '{"k": 1, "v": null}\n{"k": 2}\n')
        path = text(tmp_path / "a.csv", "k,v\n1,\n2,\n")
        for each in (lines, path):
            assert read(each, schema=schema).equals(pl.DataFrame({"k": [1, 2], "v": [None, None]}, schema))
        batches, message = read_until_error(text(path, "k,v\n1,\n2,x\n"), schema=schema)
        assert [batch.frame.height for batch in batches] == [1]
        assert f"{path}: row 2: column 'v': 'x' is not of type Null; correct" in message

    def test_a_plus_before_a_diff(self, tmp_path):
        path = text(tmp_path / "a.csv", "k,_diff\n1,+1\n1,-1\n")
        assert read(path, schema=pl.Schema({"k": pl.Int64()}), diffs=True)["_diff"].to_list() == [1, -1]

    @pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
    @pytest.mark.parametrize(
        ("dtype", "number"), [(pl.Float32(), "1e39"), (pl.Float32(), "-3.5e38"), (pl.Float64(), "1e400")]
    )
    def test_a_number_beyond_the_range_of_floats(self, tmp_path, suffix, dtype, number):
        schema = pl.Schema({"k": pl.Int64(), "v": dtype})
        infinite = ["inf", "-Infinity", "nan"] if suffix == ".csv" else ['"Infinity"', "-Infinity", '"NaN"']
        lines = [
            f"0,{each}" if suffix == ".csv" else f'{{"k": 0, "v": {each}}}'
            for each in (*infinite, "1e38", number)
        ]
        path = text(tmp_path / f"a{suffix}", "k,v\n" * (suffix == ".csv") + "\n".join(lines) + "\n")
        batches, message = read_until_error(path, schema=schema)
        assert [batch.frame.height for batch in batches] == [4]
        assert f"{path}: row 5: column 'v': " in message
        assert f"{number} is beyond" in message.replace("'", "") or "greater than any Float64" in message

    def test_a_number_beyond_the_range_of_floats_inside_of_others(self, tmp_path):
        schema = pl.Schema({"v": pl.List(pl.Struct({"a": pl.Float32(), "on": pl.Datetime("us")}))})
        path = text(
            tmp_path / "a.jsonl",
            '{"v": [{"a": "Infinity"}]}\n\n{"v": [null, {"a": 1, "on": "2026-01-01 00:00:00"}, {"a": 7e38}]}\n',
        )
        batches, message = read_until_error(path, schema=schema)
        assert [batch.frame.height for batch in batches] == [1]
        assert f"{path}: row 2: column 'v': 7e38 is beyond the range of its type List" in message

    def test_a_byte_order_mark_and_windows_lines(self, tmp_path):
        path = text(tmp_path / "a.csv", "\ufeffk\r\n1\r\n2\r\n")
        assert read(path, schema=pl.Schema({"k": pl.Int64()}))["k"].to_list() == [1, 2]

    def test_an_empty_line_of_one_column_is_a_null(self, tmp_path):
        path = text(tmp_path / "a.csv", "k\n1\n\n3\n")
        assert read(path, schema=pl.Schema({"k": pl.Int64()}))["k"].to_list() == [1, None, 3]


class TestTornText:
    def test_csv_line_with_too_few_fields(self, tmp_path):
        path = text(tmp_path / "a.csv", "k,name,at,x\n1,a,,\n2,b,,\n3,c")
        batches, message = read_until_error(path)
        assert [batch.frame["k"].to_list() for batch in batches] == [[1, 2]]
        assert f"{path}: row 3: 2 of 4 fields (3,c)" in message

    def test_csv_line_with_too_many_fields_after_a_quoted_newline(self, tmp_path):
        path = text(tmp_path / "a.csv", 'k,name,at,x\n1,"a\nb",,\n2,b,,,,\n3,c,,\n')
        batches, message = read_until_error(path)
        assert [batch.frame.height for batch in batches] == [1]
        assert "row 2: 6 of 4 fields" in message

    def test_csv_cut_inside_of_quotes(self, tmp_path):
        path = text(tmp_path / "a.csv", 'k,name\n1,a\n2,"b\n')
        batches, message = read_until_error(path, schema=pl.Schema({"k": pl.Int64(), "name": pl.String()}))
        assert [batch.frame.height for batch in batches] == [1]
        assert "starts at byte 11" in message

    def test_the_earliest_of_several_faults_is_named(self, tmp_path):
        path = text(tmp_path / "a.csv", "k,name,at,x\n1,a,,\n2,b,,later\n3,c,never,\nfour,d,,\n5,e\n")
        assert "row 2: column 'x': 'later'" in read_until_error(path)[1]

    def test_csv_that_is_not_utf8(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_bytes(b"k,name\n1,a\n2,caf\xe9\n3,c\n")
        batches, message = read_until_error(path, schema=pl.Schema({"k": pl.Int64(), "name": pl.String()}))
        assert [batch.frame.height for batch in batches] == [1]
        assert "row 2" in message
        assert "UTF-8" in message

    def test_an_empty_csv_file_has_no_header(self, tmp_path):
        assert "empty" in read_until_error(text(tmp_path / "a.csv", ""))[1]

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ('{"k": 3, "name": "to', "not complete JSON"),
            ("[1, 2]", "not a JSON object"),
            ('{"k": 3, "colour": "red"}', "key 'colour' is not a column"),
            ('{"k": "three"}', "column 'k': \"three\" is not of type Int64"),
            ('{"k": 3.5}', "column 'k': 3.5 is not of type Int64"),
            ('{"at": "yesterday"}', "column 'at': 'yesterday' is not of type Datetime"),
            ('{"k": 1, "k": 2}', "a key appears twice"),
        ],
    )
    def test_json_line(self, tmp_path, line, words):
        path = text(tmp_path / "a.jsonl", '{"k": 1}\n{"k": 2}\n' + line + '\n{"k": 4}\n')
        batches, message = read_until_error(path)
        assert [batch.frame["k"].to_list() for batch in batches] == [[1, 2]]
        assert f"{path}: row 3: " in message
        assert words in message

    @pytest.mark.parametrize("bad", [0, 1, 77_776, 99_999])
    def test_row_numbers_hold_across_blocks(self, tmp_path, bad):
        """The file is longer than a block; full batches before the torn line are handed out."""
        lines = [f'{{"k": {i}, "name": "{"n" * 60}"}}' for i in range(100_000)]
        lines[bad] = lines[bad][:-3]
        path = text(tmp_path / "a.jsonl", "\n".join(lines))
        assert path.stat().st_size > BLOCK_BYTES
        batches, message = read_until_error(path, batch_rows=7000)
        assert f"row {bad + 1}:" in message
        assert sum(batch.frame.height for batch in batches) == bad


CATEGORIES = pl.Enum(["a", "b"])


def has_null_arrays_that_are_not_read(path: Path) -> bool:
    """Whether this pyarrow does not read a Parquet file because an array is null: the error then names the way out."""
    try:
        if path.suffix == ".parquet":
            pq.read_table(path)
    except pa.ArrowInvalid as error:
        reason = str(error)
    else:
        return False
    batches, message = read_until_error(path, schema=pl.Schema(pl.read_parquet_schema(path)))
    assert reason.startswith(NULL_ARRAYS)
    assert batches == []
    assert f"an array is null, which pyarrow {pa.__version__} does not read from Parquet" in message
    return True


class TestTypesOfFiles:
    @pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".parquet"])
    @pytest.mark.parametrize(
        ("dtype", "values"),
        [
            (pl.List(pl.Categorical()), [["a"], None, ["b", None], []]),
            (pl.List(CATEGORIES), [["a"], None, ["b", None], []]),
            (pl.Struct({"x": pl.Categorical()}), [{"x": "a"}, None, {"x": None}, {"x": "b"}]),
            (pl.Array(pl.Categorical(), 1), [["a"], None, ["b"], [None]]),
            (CATEGORIES, ["a", None, "b", "a"]),
        ],
    )
    def test_categories_inside_of_others(self, tmp_path, suffix, dtype, values):
        column = pl.Series("v", values, dtype)
        path = as_file(tmp_path, suffix, column.to_frame())
        if has_null_arrays_that_are_not_read(path):
            return
        assert read(path, schema=pl.Schema({"v": dtype}), batch_rows=3)["v"].equals(column, null_equal=True)

    @pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".parquet"])
    @pytest.mark.parametrize("dtype", [pl.Int128(), pl.UInt128(), pl.List(pl.Int128())])
    def test_integers_of_128_bits_are_named(self, tmp_path, suffix, dtype):
        path = as_file(tmp_path, suffix, pl.DataFrame({"k": [1], "v": pl.Series([None], dtype=dtype)}))
        batches, message = read_until_error(path, schema=pl.Schema({"k": pl.Int64(), "v": dtype}))
        assert batches == []
        assert message == (
            f"{path}: column 'v' is {dtype}, and integers of 128 bits are not read from files; cast it to Int64 or "
            "Decimal(38, 0) in the file, or push the rows"
        )

    def test_a_type_that_is_not_read_at_all(self, tmp_path, monkeypatch):
        path = as_file(tmp_path, ".parquet", pl.DataFrame({"v": [1]}))

        def fail(*_: object) -> None:
            raise pa.ArrowNotImplementedError("no such type")

        monkeypatch.setattr("evercurrent.views.connectors.files.check_schema", fail)
        _, message = read_until_error(path, schema=pl.Schema({"v": pl.Int64()}))
        assert (
            message
            == f"{path}: the file has what is not read (no such type); write it with other types or another compression"
        )


class TestArrays:
    @pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".parquet"])
    def test_some_of_which_are_null_in_more_than_one_batch(self, tmp_path, suffix):
        values = pl.Series("v", [[1, 2], None, [3, None]] * 10, dtype=pl.Array(pl.Int32, 2))
        path = as_file(tmp_path, suffix, values.to_frame())
        if has_null_arrays_that_are_not_read(path):
            return
        found = read(path, schema=pl.Schema({"v": values.dtype}), batch_rows=4)
        assert found["v"].equals(values, null_equal=True)


class TestTornBinary:
    @pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
    @pytest.mark.parametrize("kept", [0, 3, 0.5, 0.99])
    def test_cut_files_give_nothing(self, tmp_path, suffix, kept):
        path = as_file(tmp_path, suffix, ROWS)
        data = path.read_bytes()
        path.write_bytes(data[: int(kept if kept >= 1 else kept * len(data))])
        batches, message = read_until_error(path)
        assert batches == []
        assert f"{path}: row 1: the file is incomplete or damaged" in message

    def test_a_cut_stream_gives_what_is_whole(self, tmp_path):
        path = as_file(tmp_path, ".arrows", pl.concat([ROWS] * 3, rechunk=False))
        data = path.read_bytes()
        path.write_bytes(data[: int(0.8 * len(data))])
        batches, message = read_until_error(path, batch_rows=4)
        read = sum(batch.frame.height for batch in batches)
        assert f"{path}: row {read + 1}:" in message

    def test_a_damaged_page_of_parquet(self, tmp_path):
        path = tmp_path / "a.parquet"
        rows = pl.select(k=pl.int_range(50_000).shuffle(seed=1))
        rows.write_parquet(path, row_group_size=10_000, compression="zstd")
        data = bytearray(path.read_bytes())
        middle = int(len(data) * 0.7)
        data[middle : middle + 20_000] = b"\xff" * 20_000
        path.write_bytes(data)
        batches, message = read_until_error(path, schema=pl.Schema({"k": pl.Int64()}), batch_rows=10_000)
        read = sum(batch.frame.height for batch in batches)
        assert 0 < read < 50_000
        assert f"{path}: row {read + 1}: the file is incomplete or damaged" in message


class TestCasts:
    @pytest.mark.parametrize(
        ("values", "declared"),
        [
            (pl.Series([1, None], dtype=pl.Int32), pl.Int64()),
            (pl.Series([1, 2], dtype=pl.Int64), pl.UInt8()),
            (pl.Series([1.5], dtype=pl.Float32), pl.Float64()),
            (pl.Series([17850.0, None], dtype=pl.Float64), pl.Int64()),
            (pl.Series([datetime(2020, 1, 1)], dtype=pl.Datetime("ns")), pl.Datetime("us")),
            (pl.Series([date(2020, 1, 1)]), pl.Datetime("us")),
            (pl.Series(["a", "b"], dtype=pl.Categorical), pl.String()),
            (pl.Series(["a", "b"]), pl.Enum(["a", "b"])),
            (pl.Series([None, None], dtype=pl.Null), pl.Datetime("us")),
            (pl.Series([[1], []], dtype=pl.List(pl.Int32)), pl.List(pl.Int64())),
        ],
    )
    def test_without_loss(self, tmp_path, values, declared):
        path = as_file(tmp_path, ".parquet", values.alias("v").to_frame())
        found = read(path, schema=pl.Schema({"v": declared}))["v"]
        assert found.dtype == declared
        assert found.cast(values.dtype).to_list() == values.to_list()

    @pytest.mark.parametrize(
        ("values", "declared"),
        [
            (pl.Series([1, 2**40]), pl.Int32()),
            (pl.Series([1.0, 2.5]), pl.Int64()),
            (pl.Series([1, 2**53 + 1]), pl.Float64()),
            (pl.Series([0.5, 0.1]), pl.Float32()),
            (pl.Series([0, 1], dtype=pl.Datetime("ns")), pl.Datetime("us")),
            (pl.Series(["a", "z"]), pl.Enum(["a", "b"])),
        ],
    )
    def test_with_loss_names_the_row(self, tmp_path, values, declared):
        path = as_file(tmp_path, ".parquet", values.alias("v").to_frame())
        batches, message = read_until_error(path, schema=pl.Schema({"v": declared}))
        assert batches == []
        assert f"{path}: row 2: column 'v'" in message

    @pytest.mark.parametrize(
        ("values", "declared"),
        [
            (pl.Series(["1"]), pl.Int64()),
            (pl.Series([1]), pl.String()),
            (pl.Series([1]), pl.Datetime("us")),
            (pl.Series([True]), pl.Int64()),
            (pl.Series([datetime(2020, 1, 1)]), pl.Datetime("us", "UTC")),
        ],
    )
    def test_of_another_kind_are_refused(self, tmp_path, values, declared):
        path = as_file(tmp_path, ".parquet", values.alias("v").to_frame())
        message = read_until_error(path, schema=pl.Schema({"v": declared}))[1]
        assert f"{path}: column 'v' is " in message
        assert "cast it in the file" in message

    def test_a_diff_that_is_empty(self, tmp_path):
        path = as_file(tmp_path, ".parquet", ROWS.with_columns(_diff=pl.Series([1, None, 1, 1])))
        assert "row 2: column '_diff' is empty" in read_until_error(path, diffs=True)[1]


class TestFolders:
    def test_files_in_the_order_of_names_whatever_their_format(self, tmp_path):
        schema = pl.Schema({"k": pl.Int64()})
        for number, suffix in enumerate(WRITERS):
            as_file(tmp_path, suffix, pl.DataFrame({"k": [number]}), name=f"part{number}")
        (tmp_path / "_SUCCESS").touch()
        for name in (".hidden.csv", "part9.csv.tmp", "part9.parquet.part"):
            (tmp_path / name).touch()
        assert read(tmp_path, schema=schema)["k"].to_list() == list(range(len(WRITERS)))

    def test_a_batch_is_of_one_file(self, tmp_path):
        for name in ("b", "a"):
            as_file(tmp_path, ".csv", ROWS, name=name)
        batches = list(reader(tmp_path, batch_rows=3).batches())
        assert [(batch.file.name, batch.first_row) for batch in batches] == [
            ("a.csv", 1),
            ("a.csv", 4),
            ("b.csv", 1),
            ("b.csv", 4),
        ]

    def test_what_cannot_be_read_is_named(self, tmp_path):
        with pytest.raises(FileError, match="no such file"):
            files_of(tmp_path / "gone.csv")
        (tmp_path / "notes.md").touch()
        with pytest.raises(FileError, match=r"notes\.md.*suffix"):
            files_of(tmp_path)
        (tmp_path / "inner").mkdir()
        with pytest.raises(FileError, match=r"inner.*folder"):
            files_of(tmp_path)


class TestGrowing:
    SCHEMA = pl.Schema({"k": pl.Int64()})

    def more(self, found: Reader, *, final: bool = False) -> list[int]:
        return [k for batch in found.batches(final=final) for k in batch.frame["k"]]

    def test_appended_lines_are_read_when_they_are_complete(self, tmp_path):
        path = text(tmp_path / "a.csv", "k\n1\n2")
        found = reader(path, schema=self.SCHEMA)
        assert self.more(found) == [1]
        assert found.unfinished == [path]
        with path.open("a") as file:
            file.write("3\n4\n")
        assert self.more(found) == [23, 4]
        assert self.more(found) == []
        assert found.unfinished == []

    def test_a_header_that_is_not_complete(self, tmp_path):
        path = text(tmp_path / "a.csv", "")
        found = reader(path, schema=self.SCHEMA)
        assert self.more(found) == []
        text(path, "k")
        assert self.more(found) == []
        text(path, "k\n7\n")
        assert self.more(found) == [7]

    def test_json_lines_and_new_files(self, tmp_path):
        found = reader(tmp_path, schema=self.SCHEMA)
        assert self.more(found) == []
        text(tmp_path / "b.jsonl", '{"k": 1}\n{"k":')
        as_file(tmp_path, ".parquet", pl.DataFrame({"k": [2]}), name="c")
        assert self.more(found) == [1, 2]
        text(tmp_path / "a.csv", "k\n3\n")
        assert self.more(found) == [3]
        assert self.more(found) == []

    def test_row_numbers_go_on(self, tmp_path):
        path = text(tmp_path / "a.csv", "k\n1\n")
        found = reader(path, schema=self.SCHEMA)
        self.more(found)
        with path.open("a") as file:
            file.write("2\nthree\n")
        with pytest.raises(FileError, match="row 3"):
            self.more(found)

    def test_lines_that_were_read_may_not_go(self, tmp_path):
        path = text(tmp_path / "a.csv", "k\n1\n2\n")
        found = reader(path, schema=self.SCHEMA)
        self.more(found)
        text(path, "k\n1\n")
        with pytest.raises(FileError, match="shorter"):
            self.more(found)

    def test_files_that_go(self, tmp_path):
        first, second = text(tmp_path / "a.csv", "k\n1\n"), text(tmp_path / "b.csv", "k\n2\n")
        found = reader(tmp_path, schema=self.SCHEMA)
        batches = found.batches(final=False)
        assert next(batches).file == first
        first.unlink()
        second.unlink()
        with pytest.raises(FileError, match=r"b\.csv: row 1: the file was removed"):
            next(batches)
        text(second, "k\n2\n")
        assert self.more(found) == [2]
        second.unlink()
        assert self.more(found) == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, tmp_path):
        path = text(tmp_path / "a.csv", "k\n1\n")
        path.chmod(0)
        with pytest.raises(FileError, match=r"a\.csv: cannot be opened"):
            self.more(reader(path, schema=self.SCHEMA))

    def test_a_parquet_file_that_is_being_written(self, tmp_path):
        path = as_file(tmp_path, ".parquet", pl.DataFrame({"k": [1]}))
        data = path.read_bytes()
        path.write_bytes(data[:50])
        found = reader(path, schema=self.SCHEMA)
        assert self.more(found) == []
        assert found.unfinished == [path]
        path.write_bytes(data)
        assert self.more(found) == [1]
        assert self.more(found) == []
        as_file(tmp_path, ".parquet", pl.DataFrame({"k": [1, 2, 3]}))
        with pytest.raises(FileError, match="changed after"):
            self.more(found)

    def test_a_parquet_file_that_stays_torn(self, tmp_path):
        path = tmp_path / "a.parquet"
        path.write_bytes(b"PAR1 and no more")
        found = reader(path, schema=self.SCHEMA)
        for _ in range(PATIENCE):
            assert self.more(found) == []
        with pytest.raises(FileError, match="incomplete"):
            self.more(found)


def test_a_large_file_is_not_read_at_once(tmp_path, monkeypatch):
    """One block of many is parsed for the first batch, and no other before the rows of that one are used up."""
    path = tmp_path / "a.csv"
    pl.select(k=pl.int_range(3_000_000)).write_csv(path)
    parsed: list[int] = []

    def counted(block: bytes, names: Sequence[str], schema: pl.Schema, separator: str) -> Parsed:
        parsed.append(len(block))
        return csv_rows(block, names, schema)

    monkeypatch.setattr("evercurrent.views.connectors.line_files.csv_rows", counted)
    found = reader(path, schema=pl.Schema({"k": pl.Int64()}), batch_rows=1000)
    batches = found.batches()
    assert next(batches).frame.height == 1000
    assert found.total_bytes > 4 * BLOCK_BYTES
    assert len(parsed) == 1
    assert found.done_bytes < 10_000
    assert sum(batch.frame.height for batch in batches) == 2_999_000
    assert max(parsed) <= BLOCK_BYTES + 100
    assert found.done_bytes == found.total_bytes


class TestDeltaFiles:
    SCHEMA = pl.Schema({"k": pl.Int64(), "_epoch": pl.UInt64(), "_diff": pl.Int64()})

    @pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
    def test_come_back(self, tmp_path, suffix, monkeypatch):
        monkeypatch.setattr("evercurrent.views.connectors.delta_files.ROW_GROUP", 3)
        path = tmp_path / "new" / f"deltas{suffix}"
        deltas = [
            pl.DataFrame({"k": [epoch, None], "_epoch": [epoch] * 2, "_diff": [1, -1]}, schema=self.SCHEMA)
            for epoch in range(1, 6)
        ]
        with DeltaFile(path, self.SCHEMA) as file:
            for delta in deltas:
                file.write(delta)
        found = pl.read_parquet(path) if suffix == ".parquet" else pl.read_ndjson(path, schema=self.SCHEMA)
        assert found.equals(pl.concat(deltas))
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_parquet_gets_its_name_when_it_is_complete(self, tmp_path):
        file = DeltaFile(tmp_path / "d.parquet", self.SCHEMA)
        assert not (tmp_path / "d.parquet").exists()
        file.close()
        file.close()
        assert pl.read_parquet(tmp_path / "d.parquet").schema == self.SCHEMA

    def test_json_lines_are_complete_after_each_epoch(self, tmp_path):
        file = DeltaFile(tmp_path / "d.jsonl", self.SCHEMA)
        file.write(pl.DataFrame({"k": [1], "_epoch": [1], "_diff": [1]}, schema=self.SCHEMA))
        assert json.loads((tmp_path / "d.jsonl").read_text()) == {"k": 1, "_epoch": 1, "_diff": 1}
        file.close()

    def test_what_cannot_be_written_is_refused(self, tmp_path):
        with pytest.raises(FileError, match="rename"):
            DeltaFile(tmp_path / "d.txt", self.SCHEMA)
        with pytest.raises(FileError, match=r"'b' is Binary.*parquet"):
            DeltaFile(tmp_path / "d.jsonl", pl.Schema({"b": pl.Binary()}))
        with pytest.raises(FileError, match=r"'l' is List.*CSV.*parquet"):
            DeltaFile(tmp_path / "d.csv", pl.Schema({"l": pl.List(pl.Int64)}))
        (tmp_path / "taken").touch()
        with pytest.raises(FileError, match="another path"):
            DeltaFile(tmp_path / "taken" / "d.jsonl", self.SCHEMA)

    def test_contents(self, tmp_path):
        path = write_contents(tmp_path / "out", "view", ROWS)
        assert path == tmp_path / "out" / "view.parquet"
        assert pl.read_parquet(path).equals(ROWS)


def test_how_much_was_read_of_many_files_is_known_without_looking_at_all_of_them_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = 200
    for number in range(files):
        (tmp_path / f"{number:03d}.csv").write_text("x\n1\n")
    looks = 0
    plain = Path.stat

    def counted(path: Path, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        return plain(path, **options)

    monkeypatch.setattr(Path, "stat", counted)
    reader = Reader("a", [tmp_path], pl.Schema({"x": pl.Int64()}), diffs=False, batch_rows=10)
    shares = [reader.done_bytes / reader.total_bytes for _ in reader.batches()]
    assert shares == pytest.approx([(number + 1) / files for number in range(files)])
    assert looks < 20 * files
