"""What a user of polars types first: it works, or is refused with the reason and the way out."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from typer.testing import CliRunner

import evercurrent as ec
from evercurrent.views.cli import app
from harness import contents

COLUMNS = {"k": pl.Int64(), "x": pl.String(), "f": pl.Float64(), "l": pl.List(pl.Int64)}
OTHER = {"k": pl.Int64(), "i": pl.Int64(), "y": pl.String()}


def declared() -> tuple[ec.Engine, Any, Any]:
    """An engine with two sources; typed loosely, since what is wrong is given to them too."""
    engine = ec.Engine()
    return engine, engine.source("orders", COLUMNS, kind="diffs"), engine.source("other", OTHER)


def refusal(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# Names of columns, as polars takes them


SAME: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "join on=": (lambda s, o: s.join(o, on=pl.col("k")), lambda s, o: s.join(o, on="k")),
    "join on a list": (
        lambda s, o: s.join(o, left_on=[pl.col("k"), "x"], right_on=["i", pl.col("y")]),
        lambda s, o: s.join(o, left_on=["k", "x"], right_on=["i", "y"]),
    ),
    "join with what is the default": (
        lambda s, o: s.join(o, on="k", validate="m:m", maintain_order="none"),
        lambda s, o: s.join(o, on="k"),
    ),
    "group_by with what is the default": (
        lambda s, o: s.group_by("k", maintain_order=False).agg(pl.len()),
        lambda s, o: s.group_by("k").agg(pl.len()),
    ),
    "unique with what is the default": (
        lambda s, o: s.drop("l").unique(None, keep="any", maintain_order=False),
        lambda s, o: s.drop("l").unique(),
    ),
    "top_k": (lambda s, o: s.top_k(2, by=pl.col("f")), lambda s, o: s.top_k(2, by="f")),
    "limit by a selector": (
        lambda s, o: s.group_by("x").limit(2, by=cs.numeric()),
        lambda s, o: s.group_by("x").limit(2, by=["k", "f"]),
    ),
    "drop a selector": (lambda s, o: s.drop(cs.numeric()), lambda s, o: s.drop("k", "f")),
    "drop what is not there": (lambda s, o: s.drop("k", "q", strict=False), lambda s, o: s.drop("k")),
    "explode": (lambda s, o: s.explode(pl.col("l")), lambda s, o: s.explode("l")),
    "rename by a function": (
        lambda s, o: s.rename(str.upper),
        lambda s, o: s.rename({name: name.upper() for name in COLUMNS}),
    ),
    "rename what is not there": (
        lambda s, o: s.rename({"q": "z", "k": "z"}, strict=False),
        lambda s, o: s.rename({"k": "z"}),
    ),
    "cast by type": (lambda s, o: s.cast({pl.Int64: pl.Int32}), lambda s, o: s.cast({"k": pl.Int32})),
    "cast by selector": (
        lambda s, o: s.cast({cs.float(): pl.Float32}),
        lambda s, o: s.cast({"f": pl.Float32}),
    ),
    "pipe": (
        lambda s, o: s.pipe(lambda c, other, how: c.join(other, on="k", how=how), o, how="left"),
        lambda s, o: s.join(o, on="k", how="left"),
    ),
}


@pytest.mark.parametrize("form", SAME)
def test_two_ways_to_write_the_same_are_one_plan(form: str) -> None:
    engine, source, other = declared()
    one, two = (build(source, other) for build in SAME[form])
    nodes = [engine.view("one", one), engine.view("two", two)]
    assert nodes[0].schema == nodes[1].schema
    assert nodes[0]._place == nodes[1]._place


def test_what_changes_nothing_is_the_collection_itself() -> None:
    source = declared()[1]
    for same in (
        source.drop(),
        source.rename({}),
        source.cast({}),
        source.cast({"k": int}),
        source.with_columns(),
    ):
        assert same is source


def test_a_step_is_called_by_what_it_changes() -> None:
    source = declared()[1]
    for step, label in ((source.drop("l"), "drop l"), (source.rename({"k": "z"}), "rename k to z")):
        assert repr(step).startswith(f"Collection({label}: ")


def test_a_field_of_a_struct_with_the_name_of_another_column_is_refused_when_it_is_declared() -> None:
    engine = ec.Engine()
    pair = pl.Struct({"at": pl.Datetime("us"), "x": pl.Int64})
    hits = engine.source("hits", {"x": pl.Int64, "at": pl.Datetime("us"), "pair": pair}, event_time="at")
    windowed = hits.window(ec.fixed("1m")).select("pair")
    with pytest.raises(
        ec.PlanError, match=r"'at' of column 'pair' .* kept as the event time; rename the field before"
    ):
        windowed.unnest("pair")
    with pytest.raises(ec.PlanError, match=r"'x' of column 'pair' would have the name of column 'x'; rename"):
        hits.select("x", "pair").unnest("pair")
    with pytest.raises(
        ec.PlanError, match=r"'at' of column 'other' would have the name of field 'at' of column 'pair'"
    ):
        hits.select("pair", other="pair").unnest()
    renamed = windowed.with_columns(pl.col("pair").struct.rename_fields(["when", "x"])).unnest("pair")
    assert [*renamed.schema] == ["when", "x", "window_start", "window_end", "at"]


def test_all_structs_are_unnested_where_none_is_named() -> None:
    engine = ec.Engine()
    schema = {"a": pl.Struct({"p": pl.Int64}), "b": pl.Int64, "c": pl.Struct({"q": pl.Int64})}
    view = engine.view("v", engine.source("s", schema).unnest())
    engine.push("s", [{"a": {"p": 1}, "b": 2, "c": {"q": 3}}])
    assert (view.columns, view.read().rows()) == (["p", "b", "q"], [(1, 2, 3)])


# What is refused at the declaration


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], list[str]]] = {
    "join: computed key": (
        lambda s, o: s.join(o, left_on=pl.col("k") % 2, right_on="k"),
        ["%", "computed", "with_columns"],
    ),
    "join: renamed key": (lambda s, o: s.join(o, on=pl.col("k").alias("i")), ["computed"]),
    "join: unknown key by expression": (lambda s, o: s.join(o, on=pl.col("q")), ["'q'", "'k', 'x'"]),
    "join: a number as key": (lambda s, o: s.join(o, on=1), ["int", "names"]),
    "join: both ways of keys": (lambda s, o: s.join(o, on="k", left_on="k", right_on="k"), ["not with both"]),
    "join: validate": (lambda s, o: s.join(o, on="k", validate="1:1"), ["'1:1'", "later", "agg"]),
    "join: order": (lambda s, o: s.join(o, on="k", maintain_order="left"), ["'left'", "no order", "sort"]),
    "join: a frame": (lambda s, o: s.join(pl.DataFrame({"k": [1]}), on="k"), ["DataFrame", "source"]),
    "join: groups": (lambda s, o: s.join(o.group_by("k"), on="k"), ["'other' by k", ".agg("]),
    "top_k: computed": (lambda s, o: s.top_k(1, by=pl.col("f") * 2), ["computed", "with_columns"]),
    "top_k: no order": (lambda s, o: s.top_k(1), ["no order", "by="]),
    "limit: no order": (lambda s, o: s.limit(3), ["no order", "by="]),
    "limit: two flags": (lambda s, o: s.limit(3, by="k", descending=[True, False]), ["2 flags", "1 column"]),
    "group_by: order": (lambda s, o: s.group_by("k", maintain_order=True), ["no order", "sort"]),
    "unique: once": (lambda s, o: s.unique("k", keep="none"), ["'none'", "'first'", "pl.len()"]),
    "unique: an order of any": (lambda s, o: s.unique("k", by="f"), ["keep='any'", "keep='last'"]),
    "unique: keep": (lambda s, o: s.unique("k", keep="first"), ["keep=", "limit(1, by="]),
    "unique: order": (lambda s, o: s.unique(maintain_order=True), ["no order"]),
    "filter: a mask": (lambda s, o: s.filter([True, False]), ["position", "condition"]),
    "filter: a mask of numpy": (lambda s, o: s.filter(np.array([True])), ["position", "condition"]),
    "agg: a dictionary": (lambda s, o: s.group_by("k").agg({"f": "sum"}), ["dictionary", "keyword"]),
    "explode: no list": (lambda s, o: s.explode("k"), ["'k'", "list"]),
    "explode: computed": (lambda s, o: s.explode(pl.col("l").list.head(1)), ["computed"]),
    "cast: no type": (lambda s, o: s.cast({"k": "Int32"}), ["Int32", "pl.Int64"]),
    "cast: no type for all": (lambda s, o: s.cast("number"), ["number", "pl.Int64"]),
    "map_batches: no type": (
        lambda s, o: s.map_batches(lambda f: f, schema={"k": "Int64"}),
        ["'k'", "Int64"],
    ),
    "rename: a function that merges": (lambda s, o: s.rename(lambda name: "z"), ["'z'", "twice"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_collection_cannot_do_is_refused_with_a_way_out(case: str) -> None:
    build, words = REFUSED[case]
    engine, source, other = declared()
    message = refusal(ec.PlanError, lambda: build(source, other))
    assert message.startswith(f"{case.partition(':')[0]} on source 'orders': ")
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message
    assert engine.plan.number_of_nodes() == 2


def test_concat_of_nothing_is_refused() -> None:
    assert "at least one" in refusal(ec.PlanError, lambda: ec.concat([]))


# Methods of polars' frames


@pytest.mark.parametrize("kind", ["source", "collection", "view"])
def test_every_method_of_a_lazy_frame_is_there_or_its_absence_is_explained(kind: str) -> None:
    engine, source, _ = declared()
    found = {"source": source, "collection": source.unique(), "view": engine.view("v", source)}[kind]
    missing = [name for name in dir(pl.LazyFrame) if not name.startswith("_") and not hasattr(found, name)]
    assert {"sort", "tail", "collect", "group_by_dynamic", "join_asof"} <= set(missing)
    assert ("head" in missing) == (kind != "view"), "what a view holds can be looked at"
    for name in missing:
        assert refusal(AttributeError, lambda name=name: getattr(found, name)).startswith(
            f"a collection has no {name!r}: "
        )


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sort", "no order"),
        ("head", ".limit(n, by=...)"),
        ("tail", ".limit(n, by=...)"),
        ("shift", "sort_by"),
        ("with_row_index", "no order"),
        ("rolling", "ec.sliding"),
        ("group_by_dynamic", "ec.fixed"),
        ("upsample", "dt.truncate"),
        ("join_asof", "max_by"),
        ("join_where", "cross"),
        ("collect", "view.read()"),
        ("write_parquet", "view.read()"),
        ("sum", ".agg("),
        ("fill_null", "with_columns"),
        ("drop_nulls", "is_not_null"),
        ("groupby", "group_by"),
        ("groupBy", "group_by"),
        ("where", ".filter("),
        ("withColumn", ".with_columns("),
        ("dropDuplicates", ".unique()"),
        ("toPandas", "view.to_pandas()"),
        ("writeStream", "view.subscribe(f)"),
        ("awaitTermination", "engine.push"),
        ("withWatermark", "bounded_delay"),
        ("orderBy", "no order"),
        ("read", "engine.view"),
        ("k", "pl.col('k')"),
    ],
)
def test_the_way_out_of_a_missing_method(name: str, word: str) -> None:
    assert word in refusal(AttributeError, lambda: getattr(declared()[1], name))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("having", ".filter("),
        ("count", ".len()"),
        ("avg", ".mean()"),
        ("pivot", "filter"),
        ("head", ".limit("),
    ],
)
def test_the_way_out_of_a_missing_method_of_groups(name: str, word: str) -> None:
    assert word in refusal(AttributeError, lambda: getattr(declared()[1].group_by("k"), name))


def test_a_misspelled_name_is_an_ordinary_error_of_python() -> None:
    source = declared()[1]
    with pytest.raises(AttributeError) as caught:
        source.filtre  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("filtre", source)
    assert not hasattr(source, "_ipython_display_")
    assert copy.copy(source).name == "orders"


# Sources, views and readers


BAD_SCHEMAS: dict[str, tuple[Any, list[str]]] = {
    "none": (None, ["NoneType", "pl.Int64"]),
    "a list": (["a", "b"], ["list", "pl.Int64"]),
    "a name of a type": ({"a": "Int64"}, ["'a'", "'Int64'"]),
    "a list of anything": ({"a": pl.List}, ["'a'", "List"]),
    "an enum of anything": ({"a": pl.Enum}, ["'a'", "Enum"]),
}


@pytest.mark.parametrize("bad", BAD_SCHEMAS)
def test_a_schema_with_too_little_in_it_is_refused(bad: str) -> None:
    schema, words = BAD_SCHEMAS[bad]
    message = refusal(ec.PlanError, lambda: ec.Engine().source("new", schema))
    assert [word for word in ["source 'new'", *words] if word not in message] == []


def test_types_of_python_are_types() -> None:
    source = ec.Engine().source("s", {"a": int, "b": str, "c": pl.Datetime})
    assert source.schema == pl.Schema({"a": pl.Int64, "b": pl.String, "c": pl.Datetime("us")})


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_name_is_text(name: Any) -> None:
    engine, source, _ = declared()
    assert "name" in refusal(ec.PlanError, lambda: engine.view(name, source))
    assert "name" in refusal(ec.PlanError, lambda: engine.source(name, COLUMNS))


def test_a_view_of_something_else_is_refused_with_what_it_was() -> None:
    engine, source, _ = declared()
    assert ".agg(" in refusal(ec.PlanError, lambda: engine.view("v", source.group_by("k")))
    assert "DataFrame" in refusal(ec.PlanError, lambda: engine.view("v", cast(Any, pl.DataFrame())))


def test_rows_as_tuples_are_in_the_order_of_the_columns() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int8, "b": pl.String}, kind="diffs"))
    engine.push("s", [(1, "p"), (2, None)])
    engine.push("s", [(1, "p", -1), (3, "q", 2)])
    engine.push("s", [])
    assert contents(view).counts == {(2, None): 1, (3, "q"): 2}
    assert engine.epoch_number == 3


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("count", [2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_a_count_that_is_too_large_is_refused_the_least_integer_too(count: int, trusted: bool) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}, kind="diffs", trusted=trusted))
    rows = pl.DataFrame({"a": [1, 2], "_diff": [count, 1]})
    assert "holds a count of 2147483648 or more" in refusal(ec.InputError, lambda: engine.push("s", rows))
    assert view.read().is_empty()
    assert engine.ledger().is_empty()


def test_a_diff_that_only_a_late_row_has_is_not_lost() -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("s", {"a": pl.Int64}, kind="diffs"))
    rows: list[dict[str, int]] = [{"a": 1}] * 200
    assert "'_diff' is null in row 0" in refusal(
        ec.InputError, lambda: engine.push("s", [*rows, {"a": 1, "_diff": -1}])
    )
    engine.push("s", [{**row, "_diff": 1} for row in rows] + [{"a": 1, "_diff": -1}])
    assert view.read().height == 199


BAD_ROWS: dict[str, tuple[Any, list[str]]] = {
    "nothing": (None, ["NoneType"]),
    "a path": ("rows.csv", ["str"]),
    "too few values": ([(1,)], ["1 values", "'a', 'b'"]),
    "text for numbers": ({"a": ["1"], "b": ["p"]}, ["'a'", "Int8", '"1"']),
    "too large a number": ([{"a": 1000, "b": "p"}], ["'a'", "Int8", "1000"]),
    "a plan that fails": (pl.LazyFrame({"a": [1]}).select("q"), ["LazyFrame", "q"]),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_are_no_frame_are_refused_in_one_line(bad: str) -> None:
    data, words = BAD_ROWS[bad]
    engine = ec.Engine()
    engine.source("s", {"a": pl.Int8, "b": pl.String}, kind="diffs")
    message = refusal(ec.InputError, lambda: engine.push("s", data))
    assert [word for word in ["source 's'", *words] if word not in message] == [], message
    assert "\n" not in message
    assert engine.epoch_number == 0


def test_options_of_the_engine_are_checked_before_any_data() -> None:
    engine, source, _ = declared()
    view = engine.view("v", source)
    assert "callback" not in refusal(ec.PlanError, lambda: view.subscribe(cast(Any, "print")))
    assert "'q'" in refusal(ec.PlanError, lambda: view.changes(key="q"))
    assert "rows=None" in refusal(ec.PlanError, lambda: ec.Retain(rows=cast(Any, None)))
    assert "epochs=-1" in refusal(ec.PlanError, lambda: ec.Retain(epochs=-1))
    assert "Retain(" in refusal(ec.PlanError, lambda: ec.Engine(retain=cast(Any, 5)))
    assert "'now'" in refusal(ec.InputError, lambda: engine.push("orders", [], at=cast(Any, "now")))


def numbers() -> tuple[ec.Engine, ec.View]:
    engine = ec.Engine()
    return engine, engine.view("v", engine.source("s", {"n": pl.Int64}))


def test_all_subscribers_receive_epochs_in_order_also_where_one_of_them_pushes() -> None:
    engine, view = numbers()
    received: list[tuple[str, int]] = []

    def pushing(delta: pl.DataFrame) -> None:
        received.append(("pushing", delta["_epoch"][0]))
        if delta["n"][0] < 3:
            engine.push("s", {"n": [delta["n"][0] + 1]})

    view.subscribe(pushing)
    view.subscribe(lambda delta: received.append(("other", delta["_epoch"][0])))
    engine.push("s", {"n": [1]})
    assert received == [(who, epoch) for epoch in (1, 2, 3) for who in ("pushing", "other")]


def test_a_subscriber_that_comes_during_a_delivery_receives_each_epoch_once() -> None:
    engine, view = numbers()
    other = engine.view("w", view.filter(pl.col("n") > 0))
    received: list[int] = []

    def subscribe_once(delta: pl.DataFrame) -> None:
        if delta["_epoch"][0] == 1:
            other.subscribe(lambda late: received.append(late["_epoch"][0]), since=0)

    view.subscribe(subscribe_once)
    for n in (1, 2):
        engine.push("s", {"n": [n]})
    assert received == [1, 2]


def test_who_pushes_while_it_catches_up_misses_nothing() -> None:
    engine, view = numbers()
    engine.push("s", {"n": [1]})
    received: list[int] = []

    def pushing(delta: pl.DataFrame) -> None:
        received.append(delta["n"][0])
        if delta["n"][0] < 3:
            engine.push("s", {"n": [delta["n"][0] + 1]})

    view.subscribe(pushing, since=0)
    engine.push("s", {"n": [7]})
    assert received == [1, 2, 3, 7]


def test_a_subscription_closed_by_another_receives_no_more() -> None:
    engine, view = numbers()
    received: list[pl.DataFrame] = []
    later: list[Any] = []
    view.subscribe(lambda delta: later[0].close())
    later.append(view.subscribe(received.append))
    engine.push("s", {"n": [1]})
    assert received == []


# What is shown


def test_plans_are_readable_also_where_expressions_are_long() -> None:
    engine, source, _ = declared()
    long = (
        (pl.col("x") == 'a "quoted" <b>#1;</b>') | (pl.col("f") * 17 + 4 > 100) | pl.col("k").is_in(range(9))
    )
    engine.view("short", source.filter(pl.col("k") > 1))
    engine.view("<long>", source.filter(long))
    engine.view("wide", source.select(**{f"column_{n}": pl.col("k") + n for n in range(50)}))
    engine.push("orders", pl.DataFrame(schema=COLUMNS))
    text, mermaid = engine.explain(), engine.explain(format="mermaid")
    assert 'filter col("k") > 1 ' in text
    assert max(map(len, text.splitlines())) <= 120
    assert max(map(len, mermaid.splitlines())) <= 250
    assert "#35;1" in mermaid
    assert "&lt;long&gt;" in mermaid
    nodes = [line for line in mermaid.splitlines() if '["' in line or '[("' in line]
    assert len(nodes) == 5
    assert all("rows out" in node and "bytes" in node and " s" in node for node in nodes)


def test_one_refused_row_is_one_row() -> None:
    engine, source, _ = declared()
    engine.view("v", source)
    engine.push("orders", [{"k": 1, "x": "a", "f": 0.5, "l": [], "_diff": -1}])
    assert engine.explain().endswith("ledger: 1 refused row")


def test_everything_shows_what_it_is() -> None:
    engine = ec.Engine()
    source = engine.source("s", {"n": pl.Int64}, kind="diffs")
    view = engine.view("<v>", source.filter(pl.col("n") > 0))
    subscription = view.subscribe(lambda delta: None)
    engine.push("s", [(1,), (2,)])
    assert repr(source) == "Source 's' of kind diffs: n Int64"
    assert repr(source.filter(pl.col("n") > 0)) == 'Collection(filter col("n") > 0: n Int64)'
    assert repr(source.group_by("n")) == "GroupedCollection(source 's' by n)"
    assert repr(view).startswith("View '<v>' at epoch 1\nshape: (2, 1)")
    assert repr(view.deltas(since=0)).startswith("Deltas of view '<v>' after epoch 0\nshape: (2, 3)")
    assert repr(subscription) == "Subscription(view '<v>')"
    subscription.close()
    assert repr(subscription) == "Subscription(view '<v>', closed)"
    for html in (engine._repr_html_(), view._repr_html_(), view.deltas()._repr_html_()):
        assert "<b>&lt;v&gt;</b>" in html
    assert "<td>source</td><td><b>s</b></td><td>n</td>" in engine._repr_html_()


# The command line


def error_of(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> str:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code in (1, 2)
    return " ".join(done.output.split())


def test_an_application_that_declares_wrongly_is_named_with_the_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ["import evercurrent as ec", "engine = ec.Engine()", "engine.source('s', {})"]
    (tmp_path / "wrong.py").write_text("\n".join(lines))
    message = error_of(monkeypatch, tmp_path, "explain", "wrong.py")
    assert message.startswith("error: wrong.py: source 's': no columns")
    assert message.endswith("(wrong.py, line 3)")


APPS: dict[str, tuple[str, str, list[str]]] = {
    "a syntax error": ("wrong.py", "engine = (", ["wrong.py, line 1"]),
    "an engine that takes arguments": ("wrong.py", "def engine(x): ...", ["engine() missing"]),
    "a file of another kind": ("./notes.txt", "words", ["not a Python file", ".py"]),
    "a file without its path": ("notes.txt", "words", ["no module", "Python file"]),
}


@pytest.mark.parametrize("case", APPS)
def test_an_application_that_is_none_is_named_without_our_own_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    name, text, words = APPS[case]
    (tmp_path / name).write_text(text)
    message = error_of(monkeypatch, tmp_path, "explain", name)
    assert [word for word in words if word not in message] == [], message
    assert "frozen" not in message
    assert "applications.py" not in message


def test_a_quote_that_is_not_closed_is_found_by_its_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = (
        "import evercurrent as ec\nengine = ec.Engine()\nengine.view('v', engine.source('s', {'a': str}))\n"
    )
    (tmp_path / "one.py").write_text(module)
    (tmp_path / "a.csv").write_text('a\nx\ny\n"z\n')
    message = error_of(monkeypatch, tmp_path, "run", "one.py", "--input", "s=a.csv")
    assert "a.csv: row 3: the line or quoted value that starts at byte 6 is not closed" in message


def test_what_an_option_should_look_like_is_shown_with_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "SOURCE=PATH" in error_of(monkeypatch, tmp_path, "run", "retail", "--input", "orders")
    assert "VIEW=PATH" in error_of(monkeypatch, tmp_path, "run", "retail", "--deltas", "tiers")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("collect", "use .read()"), ("show", "use .read()"), ("toPandas", "use .to_pandas()"), ("shape", "use .read().shape"),
        ("tail", ".read().sort(...)"), ("writeStream", "use .subscribe(f)"), ("explain", "engine.explain()"),
    ],
)  # fmt: skip
def test_a_view_does_not_propose_to_declare_a_view(name: str, remedy: str) -> None:
    engine, source, _ = declared()
    message = refusal(AttributeError, lambda: getattr(engine.view("v", source), name))
    assert remedy in message
    assert "declare a view" not in message


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("GroupBy", "use .group_by"), ("Filter", "use .filter"), ("with_column", ".with_columns(name=...)"), ("orderby", "no order")],
)  # fmt: skip
def test_names_in_another_case_are_recognized(name: str, remedy: str) -> None:
    _, source, _ = declared()
    assert remedy in refusal(AttributeError, lambda: getattr(source, name))
    assert "use .len" in refusal(AttributeError, lambda: source.group_by().Len)


def test_an_expression_of_sql_is_recognized() -> None:
    _, source, _ = declared()
    for call in (lambda: source.filter("x > 1"), lambda: source.select("upper(x)")):
        assert "pl.sql_expr(...)" in refusal(ec.PlanError, call)
    assert "sql_expr" not in refusal(ec.PlanError, lambda: source.select("xx"))
