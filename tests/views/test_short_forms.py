"""Names that users of polars, Spark and Beam bring: each gives what its long form gives."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from evercurrent.core.data.columns.key_hash import OF_POLARS, OURS, KeyHash
from evercurrent.views.dataframe.package_hints import NAMES
from evercurrent.views.dataframe.pandas_hints import OF_PANDAS
from evercurrent.views.dataframe.spark_hints import OF_SPARK_COLLECTIONS, OF_SPARK_GROUPS

LOCK = Path(__file__).parents[2] / "requirements.lock"
COLUMNS = {"k": pl.String, "x": pl.Int64, "y": pl.Float64}
X, Y = pl.col("x"), pl.col("y")
ROWS = [("a", 1, 0.5, 1), ("a", 5, 1.5, 1), ("b", 4, None, 1), ("b", 9, 2.0, 1), ("c", 7, 1.0, 1)]
LATER = [("a", 5, 1.5, -1), ("c", 7, 1.0, -1), ("b", 2, 8.0, 1)]

FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "len": (lambda s: s.group_by("k").len(), lambda s: s.group_by("k").agg(pl.len())),
    "len by name": (lambda s: s.group_by("k").len("n"), lambda s: s.group_by("k").agg(n=pl.len())),
    "sum": (lambda s: s.group_by("k").sum(), lambda s: s.group_by("k").agg(X.sum(), Y.sum())),
    "mean": (lambda s: s.group_by("k").mean(), lambda s: s.group_by("k").agg(X.mean(), Y.mean())),
    "min": (lambda s: s.group_by("k").min(), lambda s: s.group_by("k").agg(X.min(), Y.min())),
    "max": (lambda s: s.group_by("k").max(), lambda s: s.group_by("k").agg(X.max(), Y.max())),
    "median": (lambda s: s.group_by("k").median(), lambda s: s.group_by("k").agg(X.median(), Y.median())),
    "n_unique": (
        lambda s: s.group_by("k").n_unique(),
        lambda s: s.group_by("k").agg(X.n_unique(), Y.n_unique()),
    ),
    "quantile": (
        lambda s: s.group_by("k").quantile(0.5, "lower"),
        lambda s: s.group_by("k").agg(X.quantile(0.5, "lower"), Y.quantile(0.5, "lower")),
    ),
    "a computed key": (
        lambda s: s.select("x").group_by(odd=X % 2).sum(),
        lambda s: s.select("x").group_by(odd=X % 2).agg(X.sum()),
    ),
    "unique of some": (lambda s: s.unique("k"), lambda s: s.group_by("k").limit(1, by="k")),
    "unique, first": (
        lambda s: s.unique(["k"], keep="first", by=["y", "x"]),
        lambda s: s.group_by("k").limit(1, by=["y", "x"]),
    ),
    "unique, last": (
        lambda s: s.unique(pl.col("k"), keep="last", by="x"),
        lambda s: s.group_by("k").limit(1, by="x", descending=True, nulls_last=True),
    ),
    "limit of none": (lambda s: s.limit(0), lambda s: s.filter(pl.lit(False))),
    "top of none": (lambda s: s.group_by("k").top_k(0, by="x"), lambda s: s.filter(pl.lit(False))),
    "unpivot": (
        lambda s: s.unpivot(["x", "y"], index="k"),
        lambda s: s.select("k", variable=pl.lit("x"), value=X.cast(pl.Float64)).concat(
            s.select("k", variable=pl.lit("y"), value=Y)
        ),
    ),
    "unpivot by other names": (
        lambda s: s.drop("k").unpivot(index="x", variable_name="what", value_name="of"),
        lambda s: s.select("x", what=pl.lit("y"), of=Y),
    ),
}


def rows(view: ec.View) -> list[tuple[Any, ...]]:
    return sorted(view.read().rows(), key=repr)


@pytest.mark.parametrize("form", FORMS)
def test_a_short_form_is_the_long_one(form: str) -> None:
    short, long = FORMS[form]
    engine = ec.Engine()
    source = engine.source("s", COLUMNS, kind="diffs")
    one, other = engine.view("short", short(source)), engine.view("long", long(source))
    assert one.schema == other.schema
    for batch in (ROWS, LATER):
        source.push(batch)
        assert rows(one) == rows(other)


def test_a_row_of_each_is_kept_by_nested_columns() -> None:
    engine = ec.Engine()
    source = engine.source(
        "s", {"tags": pl.List(pl.Int64), "k": pl.String, "more": pl.List(pl.Int64)}, kind="diffs"
    )
    by_tags, by_both = source.unique("tags"), source.unique(["tags", "k"])
    views = [engine.view("by tags", by_tags), engine.view("by both", by_both)]
    source.push([([1], "b", [1]), ([1], "a", [2]), ([1], "a", [3]), (None, "c", None), ([], "c", [4])])
    assert [len(view) for view in views] == [3, 4]
    assert {str(row[0]) for row in views[0].read().rows()} == {"[1]", "None", "[]"}
    before = views[0].read().rows()
    source.push([(*row, -1) for row in before])
    assert [(row[0], len(views[0])) for row in views[0].read().rows()] == [([1], 1)]
    with pytest.raises(ec.PlanError, match=r"unique on .*all columns are nested, .* leave out the subset"):
        source.select("tags", "more").unique("tags")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.unique(keep="last", by="z"), "unique on source 's': unknown column 'z'"),
        (
            lambda s: s.unique([]),
            "unique on source 's': the subset has no column; leave it out for whole rows",
        ),
        (lambda s: s.limit(True, by="x"), "limit on source 's': the number of rows is True"),
        (lambda s: s.group_by("k").top_k(True, by="x"), "top_k on source 's': the number of rows is True"),
    ],
)
def test_arguments_of_short_forms_are_checked(make: Callable[[Any], Any], message: str) -> None:
    source = ec.Engine().source("s", COLUMNS)
    with pytest.raises(ec.PlanError, match=re.escape(message)):
        make(source)


@pytest.mark.parametrize("dtype", [pl.Int128(), pl.List(pl.Int128)])
def test_a_type_that_arrow_does_not_have_is_named(dtype: pl.DataType) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"k": pl.String, "big": dtype}))
    engine.push("s", {"k": ["a"], "big": pl.Series([1]).cast(pl.Int128) if dtype == pl.Int128 else [[1]]})
    for method in (view.to_arrow, view.to_pandas):
        with pytest.raises(
            ec.InputError, match=r"view 'v': to_\w+: column 'big' is .*no Int128; use read\(\)"
        ):
            method()
    assert len(view) == 1


def test_short_forms_over_windows_leave_out_their_bounds() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.String, "x": pl.Int64, "at": pl.Datetime("us")}, event_time="at")
    view = engine.view("v", source.window(ec.fixed("10 minutes")).group_by("k").max())
    source.push({"k": ["a"], "x": [3], "at": [datetime(2026, 1, 1, 12, 5)]})
    assert view.read().columns == ["k", "window_start", "window_end", "x", "at"]


def test_names_of_spark_that_are_hinted_are_not_there() -> None:
    source = ec.Engine().source("s", COLUMNS)
    for name in OF_SPARK_COLLECTIONS:
        with pytest.raises(AttributeError, match=f"a collection has no '{name}': "):
            getattr(source, name)
    for name in OF_SPARK_GROUPS:
        with pytest.raises(AttributeError, match=f"a grouped collection has no '{name}': "):
            getattr(source.group_by("k"), name)


def test_names_of_pandas_that_are_hinted_are_not_there_unless_polars_has_them() -> None:
    source = ec.Engine().source("s", COLUMNS)
    for name in OF_PANDAS:
        with pytest.raises(AttributeError, match=f"a collection has no '{name}': "):
            getattr(source, name)


def test_no_hint_of_a_view_is_to_declare_one() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", COLUMNS))
    for name in {*OF_PANDAS, *OF_SPARK_COLLECTIONS} - set(dir(view)):
        with pytest.raises(AttributeError, match=f"a collection has no '{name}': ") as raised:
            getattr(view, name)
        assert "declare a view" not in str(raised.value), name
        assert "view of it" not in str(raised.value), name


@pytest.mark.parametrize(
    ("of", "name", "message"),
    [
        ("source", "send", ".push(rows)"),
        ("source", "append", ".push(rows)"),
        ("source", "update", ".push(rows); to compute from it: use .with_columns"),
        ("source", "remove", "_diff -1"),
        ("source", "advance", "engine.advance"),
        ("view", "remove", ".filter(~"),
        ("view", "status", "engine.stats()"),
        ("view", "lastProgress", "engine.stats()"),
        ("view", "isActive", "engine.push"),
        ("view", "exception", "engine.push"),
        ("view", "stop", "engine.close()"),
        ("engine", "lastProgress", "engine.stats()"),
        ("engine", "isActive", "engine.stats()"),
        ("engine", "streams", "engine.views"),
        ("engine", "drop", "engine.drop_view(name)"),
        ("engine", "watermark", "use engine.watermarks"),
        ("engine", "createOrReplaceTempView", "engine.view("),
        ("engine", "sparkContext", "spark_bridge.run"),
        ("engine", "execute_sql", "pl.sql_expr"),
    ],
)
def test_names_of_queues_and_of_queries_are_hinted(of: str, name: str, message: str) -> None:
    engine = ec.Engine()
    source = engine.source("s", COLUMNS)
    where: dict[str, object] = {"engine": engine, "source": source, "view": engine.view("v", source)}
    with pytest.raises(AttributeError) as raised:
        getattr(where[of], name)
    assert message in str(raised.value)


def test_a_length_of_time_is_no_window_and_no_trigger() -> None:
    source = ec.Engine().source("s", {"at": pl.Datetime("us")}, event_time="at")
    with pytest.raises(ec.PlanError, match=r"as in ec\.fixed\('10 minutes'\)"):
        source.window("10 minutes")  # type: ignore[arg-type]
    with pytest.raises(ec.PlanError, match=r"as in ec\.every\('10 seconds'\)"):
        source.window(ec.fixed("1h")).trigger("10 seconds")  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyspark"])
def test_every_name_of_a_frame_has_a_hint(library: str) -> None:
    """Of the versions that are locked; a later one may have new names."""
    frames: dict[str, tuple[str, str]] = {
        "pandas": ("pandas", "DataFrame"),
        "polars": ("polars", "LazyFrame"),
        "pyspark": ("pyspark.sql", "DataFrame"),
    }
    module, name = frames[library]
    frame = getattr(pytest.importorskip(module), name)
    engine = ec.Engine()
    source = engine.source("s", COLUMNS)
    bare = []
    for of in (source, engine.view("v", source)):
        for each in dir(frame):
            try:
                getattr(of, each)
            except AttributeError as error:
                if each[0] != "_" and "has no attribute" in str(error) and ": " not in str(error):
                    bare.append(each)
    version = metadata.version(library)
    if bare and f"{library}=={version} " not in LOCK.read_text("utf-8"):
        pytest.skip(f"{library} {version} has names that the locked version does not have: {bare}")
    assert not bare


# Reading


def test_a_view_is_read_as_other_tables() -> None:
    engine = ec.Engine()
    source = engine.source("s", COLUMNS, kind="diffs")
    view = engine.view("v", source.group_by("k").len())
    assert len(view) == 0
    assert view, "a view is there, with rows or without"
    source.push(ROWS)
    assert len(view) == 3
    assert view.head(2).height == 2
    assert view.to_arrow().to_pydict() == view.read().to_dict(as_series=False)
    assert view.to_pandas().shape == (3, 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_is_looked_up_by_its_key(workers: int) -> None:
    engine = ec.Engine(workers=workers)
    source = engine.source("s", {"k": pl.String, "i": pl.Int64, "x": pl.Int64}, kind="diffs")
    aggs = [pl.len(), X.max().alias("most"), X.n_unique().alias("different"), X.median().alias("middle")]
    by_two = engine.view("two", source.group_by("k", "i").agg(*aggs))
    by_one = engine.view("one", source.group_by("i").agg(*aggs))
    plain = engine.view("plain", source)
    for at in range(7):
        source.push([(f"k{n % 5}", None if n % 7 == 0 else n % 11, n * at, 1) for n in range(50)])
        source.push([(f"k{n % 5}", None if n % 7 == 0 else n % 11, n * at, -1) for n in range(0, 50, 3)])
    for view, keys in ((by_two, ["k", "i"]), (by_one, ["i"])):
        for row in view.read().iter_rows(named=True):
            key = [row[name] for name in keys]
            assert view.lookup(*key).rows(named=True) == [row]
            assert view.lookup(**dict(zip(keys, key, strict=True))).rows(named=True) == [row]
    assert by_two.lookup("k1", 99).is_empty()
    assert sorted(plain.lookup(k="k1").rows()) == sorted(plain.read().filter(pl.col("k") == "k1").rows())


def test_a_look_up_costs_its_key() -> None:
    """Entries of the state that are read follow the key, and not the number of keys."""
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64})
    view = engine.view("v", source.group_by("k").len())
    source.push({"k": list(range(100_000))})
    published = engine.published().views["v"]
    assert view.lookup(7).rows() == [(7, 1)]
    assert published._rows.frame is None, "all rows were made"
    assert not published.versions[0].merged, "all runs were merged"


@pytest.mark.parametrize(
    ("look", "kind", "message"),
    [
        (lambda v: v.lookup(), ec.InputError, "give the values"),
        (lambda v: v.lookup("a", k="a"), ec.InputError, "give the values"),
        (lambda v: v.lookup("a", "b"), ec.InputError, "2 values for the key 'k'"),
        (lambda v: v.lookup({"k": "a"}), ec.InputError, r"not a value of column 'k'; .* lookup\(\*\*row\)"),
        (lambda v: v.lookup(1), ec.InputError, "column 'k' holds 1"),
        (lambda v: v.lookup(q=1), ec.PlanError, "unknown column 'q'"),
        (lambda v: v._engine.views["plain"].lookup("a"), ec.InputError, "have no key"),
    ],
)
def test_a_look_up_that_makes_no_sense_is_refused(look: Any, kind: type[Exception], message: str) -> None:
    engine = ec.Engine()
    source = engine.source("s", COLUMNS)
    view = engine.view("v", source.group_by("k").len())
    engine.view("plain", source)
    with pytest.raises(kind, match=message):
        look(view)


# Time


TIMES = {"k": pl.String, "at": pl.Datetime("us")}


@pytest.mark.parametrize("lateness", ["0s", "1m"])
def test_late_rows_of_windows_with_the_default_late_part(lateness: str) -> None:
    engine = ec.Engine()
    windows = engine.source("s", TIMES, event_time="at").window(ec.fixed("1m")).lateness(lateness)
    late = engine.view("late", windows.trigger(ec.after_watermark()).late_rows())
    engine.advance("s", "2026-01-01 13:00")
    engine.push("s", {"k": ["a"], "at": ["2026-01-01 12:00:30"]})
    assert len(late) == 1


def test_after_watermark_alone_emits_late_rows_as_they_come() -> None:
    engine = ec.Engine()
    source = engine.source("s", TIMES, event_time="at")
    windows = source.window(ec.fixed("1 minute")).trigger(ec.after_watermark()).lateness("1 hour")
    view = engine.view("v", windows.group_by("k").len())
    row = {"k": ["a"], "at": ["2026-01-01 12:00:30"]}
    source.push(row)
    assert view.read().is_empty()
    source.push(row, watermark="2026-01-01 12:02:00")
    assert view.read()["len"].to_list() == [2]
    source.push(row)
    assert view.read()["len"].to_list() == [3], "a late row"
    assert "late=every epoch" in engine.explain()


def test_after_processing_time_counts_from_the_first_row_of_a_pane() -> None:
    engine = ec.Engine()
    source = engine.source("s", TIMES, event_time="at")
    trigger = ec.repeat(ec.after_processing_time("10 seconds"))
    view = engine.view("v", source.window(ec.fixed("1h")).trigger(trigger).group_by("k").len())
    begin = datetime(2026, 1, 1, 12, 0, 3, tzinfo=UTC)
    emitted = []
    for seconds, comes in [
        (0, True),
        (7, True),
        (10, False),
        (12, False),
        (14, True),
        (20, False),
        (24, False),
    ]:
        at = begin + timedelta(seconds=seconds)
        _ = source.push({"k": ["a"] * comes, "at": ["2026-01-01 12:00:00"] * comes}, at=at)
        emitted.append(view.read()["len"].sum())
    assert emitted == [0, 0, 2, 2, 2, 2, 3]
    assert "waits" in view.why() or view.why()


@pytest.mark.parametrize(
    ("written", "means"),
    [("10 minutes", "10m"), ("1 hour 30 minutes", "1h30m"), ("90 seconds", "1m30s"), ("INTERVAL 2 DAYS", "2d"), ("INTERVAL '5' SECOND", "5s"), ("interval '1 hour 5 minutes'", "1h5m"), ("1 week", "7d")],
)  # fmt: skip
def test_lengths_of_time_in_words(written: str, means: str) -> None:
    assert ec.fixed(written) == ec.fixed(means)
    assert ec.bounded_delay(written) == ec.bounded_delay(means)


def test_months_in_words_are_of_the_calendar() -> None:
    assert ec.calendar("1 month") == ec.calendar("1mo")
    with pytest.raises(ec.PlanError, match="no fixed length"):
        ec.fixed("1 month")
    with pytest.raises(ec.PlanError, match="not a length of time"):
        ec.fixed("2 fortnights")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("written", ["2026-01-31 12:00:00", "2026-01-31T12:00:00"])
def test_a_text_is_the_same_instant_in_a_row_and_as_a_watermark(zone: str | None, written: str) -> None:
    engine = ec.Engine()
    dtype = pl.Datetime("us", zone)
    source = engine.source("s", {"at": dtype}, event_time="at", watermark=ec.ascending())
    by_hand = engine.source("t", {"at": dtype}, event_time="at")
    engine.view("v", source.concat(by_hand))
    source.push({"at": [written]})
    by_hand.push({"at": [written]}, watermark=written)
    marks = engine.watermarks
    assert marks["t"] in (marks["s"], marks["s"] + timedelta(microseconds=1))  # type: ignore[operator]


def test_processing_time_as_text() -> None:
    engine = ec.Engine()
    engine.view("v", engine.source("s", {"x": pl.Int64}))
    assert engine.tick(at="2026-01-31T12:00:00+01:00") == 1
    for wrong in ("2026-01-31T12:00:00", "noon", datetime(2026, 1, 1)):
        with pytest.raises(ec.InputError, match="with its zone"):
            engine.tick(at=wrong)


def test_a_local_time_that_is_twice_needs_its_offset() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"at": pl.Datetime("us", "Europe/Berlin")}, event_time="at")
    engine.view("v", source)
    with pytest.raises(ec.InputError, match="no single instant in Europe/Berlin; give its offset"):
        engine.advance("s", "2026-10-25 02:30:00")
    engine.advance("s", "2026-10-25T02:30:00+02:00")
    assert engine.watermarks["s"] == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("mode", ["discarding", "accumulating"])
@pytest.mark.parametrize("always", [False, True, "on_time"])
def test_a_pane_on_time_may_be_emitted_though_nothing_has_changed(mode: Any, always: Any) -> None:
    engine = ec.Engine()
    source = engine.source("s", TIMES, event_time="at")
    windows = source.window(ec.fixed("1m")).trigger(early=ec.each_row(), late=ec.every("1m"), always=always)
    view = engine.view("v", windows.accumulate(mode).with_pane_info().group_by("k").len())
    source.push({"k": ["a"], "at": ["2026-01-01 12:00:30"]}, at="2026-01-01T12:01:00Z")
    engine.advance("s", "2026-01-01 12:02", at="2026-01-01T12:01:10Z")
    engine.tick(at="2026-01-01T12:03:10Z")
    panes = view.read().sort("pane_index").select("timing", "len").rows()
    same = 0 if mode == "discarding" else 1
    assert (
        panes
        == [("EARLY", 1), ("ON_TIME", same), ("LATE", same)][: {False: 1, "on_time": 2, True: 3}[always]]
    )
    assert ("on time also if nothing" in engine.explain()) == (always == "on_time")


def test_what_is_no_always_is_refused() -> None:
    source = ec.Engine().source("s", TIMES, event_time="at")
    with pytest.raises(ec.PlanError, match="'late'; there are True, False and 'on_time'"):
        source.window(ec.fixed("1m")).trigger(ec.each_row(), always="late")  # type: ignore[arg-type]


def test_names_of_other_packages_are_hinted() -> None:
    for name, instead in NAMES.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': .*") as caught:
            getattr(ec, name)
        for used in re.findall(r"\bec\.(\w+)", instead):
            assert used in ec.__all__
        assert caught.value.name == name
    assert not hasattr(ec, "nothing_of_this_name")


def test_a_short_form_that_a_column_does_not_have_is_refused_with_how_to_leave_it_out() -> None:
    source = ec.Engine().source("s", {"k": pl.String, "name": pl.String, "x": pl.Int64})
    for name in ("sum", "mean", "median"):
        with pytest.raises(ec.PlanError, match=rf'col\("name"\).*{name}\(\) is of every column .*\.select'):
            getattr(source.group_by("k"), name)()
    assert source.select("k", "x").group_by("k").sum().columns == ["k", "x"]


@pytest.mark.parametrize("key_hash", [OURS, OF_POLARS])
def test_a_key_is_looked_up_by_the_hash_of_its_circuit(key_hash: KeyHash) -> None:
    """A checkpoint of format 1 keeps the hash that it was begun with."""
    engine = ec.Engine()
    rows = engine.source("rows", {"t": pl.String, "x": pl.Int64}, kind="diffs")
    view = engine.view("sums", rows.group_by("t").agg(s=pl.col("x").sum()))
    engine._running.current().circuit.key_hash = key_hash
    rows.push({"t": ["a", "b"], "x": [1, 2]})
    rows.push({"t": ["a"], "x": [5]})
    assert view.lookup("a").rows() == [("a", 6)]
    assert view.lookup("c").rows() == []
