"""Rows in sliding windows are added up before they are written out: the same deltas as of rows written out first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
import evercurrent.core.eventtime.windows.assign_windows as windows_module
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.repeated import RepeatedDelta, Repeats
from evercurrent.core.data.schema import DIFF
from strategies import of_profile

START = pl.Series(["2024-01-01"]).str.to_datetime().item()
SCHEMA = {"k": pl.String, "x": pl.Float64, "n": pl.Int64, "at": pl.Datetime("us")}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([0.1, 1e300, -1e300, float("nan"), None, 2.5]),
        st.integers(0, 3) | st.none(),
        st.integers(-70, 70),
        st.sampled_from([1, 1, 1, 2, -1]),
    ),
    max_size=8,
)


def frame_of(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    moved = [(*row[:3], START + timedelta(seconds=5 * row[3]), row[4]) for row in rows]
    return pl.DataFrame(moved, {**SCHEMA, DIFF: pl.Int64}, orient="row")


def declared(engine: ec.Engine, kind: str, **options: Any) -> None:
    rows = engine.source(
        "rows", SCHEMA, kind=kind, **options, event_time="at", watermark=ec.bounded_delay("1m")
    )
    x, n, start = pl.col("x"), pl.col("n"), pl.col("window_start")
    whole = rows.window(ec.sliding("2m", every="30s", offset="7s"))
    engine.view("counts", whole.group_by("k").agg(pl.len(), x.sum(), mean=x.mean(), std=n.std()))
    engine.view("all", whole.group_by().agg(pl.len()))
    engine.view(
        "greatest", whole.group_by("k").agg(x.max(), least=n.min(), first=n.sort_by("at", "n").first())
    )
    engine.view(
        "starts", whole.group_by("k").agg(last=start.max(), length=(pl.col("window_end") - start).max())
    )
    engine.view("by start", whole.group_by("k", later=start.dt.offset_by("1m")).agg(n.sum()))
    engine.view("median", whole.group_by("k").agg(n.median(), different=x.n_unique()))
    engine.view("rows of windows", whole.filter(n > 0).select("k", "n", "window_start"))
    engine.view("uneven", rows.window(ec.sliding("2m", every="50s")).group_by("k").agg(pl.len()))
    engine.view("in time", whole.lateness("1m").group_by("k").agg(pl.len(), x.max()))
    engine.view("chain", whole.group_by("k").agg(c=pl.len()).group_by("window_end").agg(pl.col("c").max()))


@pytest.mark.parametrize("kind", ["diffs", "append"])
@of_profile(0.5, quick=20)
@given(epochs=st.lists(ROWS, min_size=1, max_size=4))
def test_sums_of_periods_give_what_rows_give(kind: str, epochs: list[list[tuple[Any, ...]]]) -> None:
    engines = []
    for many in (-1, 10**9):
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(windows_module, "MANY_ROWS", many)
            options = {"strict": False} if kind == "diffs" else {}
            engine = ec.Engine()
            declared(engine, kind, **options)
            for rows in epochs:
                frame = frame_of(rows)
                if kind == "append":
                    frame = frame.filter(pl.col(DIFF) == 1).drop(DIFF)
                engine.push("rows", frame)
            engines.append(engine)
    ours, theirs = engines
    for name, view in ours.views.items():
        for one, other in zip(view.deltas(), theirs.views[name].deltas(), strict=True):
            assert_frame_equal(one, other, check_exact=True)
        assert_frame_equal(view.read(), theirs.views[name].read(), check_exact=True)
    assert ours.ledger().height == theirs.ledger().height


def test_a_repeated_change_is_a_change_of_all_its_rows() -> None:
    at = pl.Series("window_start", [1_000, 2_000]).cast(pl.Datetime("us"))
    once = Delta.of(pl.DataFrame([pl.Series("k", [7, 8]), at]), pl.Series([1, -2]).to_numpy())
    delta = RepeatedDelta(once, Repeats(("window_start",), 3, 100))
    assert len(delta) == delta.height == 6
    assert delta.diffs.tolist() == [1, 1, 1, -2, -2, -2]
    assert delta.frame["window_start"].cast(pl.Int64).to_list() == [800, 900, 1_000, 1_800, 1_900, 2_000]
    assert delta.rows.equals(delta.take(pl.Series(range(6)).to_numpy()).rows)
    assert delta.consolidate().height == 6
    assert delta.bare().frame.equals(delta.frame)
    assert [column.name for column in delta.renamed({"a": "k", "window_start": "window_start"})] == [
        "a",
        "window_start",
    ]
    assert delta.words_by(("k",), 0).first.tolist() == Delta(delta.frame).words_by(("k",), 0).first.tolist()
