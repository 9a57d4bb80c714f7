"""An expression that is read into our tree and written back is the same; what is not known is called by its name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import evercurrent as ec
from evercurrent.core.data.errors import PlanError
from evercurrent.views.expressions import polars_tree
from evercurrent.views.expressions.functions import ONE_VALUE, OTHER_ROWS, ROW_BY_ROW, SAME_ROWS
from evercurrent.views.expressions.message_pack import packed, unpacked
from evercurrent.views.expressions.polars_forms import SQL_OPERATORS, functions
from evercurrent.views.expressions.polars_tree import UnreadableError, form_of, read
from evercurrent.views.expressions.polars_writer import write
from evercurrent.views.expressions.tree import Call, Column, Literal, Node
from expressions.catalogue import expressions

CATALOGUE = expressions()
OTHERWISE_IN = {
    (1, 40): (
        "arr.n_unique",
        "arr.reverse",
        "arr.unique",
        "list.n_unique",
        "list.reverse",
        "list.unique",
        "SQL ARRAY_",
    )
}
"""What an old polars wrote as a function of its own, and comes back as what newer ones write."""


def test_the_catalogue_is_large() -> None:
    assert len(CATALOGUE) > 800


def test_what_is_read_is_written_back() -> None:
    for name, expr in CATALOGUE.items():
        node = read(expr)
        if node is None:
            assert "fold" in name or "reduce" in name or "cum_sum_horizontal" in name, (
                name
            )  # They call Python.
            continue
        back = write(node)
        assert read(back) == node, name
        assert hash(read(back)) == hash(node), name
        if not name.startswith(OTHERWISE_IN.get(polars_tree.VERSION, ())):
            assert form_of(back) == form_of(expr), name


def test_a_tree_distinguishes_constants() -> None:
    values = [
        1,
        1.0,
        True,
        -0.0,
        0.0,
        0,
        False,
        "1",
        b"1",
        None,
        float("nan"),
        float("inf"),
        2**70,
        [1],
        [1.0],
    ]
    trees = [read(pl.lit(value)) for value in values]
    for place, one in enumerate(trees):
        assert one == read(pl.lit(values[place]))
        assert all(one != other for other in trees[:place]), one


def test_every_function_has_a_kind() -> None:
    kinds = [ROW_BY_ROW, ONE_VALUE, SAME_ROWS, OTHER_ROWS]
    named = {form.ours for version in ((1, 40), (9, 0)) for form in functions(version)} | set(
        SQL_OPERATORS.values()
    )
    by_options = {"fill_null_by", "random", "struct.select"}
    assert sum(map(len, kinds)) == len(frozenset[str]().union(*kinds)), "no function has two"
    assert named - by_options <= frozenset[str]().union(*kinds)
    assert frozenset[str]().union(*kinds) <= named


@pytest.mark.skipif(
    polars_tree.VERSION < (2, 0), reason="polars answers this for functions of columns since 2.0"
)
def test_polars_calls_functions_what_we_call_them() -> None:
    seen: set[str] = set()

    def check(node: Node) -> None:
        for each in (*node.inputs, *getattr(node, "evaluations", ())):
            check(each)
        if type(node) is not Call or node.function in seen or node.function.startswith(("sql.", "ext.")):
            return
        plain = [
            each if isinstance(each, Literal) and each.value is not None else Column("x")
            for each in node.inputs
        ]
        seen.add(node.function)
        meta = write(node.with_inputs(plain)).meta
        try:
            if node.function in ROW_BY_ROW and node.function != "str.strptime":
                assert meta.is_row_separable(), node
            if node.function in ONE_VALUE:
                assert meta.is_scalar(), node
            if node.function in SAME_ROWS - {"bin", "fill_null_by"}:
                assert meta.is_length_preserving(), node
                assert not meta.is_row_separable(), node
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return  # It needs the types of columns.

    for expr in CATALOGUE.values():
        node = read(expr)
        if node is not None:
            check(node)
    assert len(seen) > 250


# Random expressions

NUMBERS = st.sampled_from(
    [pl.col("x"), pl.col("y"), pl.lit(2), pl.lit(0.5), pl.lit(float("nan")), pl.lit(None, pl.Float64)]
)


def _combined(inner: st.SearchStrategy[pl.Expr]) -> st.SearchStrategy[pl.Expr]:
    pairs: list[Callable[[pl.Expr, pl.Expr], pl.Expr]] = [
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a - b, lambda a, b: pl.max_horizontal(a, b),
        lambda a, b: pl.when(a > b).then(a).otherwise(b), lambda a, b: pl.coalesce(a, b), lambda a, b: a.fill_null(b),
    ]  # fmt: skip
    single: list[Callable[[pl.Expr], pl.Expr]] = [
        lambda a: a.abs(), lambda a: -a, lambda a: a.cast(pl.Float32), lambda a: a.cast(pl.Float64).is_in([1.0, float("nan")]).cast(pl.Float64),
        lambda a: a.round(1), lambda a: a.clip(0, 3), lambda a: a.alias("named"),
    ]  # fmt: skip
    return st.one_of(
        st.builds(lambda f, a, b: f(a, b), st.sampled_from(pairs), inner, inner),
        st.builds(lambda f, a: f(a), st.sampled_from(single), inner),
    )


@given(st.recursive(NUMBERS, _combined, max_leaves=12))
def test_random_expressions_give_the_same_values(expr: pl.Expr) -> None:
    rows = pl.DataFrame({"x": [1.0, -0.0, None, float("nan"), 7.25], "y": [3, None, 0, -2, 5]})
    node = read(expr)
    assert node is not None
    assert_frame_equal(rows.select(out=write(node)), rows.select(out=expr))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_what_is_packed_is_unpacked(value: Any) -> None:
    assert unpacked(packed(value)) == value


# What is not known


class Stub:
    """An expression of a polars that writes it so."""

    def __init__(self, form: object) -> None:
        self.form = form
        self.meta = self

    def serialize(self, *, format: str) -> Any:
        return json.dumps(self.form) if format == "json" else repr(self.form).encode()


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ({"Teleport": {"expr": {"Column": "x"}}}, "Teleport"),
        (
            {"Function": {"input": [{"Column": "x"}], "function": {"StringExpr": "Whisper"}}},
            "Function StringExpr.Whisper",
        ),
        ({"Function": {"input": [{"Column": "x"}], "function": {"Abs": {"of": 1}}}}, "Abs with"),
        (
            {
                "Function": {
                    "input": [{"Column": "x"}],
                    "function": {"CumSum": {"reverse": False, "since": 2}},
                }
            },
            "CumSum with",
        ),
        ({"Agg": {"Guess": {"Column": "x"}}}, "Agg Guess"),
        (
            {"BinaryExpr": {"left": {"Column": "x"}, "op": "Almost", "right": {"Column": "y"}}},
            "BinaryExpr Almost",
        ),
        ({"Literal": {"Scalar": {"Quaternion": [1, 2, 3, 4]}}}, "Literal Scalar Quaternion"),
        ({"Cast": {"expr": {"Column": "x"}, "dtype": {"Literal": "Int7"}, "options": "Strict"}}, "the type"),
        ("Nothing", "Nothing"),
    ],
)
def test_a_form_that_is_not_known_is_called_by_its_name(form: object, named: str) -> None:
    with pytest.raises(
        UnreadableError, match=f"polars {pl.__version__}.*not known here.*{named}.*map_batches"
    ):
        read(Stub(form))  # type: ignore[arg-type]


def test_a_view_names_itself_where_its_expression_is_not_known() -> None:
    rows = ec.Engine().source("rows", {"x": pl.Int64})
    if polars_tree.VERSION < (2, 1):
        pytest.skip("this polars has no such SQL")
    with pytest.raises(PlanError, match=r"source 'rows'.*SubPlan"):
        rows.filter(pl.sql_expr("x NOT IN (SELECT 1)"))


def test_of_a_newer_polars_each_expression_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_tree, "VERSION", (99, 0))
    monkeypatch.setattr(polars_tree, "_known", {})
    assert read(pl.col("x") + 1) == Call("add", (Column("x"), Literal("int", 1)))
    monkeypatch.setattr(polars_tree, "write", lambda node: pl.col("something else"))
    with pytest.raises(UnreadableError, match="another expression"):
        read(pl.col("x") + 2)


def test_what_polars_writes_in_binary_is_message_pack() -> None:
    expr = pl.col("x") * float("inf") + 2**70
    form = form_of(expr)
    assert form is not None
    assert form_of(pl.Expr.deserialize(io.BytesIO(form), format="binary")) == form
    node = read(expr)
    assert node is not None
    assert form_of(write(node)) == form
