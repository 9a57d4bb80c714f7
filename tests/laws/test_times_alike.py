"""Law: a text, a time with a zone and one without mean the same in every kind of row, as a watermark and as ``at=``."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.columns.time_texts import times_of_texts
from evercurrent.views.connectors.text_files import csv_rows, json_rows

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 1, 31, 12)
TEN = datetime(2026, 1, 31, 10, tzinfo=UTC)
ELEVEN = datetime(2026, 1, 31, 11, tzinfo=UTC)

# Each way to write a time beside each type of column: the instant that it means, zoneless columns being read as UTC.
# None: the value does not show which instant is meant.
MEANINGS: dict[tuple[str, str | None], datetime | None] = {
    ("text", None): NOON.replace(tzinfo=UTC),
    ("text", "UTC"): NOON.replace(tzinfo=UTC),
    ("text", "Europe/Berlin"): ELEVEN,
    ("text with offset", None): TEN,
    ("text with offset", "UTC"): TEN,
    ("text with offset", "Europe/Berlin"): TEN,
    ("naive", None): NOON.replace(tzinfo=UTC),
    ("naive", "UTC"): None,
    ("naive", "Europe/Berlin"): None,
    ("aware", None): ELEVEN,
    ("aware", "UTC"): ELEVEN,
    ("aware", "Europe/Berlin"): ELEVEN,
    ("date", None): datetime(2026, 1, 31, tzinfo=UTC),
    ("date", "UTC"): None,
    ("date", "Europe/Berlin"): None,
}
VALUES: dict[str, Any] = {
    "text": "2026-01-31T12:00:00",
    "text with offset": "2026-01-31T12:00:00+02:00",
    "naive": NOON,
    "aware": NOON.replace(tzinfo=BERLIN),
    "date": NOON.date(),
}
INSTANTS = ("text with offset", "aware")
"""These name an instant by themselves: ``at=`` takes them, as it has no column, and a column without a zone has them in UTC."""

TYPED = ("polars", "pandas", "pandas of objects", "Arrow", "a column of Arrow")
"""Rows of a library that has types: a column of text is text there, and the remedy is its own cast."""

FORMS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda value: {"at": [value]},
    "rows": lambda value: [{"at": value}],
    "tuples": lambda value: [(value,)],
    "polars": lambda value: pl.DataFrame({"at": [value]}),
    "pandas": lambda value: pd.DataFrame({"at": [value]}),
    "pandas of objects": lambda value: pd.DataFrame({"at": pd.Series([value], dtype=object)}),
    "Arrow": lambda value: pa.table({"at": [value]}),
    "a column of Arrow": lambda value: {"at": pa.array([value])},
}


def engine_of(zone: str | None) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us", zone)}, event_time="at")
    return engine, engine.view("v", source)


def as_instant(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "zone"), MEANINGS)
def test_in_rows(kind: str, zone: str | None, form: str) -> None:
    engine, view = engine_of(zone)
    meaning = MEANINGS[kind, zone]
    is_text = form in TYPED and kind.startswith("text")
    if is_text or meaning is None:
        with pytest.raises(ec.InputError, match="'at'"):
            engine.push("s", FORMS[form](VALUES[kind]))
    else:
        engine.push("s", FORMS[form](VALUES[kind]))
        assert as_instant(view.read()["at"].item()) == meaning


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("kind", ["text", "text with offset"])
def test_in_lines_of_files(kind: str, zone: str | None) -> None:
    schema = pl.Schema({"at": pl.Datetime("us", zone)})
    read, fault = csv_rows(f"{VALUES[kind]}\n".encode(), ["at"], schema)
    others, other_fault = json_rows(json.dumps({"at": VALUES[kind]}).encode() + b"\n", schema)
    assert read.equals(others)
    assert fault is None
    assert other_fault is None
    assert as_instant(read["at"].item()) == MEANINGS[kind, zone]


@pytest.mark.parametrize(("kind", "zone"), MEANINGS)
def test_as_a_watermark(kind: str, zone: str | None) -> None:
    value, meaning = VALUES[kind], MEANINGS[kind, zone]
    moves: list[Callable[[ec.Engine], object]] = [
        lambda engine: engine.push("s", {"at": []}, watermark=value),
        lambda engine: engine.advance("s", value),
        lambda engine: engine.sources["s"].push({"at": []}, watermark=value),
    ]
    for move in moves:
        engine, _ = engine_of(zone)
        if meaning is None:
            with pytest.raises(ec.InputError, match="source 's'"):
                move(engine)
        else:
            move(engine)
            assert engine.watermarks["s"] == meaning


@pytest.mark.parametrize("kind", VALUES)
def test_as_processing_time(kind: str) -> None:
    """There is no column whose zone it could be in: only a time with a zone or an offset is an instant."""
    at = VALUES[kind]
    moves: list[Callable[[ec.Engine], object]] = [
        lambda engine: engine.push("s", {"at": []}, at=at),
        lambda engine: engine.advance("s", "2026-01-01", at=at),
        lambda engine: engine.tick(at=at),
    ]
    for move in moves:
        engine, _ = engine_of(None)
        if kind not in INSTANTS:
            with pytest.raises(ec.InputError, match="with its zone"):
                move(engine)
        else:
            move(engine)
            assert engine.stats()["processing_time"] == MEANINGS[kind, "UTC"]


@given(
    st.lists(
        st.tuples(
            st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
            st.sampled_from([None, *(timezone(timedelta(minutes=m)) for m in (-570, 0, 60, 345))]),
            st.sampled_from(["T", " "]),
        ),
        max_size=4,
    ),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
)
def test_a_text_is_read_by_itself(
    times: list[tuple[datetime, timezone | None, str]], zone: str | None
) -> None:
    """Whatever stands beside it: texts with and without an offset, fractions and spellings in one column."""
    texts = [moment.replace(tzinfo=offset).isoformat(sep) for moment, offset, sep in times]
    dtype = pl.Datetime("us", zone)
    read, bad = times_of_texts(pl.Series("at", texts, pl.String), dtype)
    alone = [times_of_texts(pl.Series("at", [text]), dtype) for text in texts]
    assert bad == next((row for row, (_, fault) in enumerate(alone) if fault is not None), None)
    assert read.head(bad if bad is not None else len(texts)).to_list() == [
        column.item() for column, _ in alone[:bad]
    ]
    for (moment, offset, _), (column, fault) in zip(times, alone, strict=True):
        if offset is not None or zone != "Europe/Berlin":
            assert fault is None
            assert as_instant(column.item()) == as_instant(moment.replace(tzinfo=offset))
        elif fault is None:
            assert as_instant(column.item()) == moment.replace(tzinfo=BERLIN).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("01/02/2026", pl.Datetime("us")),
        ("01/02/2026", pl.Date()),
        ("31.1.2026 12:00", pl.Datetime("us", "UTC")),
        ("2026-01-31T12:00:00.123456789", pl.Datetime("us")),
        ("2026-01-31T12:00:00.1234Z", pl.Datetime("ms", "UTC")),
        ("2026-01-31 12:00", pl.Date()),
        ("2026-02-30", pl.Datetime("us")),
        ("2026-10-25 02:30:00", pl.Datetime("us", "Europe/Berlin")),
        ("2026-03-29 02:30:00", pl.Datetime("us", "Europe/Berlin")),
        ("", pl.Datetime("us")),
    ],
)
@pytest.mark.parametrize("form", ["columns", "rows"])
def test_no_format_is_guessed_and_nothing_is_rounded(text: str, dtype: pl.DataType, form: str) -> None:
    engine = ec.Engine()
    engine.view("v", engine.source("s", {"at": dtype}))
    with pytest.raises(ec.InputError, match=r"column 'at' holds .* in row 0, .*declared type"):
        engine.push("s", FORMS[form](text))


def test_texts_and_times_in_one_column() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"at": pl.Datetime("ns"), "on": pl.Date}))
    finest = "2026-01-31T12:00:00.000000001"
    engine.push("s", {"at": [finest, NOON, None], "on": ["2026-01-31", date(2026, 2, 1), None]})
    held = view.read().sort("at", nulls_last=True)
    assert held["at"].diff().to_physical()[1] == 1
    assert held["on"].to_list() == [date(2026, 2, 1), date(2026, 1, 31), None]
