"""What is not UTF-8 is refused where it enters, by the name of its column and row: later on nobody could read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import evercurrent as ec
from evercurrent.views.connectors.text_bytes import require_utf8
from evercurrent.views.connectors.text_files import json_rows

BAD = pa.StringArray.from_buffers(
    3, pa.py_buffer(b"\x00\0\0\0\x01\0\0\0\x02\0\0\0\x04\0\0\0"), pa.py_buffer(b"ab\xff\xfe")
)
"""Two texts, and in row 2 bytes that are none."""

FRAMES = {
    "text": (pa.table({"x": BAD}), pl.String()),
    "list": (pa.table({"x": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), BAD)}), pl.List(pl.String())),
    "struct": (pa.table({"x": pa.StructArray.from_arrays([BAD], ["a"])}), pl.Struct({"a": pl.String()})),
    "category": (
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), BAD)}),
        pl.Categorical(),
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_bytes_that_are_no_text_change_nothing(kind: str) -> None:
    table, dtype = FRAMES[kind]
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"x": dtype}))
    with pytest.raises(
        ec.InputError, match=r"source 's': column 'x' holds bytes in row 2 that are not UTF-8 .*pl\.Binary"
    ):
        engine.push("s", table)
    assert view.epoch == 0
    engine.push("s", table.slice(0, 2))
    assert view.read().height == 2


def test_a_category_that_is_no_text_is_found_in_the_first_of_many_rows() -> None:
    indices = np.zeros(20_000, np.int32)
    indices[17_001] = indices[18_000] = 2
    column = pl.from_arrow(pa.DictionaryArray.from_arrays(pa.array(indices), BAD))
    assert isinstance(column, pl.Series)
    with pytest.raises(ec.InputError, match="column 'x' holds bytes in row 17001 that are not UTF-8"):
        require_utf8("source 's'", column.alias("x").to_frame())
    require_utf8("source 's'", column.alias("x").head(17_001).to_frame())


def test_all_other_text_passes() -> None:
    texts = pl.Series("x", ["", "é", "𝄞" * 20, "\x00", None, "\ufffd"])
    frame = pl.DataFrame(
        [texts, texts.implode().new_from_index(0, 6).alias("y"), texts.cast(pl.Categorical).alias("z")]
    )
    require_utf8("source 's'", frame)
    require_utf8("source 's'", frame.clear())
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", dict(frame.schema)))
    engine.push("s", frame)
    assert sorted(view.read()["x"].drop_nulls()) == sorted(texts.drop_nulls())


def test_what_stands_behind_a_null_does_not_matter() -> None:
    hidden = pa.StringArray.from_buffers(3, BAD.buffers()[1], BAD.buffers()[2], pa.py_buffer(b"\x03"))
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"x": pl.String}))
    engine.push("s", pa.table({"x": hidden}))
    assert sorted(view.read()["x"].drop_nulls()) == ["a", "b"]


@pytest.mark.parametrize("null", [[], [None]])
def test_texts_that_are_utf8_only_together_are_refused(null: list[None]) -> None:
    halves = _as_text(pl.Series("x", [b"a", *null, b"\xc3", b"\xa9"]))
    with pytest.raises(
        ec.InputError, match=f"column 'x' holds bytes in row {1 + len(null)} that are not UTF-8"
    ):
        require_utf8("source 's'", halves.to_frame())


@pytest.mark.parametrize(
    "text", [b"a%d", b"a text that is long %d", b"\xc3\xa9 with a long rest %d", b"%d \xff\xfe"]
)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("bad", [None, b"\xff", b"a text that is long\xe2\x82", b"\xed\xa0\x80"])
def test_slices_of_a_long_column_are_checked_by_themselves(
    text: bytes, nulls: bool, bad: bytes | None
) -> None:
    texts: list[bytes | None] = [None if nulls and row % 3 == 1 else text % row for row in range(6_000)]
    bads = {row for row, value in enumerate(texts) if value is not None and b"\xff" in value}
    if bad is not None:
        texts[4_100] = bad
        bads.add(4_100)
    # As Arrow holds them: in one buffer, in views with several, and those in another order.
    plain = pa.Array.from_buffers(
        pa.large_string(), len(texts), pa.array(texts, pa.large_binary()).buffers(), null_count=-1
    )
    as_views = [pa.array(texts[begin : begin + 1_500], pa.binary_view()) for begin in range(0, 6_000, 1_500)]
    views = pl.concat([pl.Series("x", part) for part in as_views], rechunk=True)
    order = np.random.default_rng(3).permutation(6_000)
    columns = [
        (pl.Series("x", plain), np.arange(6_000)),
        (_as_text(views), np.arange(6_000)),
        (_as_text(views[order]), order),
    ]
    for column, rows in columns:
        for begin, size in (
            (0, 6_000),
            (4_090, 20),
            (4_090, 40),
            (4_101, 1_899),
            (5_990, 10),
            (0, 4_100),
            (17, 0),
        ):
            part = column.slice(begin, size)
            if bads.isdisjoint(rows[begin : begin + size].tolist()):
                require_utf8("source 's'", part.to_frame())
            else:
                with pytest.raises(ec.InputError, match="not UTF-8"):
                    require_utf8("source 's'", part.to_frame())


def _as_text(column: pl.Series) -> pl.Series:
    """Return bytes as texts that nobody has checked."""
    held = column.to_arrow(compat_level=pl.CompatLevel.newest())
    return pl.Series(
        "x", pa.Array.from_buffers(pa.string_view(), len(held), held.buffers(), offset=held.offset)
    )


def test_lines_of_json_that_are_not_utf8_are_named() -> None:
    lines = b'{"x":"\xc3\xa9"}\n{"x":"b\xff"}\n{"x":"c"}\n'
    rows, fault = json_rows(lines, pl.Schema({"x": pl.String()}))
    assert rows.rows() == [("é",)]
    assert fault is not None
    assert fault.row == 1
    assert fault.message == "byte 7 of the line is not UTF-8 text; save the file as UTF-8"


def test_a_number_beyond_all_floats_is_named() -> None:
    _, fault = json_rows(b'{"x":1e999}\n', pl.Schema({"x": pl.Float64()}))
    assert fault is not None
    assert fault.message.startswith("column 'x': a number is greater than any Float64")


@pytest.mark.parametrize("since", ["1", 1.5, True])
def test_since_is_the_number_of_an_epoch(since: object) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"x": pl.Int64}))
    for call in (view.deltas, lambda given: view.subscribe(print, given)):
        with pytest.raises(ec.InputError, match=r"view 'v': since=.* give the number of an epoch"):
            call(since)


def test_a_sequence_is_named_by_columns() -> None:
    with pytest.raises(ec.PlanError, match=r"source 's': sequence_by=5; give the name of a column"):
        ec.Engine().source("s", {"x": pl.Int64}, kind="upsert", key="x", sequence_by=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_path_of_no_characters_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ec.CheckpointError, match="is not a character that a path can hold"):
        ec.Engine(checkpoint=f"{tmp_path}/{name}")
