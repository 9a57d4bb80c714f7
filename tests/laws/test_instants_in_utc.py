"""Law: an instant that is given to a column without a zone is its time in UTC: in every form, and as everywhere else.

The truth is ``datetime.astimezone`` of Python. What is pushed as an instant leaves the same bytes as what is pushed as its
time in UTC, and a watermark of it is the instant of these rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import evercurrent as ec
from evercurrent.core.data.errors import FileError
from evercurrent.views.connectors.files import Reader
from evercurrent.views.connectors.skipped_rows import csv_separated, json_separated
from evercurrent.views.connectors.text_files import csv_rows, json_rows
from strategies import of_profile

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
EAST, WEST = timezone(timedelta(hours=2)), timezone(timedelta(hours=-9, minutes=-30))
ZONES = [UTC, BERLIN, NEW_YORK, EAST, WEST, timezone(timedelta(hours=5, minutes=45))]
FOLDS = [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
NO_SUCH = datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)
NOON = datetime(2026, 1, 31, 12)

Moments = list[datetime | None]


def zoned(name: str, moments: Moments, unit: Any = "us") -> pl.Series:
    """A column with the zone of the first moment that has a name for it, else in UTC."""
    zone = next((str(each.tzinfo) for each in moments if each and isinstance(each.tzinfo, ZoneInfo)), "UTC")
    instants = [None if each is None else each.astimezone(UTC) for each in moments]
    column = pl.Series(name, instants, pl.Datetime("us", "UTC"))
    return column.dt.convert_time_zone(zone).dt.cast_time_unit(unit)


def in_frame(moments: Moments) -> pl.DataFrame:
    return pl.DataFrame([zoned("at", moments)])


def text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


FORMS: dict[str, Callable[[Moments], Any]] = {
    "columns": lambda moments: {"at": moments},
    "rows": lambda moments: [{"at": each} for each in moments],
    "tuples": lambda moments: [(each,) for each in moments],
    "texts": lambda moments: {"at": [text(each) for each in moments]},
    "texts in rows": lambda moments: [{"at": text(each)} for each in moments],
    "texts and times": lambda moments: [
        {"at": each if place % 2 else text(each)} for place, each in enumerate(moments)
    ],
    "numpy": lambda moments: {"at": np.array([*moments, None], object)[:-1]},
    "polars": in_frame,
    "polars: lazy": lambda moments: in_frame(moments).lazy(),
    "polars: ns": lambda moments: pl.DataFrame([zoned("at", moments, "ns")]),
    "a column of polars": lambda moments: {"at": zoned("at", moments)},
    "Arrow": lambda moments: in_frame(moments).to_arrow(),
    "Arrow: batch": lambda moments: (
        in_frame(moments).to_arrow().combine_chunks().to_batches()[0]
        if moments
        else in_frame(moments).to_arrow()
    ),
    "Arrow: an offset": lambda moments: pa.table(
        {"at": pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "+05:45"))}
    ),
    "a column of Arrow": lambda moments: {"at": zoned("at", moments).to_arrow()},
    "pandas": lambda moments: pd.DataFrame({"at": pd.Series(zoned("at", moments).to_pandas())}),
    "pandas of objects": lambda moments: pd.DataFrame({"at": pd.Series(moments, dtype=object)}),
    "pandas of Arrow": lambda moments: pd.DataFrame(
        {"at": pd.Series(moments, dtype=pd.ArrowDtype(pa.timestamp("us", "UTC")))}
    ),
    "a column of pandas": lambda moments: {"at": pd.Series(moments, dtype=object)},
}

moments_of_zones = st.lists(
    st.none()
    | st.builds(
        lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
        st.datetimes(
            datetime(1972, 2, 1), datetime(2260, 1, 1)
        ),  # Offsets had seconds before, which ISO 8601 has not.
        st.sampled_from(ZONES),
        st.sampled_from([0, 1]),
    ),
    max_size=5,
)


def engine_of(dtype: Any, **options: Any) -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    return engine, engine.view("v", engine.source("s", {"at": dtype}, **options))


def contents(dtype: Any, data: Any) -> list[int | None]:
    """What a source holds of pushed rows: the numbers in which times are kept."""
    engine, view = engine_of(dtype)
    engine.push("s", data)
    assert view.read().schema == {"at": dtype}
    return sorted(view.read()["at"].to_physical().to_list(), key=str)


def in_utc(moments: Moments) -> Moments:
    return [None if each is None else each.astimezone(UTC).replace(tzinfo=None) for each in moments]


@pytest.mark.parametrize("form", FORMS)
@of_profile(0.5, quick=10)
@given(moments_of_zones)
@example([*FOLDS, NO_SUCH])
@example([None])
@example([])
def test_an_instant_is_pushed_as_its_time_in_utc(form: str, moments: Moments) -> None:
    for dtype in (pl.Datetime("us"), pl.Datetime("ns")):
        assert contents(dtype, FORMS[form](moments)) == contents(dtype, {"at": in_utc(moments)})


@pytest.mark.parametrize("form", FORMS)
@of_profile(0.5, quick=10)
@given(moments_of_zones)
@example([*FOLDS, NO_SUCH])
def test_an_instant_is_the_same_in_a_column_with_a_zone(form: str, moments: Moments) -> None:
    instants = [None if each is None else each.astimezone(UTC) for each in moments]
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        dtype = pl.Datetime("us", zone)
        assert contents(dtype, FORMS[form](moments)) == contents(dtype, {"at": instants})


@given(moments_of_zones.filter(lambda moments: moments and None not in moments))
@example(FOLDS[::-1])
@example([NO_SUCH])
def test_it_is_the_watermark_of_its_row(moments: list[datetime]) -> None:
    last = max(moments, key=lambda each: each.astimezone(UTC))
    rows, _ = engine_of(pl.Datetime("us"), event_time="at", watermark=ec.bounded_delay("0s"))
    rows.push("s", {"at": moments})
    for watermark in (last, text(last), last.astimezone(UTC).replace(tzinfo=None)):
        moved, _ = engine_of(pl.Datetime("us"), event_time="at")
        moved.advance("s", watermark)
        assert moved.watermarks["s"] == rows.watermarks["s"] == last.astimezone(UTC)
    at, _ = engine_of(pl.Datetime("us"))
    at.push("s", {"at": []}, at=last)
    assert at.stats()["processing_time"] == last.astimezone(UTC)


MIXED = [NOON, NOON.replace(tzinfo=BERLIN), None, NOON.replace(tzinfo=WEST), date(2026, 1, 31)]
MIXED_IN_UTC = [NOON, NOON - timedelta(hours=1), None, NOON + timedelta(hours=9, minutes=30), datetime(2026, 1, 31)]  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("form", ["columns", "rows", "tuples", "numpy"])
def test_times_with_and_without_a_zone_in_one_column(form: str, order: int) -> None:
    """Each is read by itself; the ones without a zone stand as they are, and beside a zone are refused."""
    mixed: Any = MIXED[::order]
    assert contents(pl.Datetime("us"), FORMS[form](mixed)) == contents(
        pl.Datetime("us"), {"at": MIXED_IN_UTC}
    )
    engine, _ = engine_of(pl.Datetime("us", "UTC"))
    with pytest.raises(ec.InputError, match=r"'at' holds .*, which has no time zone"):
        engine.push("s", FORMS[form](mixed))


@pytest.mark.parametrize("order", [1, -1])
def test_objects_of_pandas_with_and_without_a_zone(order: int) -> None:
    """In whichever order they come: the first one does not give its zone to the others."""
    frame = pd.DataFrame({"at": pd.Series(MIXED[:4][::order], dtype=object)})
    assert contents(pl.Datetime("us"), frame) == contents(pl.Datetime("us"), {"at": MIXED_IN_UTC[:4]})
    engine, _ = engine_of(pl.Datetime("us", "UTC"))
    with pytest.raises(ec.InputError, match=r"frame\['at'\].dt.tz_localize\('UTC'\)"):
        engine.push("s", frame)


BEYOND = {
    "1": datetime(1, 1, 1, 1, 59, tzinfo=EAST),
    "10000": datetime(9999, 12, 31, 14, 30, tzinfo=WEST),
}
FIRST_AND_LAST = [datetime(1, 1, 1, 2, tzinfo=EAST), datetime(9999, 12, 31, 14, 29, 59, 999999, tzinfo=WEST)]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("year", BEYOND)
def test_an_instant_beyond_the_years_of_python_is_refused_alike(year: str, zone: str | None) -> None:
    moment, dtype = BEYOND[year], pl.Datetime("us", zone)
    for value in (moment, moment.isoformat()):
        for data in ({"at": [None, value]}, [{"at": None}, {"at": value}], [(None,), (value,)]):
            engine, view = engine_of(dtype)
            with pytest.raises(
                ec.InputError, match=f"'at' holds .*{str(value)[:10]}.*row 1.*year|9999 in UTC"
            ):
                engine.push("s", data)
            assert (engine.epoch_number, view.read().height) == (0, 0)
        engine, _ = engine_of(dtype, event_time="at")
        for move, options in (
            (partial(engine.advance, "s"), {"watermark": value}),
            (partial(engine.push, "s", {"at": []}), {"watermark": value}),
            (partial(engine.push, "s", {"at": []}), {"at": value}),
            (engine.tick, {"at": value}),
        ):
            with pytest.raises(ec.InputError, match="years 1 to 9999 in UTC"):
                move(**options)
        assert engine.epoch_number == 0
    schema = pl.Schema({"at": dtype})
    line = json.dumps({"at": moment.isoformat()}).encode()
    assert csv_rows(f"{moment.isoformat()}\n".encode(), ["at"], schema)[1] is not None
    assert json_rows(line, schema)[1] is not None


def test_the_first_and_the_last_instants_are_held() -> None:
    for data in (FIRST_AND_LAST, [each.isoformat() for each in FIRST_AND_LAST]):
        engine, view = engine_of(pl.Datetime("us"), event_time="at")
        engine.push("s", {"at": data})
        assert sorted(view.read()["at"]) == [datetime.min, datetime.max]
        engine.advance("s", data[0])
        engine.advance("s", data[1])


@pytest.mark.parametrize(
    ("data", "dtype", "complaint"),
    [
        (pl.DataFrame({"at": pl.Series([1]).cast(pl.Datetime("ns", "UTC"))}), pl.Datetime("us"), "dt.cast_time_unit"),
        (pa.table({"at": pa.array([1], pa.timestamp("ns", "+02:00"))}), pl.Datetime("us"), "cannot hold exactly"),
        (pd.DataFrame({"at": pd.to_datetime([1], utc=True)}), pl.Datetime("us"), "dt.floor"),
        ([{"at": pd.Timestamp(1, tz="UTC")}], pl.Datetime("us"), "nanoseconds would be lost"),
        ([{"at": "2026-01-31T12:00:00.000000001Z"}], pl.Datetime("us"), "not finer than us"),
        ([{"at": NOON.replace(microsecond=1, tzinfo=BERLIN)}], pl.Datetime("ms"), "which in UTC is .* milliseconds cannot hold"),
        ([{"at": NOON.replace(hour=0, tzinfo=BERLIN)}], pl.Date, "which in UTC is 2026-01-30 23:00:00, which is more than a date"),
        ([{"at": "2026-01-31T00:00+01:00"}], pl.Date, "write it as in 2026-01-31"),
        (in_frame([NOON.replace(hour=0, tzinfo=BERLIN)]), pl.Date, "cannot hold exactly"),
        (in_frame([NOON.replace(year=1600, tzinfo=BERLIN)]), pl.Datetime("ns"), "cannot hold exactly"),
        ([{"at": NOON.replace(year=1600, tzinfo=BERLIN)}], pl.Datetime("ns"), "declared type"),
    ],
)  # fmt: skip
def test_what_the_unit_cannot_hold_is_refused_as_before(data: Any, dtype: Any, complaint: str) -> None:
    engine, _ = engine_of(dtype)
    with pytest.raises(ec.InputError, match=f"'at'.*{complaint}"):
        engine.push("s", data)


def test_nanoseconds_are_kept_where_the_column_has_them() -> None:
    column = pl.Series("at", [1, 1 << 62, None]).cast(pl.Datetime("ns", "Europe/Berlin"))
    for data in (column.to_frame(), column.to_frame().to_arrow(), {"at": column}):
        assert contents(pl.Datetime("ns"), data) == sorted([1, 1 << 62, None], key=str)


def test_a_watermark_with_nanoseconds_is_refused_as_its_row_is() -> None:
    engine, _ = engine_of(pl.Datetime("us"), event_time="at")
    for value in (pd.Timestamp(1, tz="UTC"), pd.Timestamp(1), pd.NaT):
        with pytest.raises(ec.InputError, match="is not a time in whole microseconds"):
            engine.advance("s", value)


@pytest.mark.parametrize("padded", [" 2026-01-31T12:00Z", "2026-01-31T12:00Z ", "2026-01-31T12:00Z\n"])
def test_a_text_with_blanks_around_it_is_refused_alike(padded: str) -> None:
    for dtype in (pl.Datetime("us"), pl.Datetime("us", "UTC")):
        engine, _ = engine_of(dtype, event_time="at")
        for give in (
            lambda engine=engine: engine.push("s", [{"at": padded}]),
            lambda engine=engine: engine.push("s", [], watermark=padded),
            lambda engine=engine: engine.advance("s", padded),
            lambda engine=engine: engine.push("s", [], at=padded),
            lambda engine=engine: engine.tick(at=padded),
        ):
            with pytest.raises(ec.InputError, match=re.escape(repr(padded))):
                give()
        assert engine.epoch_number == 0


@pytest.mark.parametrize("dtype", [pl.Datetime("us"), pl.Datetime("ms", "UTC"), pl.Date(), pl.List(pl.Date)])
def test_values_of_pandas_and_numpy_in_rows_are_refused_with_a_remedy(dtype: pl.DataType) -> None:
    engine, _ = engine_of(dtype)
    for value, remedy in [(pd.NaT, "give None"), (np.datetime64("2026-01-31"), "Python's datetime")]:
        with pytest.raises(ec.InputError, match=f"source 's': column 'at' holds .*{remedy}.* .in row 0"):
            engine.push("s", [{"at": [value] if dtype == pl.List else value}])
    assert engine.epoch_number == 0


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_midnight_in_utc_is_a_date(zone: str) -> None:
    midnight = NOON.replace(hour=0, tzinfo=UTC).astimezone(ZoneInfo(zone))
    for form in set(FORMS) - {"polars: ns"}:
        assert contents(pl.Date(), FORMS[form]([midnight, None])) == contents(
            pl.Date(), {"at": [NOON.date(), None]}
        )


# At any depth.


@pytest.mark.parametrize(
    ("dtype", "given_value", "held"),
    [
        (pl.List(pl.Datetime("us")), [FOLDS[1], None, NOON], [datetime(2026, 10, 25, 1, 30), None, NOON]),
        (pl.List(pl.Datetime("us")), ["2026-01-31T12:00+02:00", NOON], [NOON - timedelta(hours=2), NOON]),
        (pl.Array(pl.Datetime("ms"), 2), [NOON.replace(tzinfo=EAST), NOON], [NOON - timedelta(hours=2), NOON]),
        (pl.Struct({"n": pl.Int8, "at": pl.Datetime("us")}), {"n": 1, "at": NOON.replace(tzinfo=EAST)}, {"n": 1, "at": NOON - timedelta(hours=2)}),
        (pl.Struct({"n": pl.Int8, "on": pl.Date}), {"n": 1, "on": "2026-01-31T00:00Z"}, {"n": 1, "on": NOON.date()}),
        (pl.List(pl.List(pl.Datetime("us"))), [[], None, ["2026-01-31T12:00Z"]], [[], None, [NOON]]),
        (pl.List(pl.Datetime("us", "Europe/Berlin")), ["2026-01-31T12:00", NOON.replace(tzinfo=EAST)], [NOON.replace(tzinfo=BERLIN), NOON.replace(hour=11, tzinfo=BERLIN)]),
    ],
)  # fmt: skip
def test_inside_of_lists_and_structs(dtype: Any, given_value: Any, held: Any) -> None:
    for data in ({"at": [None, given_value]}, [{"at": None}, {"at": given_value}]):
        engine, view = engine_of(dtype)
        engine.push("s", data)
        assert view.read().schema == {"at": dtype}
        assert [each for each in view.read().rows() if each != (None,)] == [(held,)]


@pytest.mark.parametrize("data", [["31.1.2026"], ["2026-01-31", "noon"], ["2026-01-31T12:00:00.0000001"]])
def test_no_format_is_guessed_inside_of_lists(data: list[str]) -> None:
    engine, _ = engine_of(pl.List(pl.Datetime("us")))
    with pytest.raises(
        ec.InputError, match=r"column 'at' holds \[.*\] in row 1, which is not of its declared type"
    ):
        engine.push("s", {"at": [None, data]})


def test_frames_at_any_depth() -> None:
    column = pl.Series("at", [[FOLDS[0]], [], None], pl.List(pl.Datetime("us", "Europe/Berlin")))
    for data in (column.to_frame(), column.to_frame().to_arrow()):
        engine, view = engine_of(pl.List(pl.Datetime("ms")))
        engine.push("s", data)
        assert sorted(view.read()["at"].to_list(), key=str) == [None, [], [datetime(2026, 10, 25, 0, 30)]]


# Files.


def reader(path: Path, schema: Mapping[str, Any]) -> Reader:
    return Reader("s", [path], pl.Schema(schema), diffs=False, batch_rows=10)


LINES = ["2026-01-31T12:00:00+02:00", "2026-01-31 12:00:00", "2026-01-31", "2026-01-31T12:00Z"]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_lines_of_files_are_read_as_rows_are(zone: str | None) -> None:
    schema = pl.Schema({"at": pl.Datetime("us", zone), "other": pl.Int64()})
    engine, view = engine_of(schema["at"])
    engine.push("s", {"at": LINES})
    truth = sorted(view.read()["at"])
    csv = "".join(f"{line},1\n" for line in LINES).encode()
    lines = "".join(json.dumps({"at": line, "other": 1}) + "\n" for line in LINES).encode()
    for frame, fault in (csv_rows(csv, ["at", "other"], schema), json_rows(lines, schema)):
        assert fault is None
        assert frame.schema["at"] == schema["at"]
        assert sorted(frame["at"]) == truth
    # One line that cannot be read leaves the others as they are.
    frame, refused = csv_separated(csv + b"2026-13-01,1\n", ["at", "other"], schema, ",")
    assert (sorted(frame["at"]), [each.row for each in refused]) == (truth, [4])
    frame, refused = json_separated(lines + b'{"at": "noon"}\n', schema, ignores_others=False)
    assert (sorted(frame["at"]), [each.row for each in refused]) == (truth, [4])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_inside_of_lines_of_json(zone: str | None) -> None:
    dtype = pl.Datetime("us", zone)
    schema = pl.Schema({"at": dtype, "in": pl.List(pl.Struct({"at": dtype}))})
    lines = "".join(
        json.dumps({"at": line, "in": [{"at": line}, {"at": None}, None]}) + "\n" for line in [*LINES, None]
    ).encode()
    frame, fault = json_rows(lines, schema)
    assert fault is None
    assert frame.schema == schema
    for row in frame.iter_rows(named=True):
        assert row["in"][0] == {"at": row["at"]}
        assert row["in"][1:] == [{"at": None}, None]
    bad = b'{"at": "2026-01-31", "in": [{"at": "2026-01-31"}, {"at": "31.1.2026"}]}\n'
    frame, fault = json_rows(lines + bad, schema)
    assert fault is not None
    assert (frame.height, fault.row) == (5, 5)
    assert "column 'in'" in fault.message
    frame, refused = json_separated(bad + lines, schema, ignores_others=False)
    assert (frame.height, [each.row for each in refused]) == (5, [0])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_of_files_are_taken_as_columns_of_frames_are(tmp_path: Path, suffix: str) -> None:
    moments: Moments = [*FOLDS, NO_SUCH, None]
    frame = in_frame(moments).with_columns(
        on=pl.lit(NOON.replace(hour=0)), **{"in": pl.col("at").implode().over("at")}
    )
    path = tmp_path / f"a{suffix}"
    (frame.write_parquet if suffix == ".parquet" else frame.write_ipc)(path)
    schema = pl.Schema({"at": pl.Datetime("ms"), "on": pl.Date(), "in": pl.List(pl.Datetime("us"))})
    rows = pl.concat(batch.frame for batch in reader(path, schema).batches())
    assert rows.schema == schema
    assert rows["at"].to_list() == in_utc(moments)
    assert rows["in"].to_list() == [[each] for each in in_utc(moments)]
    assert set(rows["on"]) == {NOON.date()}
    for refused in ({"at": pl.Date()}, {"on": pl.Datetime("us", "UTC")}):
        with pytest.raises(FileError, match=f"column {next(iter(refused))!r}"):
            list(reader(path, {**schema, **refused}).batches())


def test_local_times_inside_of_files_are_no_instants(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"at": [[NOON]]}).write_parquet(path)
    schema = pl.Schema({"at": pl.List(pl.Datetime("us", "UTC"))})
    with pytest.raises(FileError, match="column 'at' is List"):
        list(reader(path, schema).batches())


# Keys, and what is late.

SAME = [NOON, NOON.replace(tzinfo=UTC), NOON.replace(hour=13, tzinfo=BERLIN), "2026-01-31T14:00:00+02:00", "2026-01-31 12:00"]  # fmt: skip


def test_keys_are_the_same_in_every_form() -> None:
    engine = ec.Engine(record=True)
    source = engine.source(
        "s", {"at": pl.Datetime("us"), "n": pl.Int64}, kind="upsert", key="at", retained=True
    )
    view, sums = engine.view("v", source), engine.view("sums", source.group_by("at").agg(n=pl.col("n").sum()))
    for number, key in enumerate(SAME):
        engine.push("s", [{"at": key, "n": number}])
        assert view.read().rows() == [(NOON, number)]
    for key in SAME:
        assert view.lookup(key).rows() == sums.lookup(at=key).rows() == [(NOON, len(SAME) - 1)]
        assert view.why(key) == view.why(NOON)
        assert sums.why({"at": key}) == sums.why(NOON)
        assert view.lineage({"at": key})["s"].rows() == view.lineage({"at": NOON})["s"].rows()
        assert str(view.history(key)) == str(view.history(NOON))
    engine.push("s", [{"at": SAME[2], "n": None, "_diff": -1}])
    assert view.read().is_empty()


@pytest.mark.parametrize("is_aware", [True, False])
def test_what_is_late_is_late_in_every_form(is_aware: bool) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us")}, event_time="at")
    view = engine.view("v", source.window(ec.fixed("1h")).lateness("0s").group_by().agg(n=pl.len()))
    engine.push("s", {"at": [NOON, NOON + timedelta(hours=2)]}, watermark=SAME[3])
    for minutes, late in ((-1, 1), (0, 1), (1, 1)):
        moment = NOON + timedelta(minutes=minutes)
        engine.push("s", {"at": [moment.replace(tzinfo=UTC).astimezone(BERLIN) if is_aware else moment]})
        assert engine.ledger().height == late
    assert sorted(view.read()["n"]) == [1, 3]


def test_a_window_is_named_by_any_instant() -> None:
    engine = ec.Engine()
    for name, zone in (("without", None), ("with", "Europe/Berlin")):
        source = engine.source(name, {"at": pl.Datetime("us", zone)}, event_time="at")
        view = engine.view(f"{name} v", source.window(ec.fixed("1h")).trigger(ec.repeat(ec.signal())).group_by().agg(n=pl.len()))  # fmt: skip
        engine.push(name, {"at": [SAME[1]]})
        for start in SAME[1:4]:
            assert view.why(window=start) == view.why(window=SAME[1])
    with pytest.raises(ec.InputError, match=r"window_start .* does not go with the column"):
        view.why(window=NOON)


def test_a_view_with_a_zone_feeds_a_source_without_one() -> None:
    first, second = ec.Engine(), ec.Engine()
    view = first.view("v", first.source("s", {"at": pl.Datetime("us", "Europe/Berlin")}))
    fed = second.view("v", second.source("s", {"at": pl.Datetime("us")}, kind="diffs"))
    delivery = view.to_source(second, "s")
    first.push("s", {"at": FOLDS})
    delivery.join()
    delivery.close()
    assert sorted(fed.read()["at"]) == in_utc(FOLDS)  # type: ignore[type-var]


def test_rows_of_a_backfill_are_rows() -> None:
    moments = [NOON.replace(tzinfo=zone) for zone in (BERLIN, EAST)]
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us")})
    engine.push("s", {"at": moments[:1]})
    view = engine.view("v", source, backfill={"s": {"at": moments}})
    assert sorted(view.read()["at"]) == sorted(in_utc(moments))  # type: ignore[type-var]


@pytest.mark.parametrize(
    "make",
    [
        lambda at, value: at > value,
        lambda at, value: at == pl.lit(value),
        lambda at, value: at.is_in([value]),
        lambda at, value: at.is_between(value, value),
        lambda at, value: at.fill_null(value).is_null(),
    ],
)
def test_an_expression_is_that_of_polars_and_its_refusal_has_a_way_out(make: Callable[..., pl.Expr]) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us")})
    for zone in ("UTC", "Europe/Berlin"):
        value = NOON.replace(tzinfo=ZoneInfo(zone))
        with pytest.raises(
            ec.PlanError, match=r"read as UTC: give it the zone with .dt.replace_time_zone\('UTC'\)"
        ):
            source.filter(make(pl.col("at"), value))
        source.filter(make(pl.col("at"), value.astimezone(UTC).replace(tzinfo=None)))
    source.filter(make(pl.col("at").dt.replace_time_zone("UTC"), NOON.replace(tzinfo=ZoneInfo("UTC"))))
