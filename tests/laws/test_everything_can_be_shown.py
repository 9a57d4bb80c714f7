"""Law: whatever a row holds, it can be shown: in the ledger, in what an engine prints, in errors and in files of lines.

And what is written as lines of JSON can be read again: the same rows, numbers that are none included.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from polars.testing import assert_frame_equal
from rich.console import Console

import evercurrent as ec
from evercurrent.core.data.columns.json_texts import json_rows, printable, shown_row
from evercurrent.core.data.errors import EvercurrentError, RetractionError
from evercurrent.core.data.schema import DIFF
from evercurrent.views.cli.tables import FittingChanges, table_of
from evercurrent.views.connectors.delta_files import DeltaFile
from evercurrent.views.connectors.text_files import json_rows as read_lines
from evercurrent.views.connectors.text_files import without_text
from evercurrent.views.inspection.timeline.labels import labels
from every_type import Drawn, frames
from strategies import of_profile

FAR = pl.Series("x", [(1 << 63) - 1, None, 0])
EXAMPLES = [
    Drawn(frame)
    for frame in (
        pl.DataFrame({"x": FAR.cast(pl.Datetime("us"))}),
        pl.DataFrame({"x": FAR.cast(pl.Datetime("us", "Europe/Berlin"))}),
        pl.DataFrame({"x": pl.Series([(1 << 31) - 1, 0], dtype=pl.Int32).cast(pl.Date)}),
        pl.DataFrame({"x": pl.Series([-(1 << 63), 0]).cast(pl.Duration("ms"))}),
        pl.DataFrame({"x": pl.Series([-(1 << 63), 0]).cast(pl.Datetime("ns", "Europe/Berlin"))}),
        pl.DataFrame({"x": pl.Series([-(1 << 50), None]).cast(pl.Datetime("us", "Africa/Monrovia"))}),
        pl.DataFrame({"x": [[b"\x00"], []]}),
        pl.DataFrame({"x": [{"a": b"\x00", "b": [float("nan")]}]}),
    )
]


def is_json(row: str) -> Any:
    def refused(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(row, parse_constant=refused)


@given(frames())
@example(EXAMPLES[0])
@example(EXAMPLES[1])
@example(EXAMPLES[2])
@example(EXAMPLES[3])
@example(EXAMPLES[4])
@example(EXAMPLES[5])
def test_the_ledger_is_readable_whatever_was_refused(drawn: Drawn) -> None:
    frame = drawn.frame
    engine = ec.Engine()
    engine.source("s", dict(frame.schema), kind="diffs")
    engine.push("s", frame.with_columns(pl.lit(-1, pl.Int64).alias(DIFF)))
    ledger = engine.ledger()
    assert ledger["_diff"].sum() == -frame.height
    for row in ledger["row"]:
        assert is_json(row).keys() == set(frame.columns)
    assert ledger.rows()
    assert repr(ledger)
    assert engine.ledger("s").drop("_epoch", "reason", "_diff").schema == frame.schema
    engine.push("s", [])
    for entry in engine._running.current().ledger.refused:
        assert "retraction of a row" in repr(entry)
    assert engine.explain()


@of_profile(0.3)
@given(frames())
@example(EXAMPLES[0])
@example(EXAMPLES[2])
@example(EXAMPLES[3])
@example(EXAMPLES[5])
def test_a_view_can_be_shown_whatever_is_in_it(drawn: Drawn) -> None:
    frame = drawn.frame
    engine = ec.Engine()
    view = engine.view("all", engine.source("s", dict(frame.schema), kind="diffs"))
    engine.push("s", frame)
    assert "View 'all'" in repr(view)
    assert view._repr_html_()
    assert "Deltas of view" in repr(view.deltas())
    assert view.deltas()._repr_html_()
    console = Console(file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table_of(view.read(), 5))
    console.print(FittingChanges(view.deltas().frame(), 5))
    for column in view.read().get_columns():
        assert labels(column).null_count() == 0
    assert engine.explain()


@given(frames())
@example(EXAMPLES[0])
@example(EXAMPLES[2])
def test_an_error_names_the_row_whatever_is_in_it(drawn: Drawn) -> None:
    frame = drawn.frame
    engine = ec.Engine()
    engine.source("s", dict(frame.schema), kind="diffs", strict=True)
    with pytest.raises(RetractionError, match="retraction of a row that is not there"):
        engine.push("s", frame.with_columns(pl.lit(-1, pl.Int64).alias(DIFF)))
    assert shown_row(frame, 0)
    assert repr(printable(frame))


ODD_NUMBERS = pl.DataFrame(
    {
        "x": [float("nan"), None, float("inf"), -0.0, 5e-324],
        "t": ["NaN", None, "Infinity", "", "1"],
    }
)
ODD_IN_STRUCTS = pl.DataFrame(
    {"x": [{"a": "NaN", "b": [float("nan")], "c": [{"d": float("inf"), "e": "-Infinity"}]}, None]}
)


@of_profile(0.5)
@given(frames(without=(pl.Binary,)))
@example(Drawn(ODD_NUMBERS))
@example(Drawn(ODD_IN_STRUCTS))
def test_lines_of_deltas_are_read_as_the_same_rows(drawn: Drawn) -> None:
    """Of types that can be read from text; times of years that have four digits."""
    frame = drawn.frame
    with TemporaryDirectory() as folder:
        path = Path(folder) / "deltas.jsonl"
        with DeltaFile(path, frame.schema) as file:
            file.write(frame)
        lines = path.read_bytes()
    assert len(lines.splitlines()) == frame.height
    written = [is_json(line) for line in lines.splitlines()]
    assert [row.keys() == set(frame.columns) for row in written] == [True] * frame.height
    if without_text(frame.schema, json_lines=True) is not None:
        return
    rows, fault = read_lines(lines, frame.schema)
    if fault is not None:
        assert "Date" in str(frame.schema), fault
        return
    # Before polars 2.1 lists of texts are cast to arrays of texts, and these to arrays of categories.
    texts = rows.cast({name: with_texts(dtype) for name, dtype in frame.schema.items()})
    assert_frame_equal(physical(texts.cast(dict(frame.schema))), physical(frame))


def with_texts(dtype: Any) -> Any:
    """The type with texts instead of categories."""
    match dtype:
        case pl.Array():
            return pl.Array(with_texts(dtype.inner), dtype.size)
        case pl.List():
            return pl.List(with_texts(dtype.inner))
        case pl.Struct():
            return pl.Struct({field.name: with_texts(field.dtype) for field in dtype.fields})
    return pl.String() if isinstance(dtype, pl.Categorical | pl.Enum) else dtype


def physical(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.all().to_physical())


def test_what_json_has_not_is_distinguished_from_null_and_from_text() -> None:
    frame = pl.DataFrame({"x": [float("nan"), None], "t": ["NaN", None], "b": [b"\xff", None]})
    assert json_rows(frame).to_list() == [
        '{"x":"NaN","t":"NaN","b":"ff"}',
        '{"x":null,"t":null,"b":null}',
    ]
    far = pl.DataFrame({"at": pl.Series([(1 << 63) - 1, 0]).cast(pl.Datetime("us"))})
    assert json_rows(far).to_list() == [
        '{"at":"+294247-01-10 04:00:54.775807"}',
        '{"at":"1970-01-01 00:00:00"}',
    ]


def test_bytes_at_any_depth_are_refused_where_lines_are_to_be_read_again(tmp_path: Path) -> None:
    with pytest.raises(
        EvercurrentError, match=r"column 'x' is List\(Binary\), which JSON cannot represent; use .parquet"
    ):
        DeltaFile(tmp_path / "deltas.jsonl", pl.Schema({"x": pl.List(pl.Binary())}))
