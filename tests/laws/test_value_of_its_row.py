"""A value is a function of its row: alone, in company, in any slice and chunk it has the same bits.

Every function that may be computed row by row is called over every type, with edge values (``row_functions``,
``row_cells``). What it gives in a long frame of polars is what it has to give in every other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest

from evercurrent.core.data.columns.polars_versions import SHUFFLED, VERSION
from evercurrent.core.data.columns.row_values import has_element_expression
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.group.aggregates import Column
from evercurrent.views.compiler.builder import selecting
from evercurrent.views.expressions import output_schema, row_expressions
from evercurrent.views.expressions.elementwise import elementwise
from row_cells import BESIDE, CELLS, bits, companies, rows_of
from row_functions import FORMER, LITERALS, NEEDING_MORE, PAIRS, REFUSED, SINGLE

os.environ["RUST_BACKTRACE"] = "0"  # Much of what is computed here polars refuses by a panic.

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, TypeError)
QUICK = os.environ.get("EVERCURRENT_TEST_PROFILE", "quick") == "quick"
ALIKE = (
    pl.Int16(), pl.Int32(), pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt128(), pl.Decimal(12, 4), pl.Datetime("ms"), pl.Datetime("us"),
    pl.Datetime("ms", "Asia/Kolkata"), pl.Duration("us"), pl.Duration("ms"), pl.List(pl.Int8()), pl.List(pl.Datetime("us")),
    pl.List(pl.Duration("us")), pl.Array(pl.Int64(), 2), pl.Array(pl.Boolean(), 2), pl.List(pl.Boolean()),
    pl.Int8(), pl.List(pl.Float32()), pl.List(pl.Int64()), pl.Array(pl.Float64(), 1), pl.Array(pl.String(), 2),
    pl.Struct({"a": pl.Float64(), "b": pl.String()}),
)  # fmt: skip
"""Types that have a like among the others: for the long profile."""

NOT_FUNCTIONS = {"arr", "bin", "cat", "dt", "ext", "list", "meta", "name", "str", "struct"}


def calls(dtype: pl.DataType, *, quick: bool) -> Iterator[tuple[str, pl.Expr]]:
    """All calls of all functions that polars can write down, over a column ``x`` of this type; some, where quick."""
    beside = ("f",) if quick else tuple(BESIDE)
    constants = (49, 0.1) if quick else LITERALS
    x = pl.col("x")
    made: Iterator[tuple[str, Callable[[], pl.Expr]]] = chain(
        ((name, lambda call=call: call(x)) for name, some in {**SINGLE, **FORMER}.items() for call in some),
        ((f"{name}(x, {o})", lambda f=f, o=o: f(x, pl.col(o))) for name, f in PAIRS.items() for o in ("y", "x", *beside)),
        ((f"{name}({o}, x)", lambda f=f, o=o: f(pl.col(o), x)) for name, f in PAIRS.items() for o in beside),
        ((f"{name}(x, {c!r})", lambda f=f, c=c: f(x, pl.lit(c))) for name, f in PAIRS.items() for c in constants),
        ((f"{name}({c!r}, x)", lambda f=f, c=c: f(pl.lit(c), x)) for name, f in PAIRS.items() for c in constants),
    )  # fmt: skip
    for name, make in made:
        try:
            yield name, make().alias("out")
        except (AttributeError, TypeError, ValueError, *FAILURES):
            continue


def accepted(rows: pl.DataFrame, expr: pl.Expr) -> tuple[Column, ...] | None:
    """The columns that the expression is in a view over these columns; None if it cannot stand in one."""
    try:
        rows.clear().select(expr)
        return row_expressions("law", rows.schema, expr)
    except (PlanError, *FAILURES):
        return None


class Outputs:
    """Accepted columns over rows, all computed at once, as they are in one ``select``."""

    def __init__(self, rows: pl.DataFrame, columns: Iterable[Column]) -> None:
        self.columns = [
            replace(column, name=f"out{number}", expr=column.expr.alias(f"out{number}"))
            for number, column in enumerate(columns)
        ]
        self.exprs = [column.expr for column in self.columns]
        self.schema = rows.schema
        self.columns_of = selecting(self.columns, rows.schema)
        self.made = {**output_schema(rows.schema, self.columns), DIFF: pl.Int64()}
        self.rows = rows.with_columns(pl.repeat(1, pl.len(), dtype=pl.Int64).alias(DIFF))

    def compute(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What an operator makes of a change that has these rows, and diffs."""
        delta = Delta(frame)
        return Delta.of_columns(self.columns_of(delta), delta.diffs).frame

    def departure(self) -> str | None:
        """Where a row is given something else than in a long frame of polars; None where it nowhere is."""
        long = pl.concat([self.rows] * (1000 // self.rows.height + 1), rechunk=True)
        try:
            # Where polars itself gives items in a random order, those in the order of the list are computed.
            exprs = [elementwise(expr) for expr in self.exprs] if SHUFFLED else self.exprs
            polars = long.select_seq(*exprs, pl.col(DIFF))[: self.rows.height].cast(self.made)
            expected = self.compute(long)[: self.rows.height].cast(self.made)
        except FAILURES as error:
            return f"many rows: fails, which no row does alone: {str(error).splitlines()[0]}"
        for name in expected.columns:
            if not alike(expected[name], polars[name]):
                return f"{name}: {expected[name].to_list()} where polars gives {polars[name].to_list()}"
        if minus := minus_zeros(expected):
            return f"{minus}: a zero below zero"
        for where, frame, places in companies(self.rows, quick=QUICK):
            try:
                found = self.compute(frame).cast(
                    self.made
                )  # As an operator does, for what is null throughout.
            except FAILURES as error:
                return f"{where}: fails, which no row does alone: {str(error).splitlines()[0]}"
            if minus := minus_zeros(found):
                return f"{where}: {minus}: a zero below zero, which is equal to one above and not the same"
            if found.schema != expected.schema:
                return f"{where}: {found.schema} for {expected.schema}"
            if not found.equals(expected[places]):
                return f"{where}: {difference(self.rows, places, found, expected[places])}"
        return None


def alike(ours: pl.Series, polars: pl.Series) -> bool:
    """Whether polars gives the same; but for the last bits of one float, where it depends on the frame that polars has."""
    if ours.equals(polars):
        return True
    if not ours.dtype.is_float():
        return False
    near = 1e-12 if ours.dtype == pl.Float64 else 1e-5
    return bool(
        ours.is_close(polars, abs_tol=near, rel_tol=near, nans_equal=True).fill_null(True).all()
    ) and bool((ours.is_null() == polars.is_null()).all())


def minus_zeros(frame: pl.DataFrame) -> list[str]:
    """The columns in which a zero at any depth is below zero; plain columns all at once."""
    schema = frame.schema
    floats = cs.float().as_expr()
    flags = frame.select_seq(((floats == 0) & (1 / floats < 0)).any())
    nested = [name for name, dtype in schema.items() if dtype.is_nested() and "Float" in str(dtype)]
    return [
        *(name for name in flags.columns if flags[name][0]),
        *(name for name in nested if has_minus_zero(frame[name])),
    ]


def has_minus_zero(values: pl.Series) -> bool:
    """Whether a zero at any depth is below zero."""
    kind = str(values.dtype)
    if "Float" not in kind:
        return False
    if isinstance(values.dtype, pl.Struct):
        return any(map(has_minus_zero, values.struct.unnest().get_columns()))
    if "Int128" in kind:
        return has_minus_zero(values.explode())  # Arrow has no such integers.
    return _has_minus_zero(values.to_arrow())


def _has_minus_zero(values: Any) -> bool:
    if pa.types.is_struct(values.type):
        return any(map(_has_minus_zero, values.flatten()))
    if pa.types.is_nested(values.type):
        return _has_minus_zero(values.flatten())
    if not pa.types.is_floating(values.type):
        return False
    floats = values.drop_null().to_numpy(zero_copy_only=False)
    return bool(((floats == 0) & np.signbit(floats)).any())


def difference(rows: pl.DataFrame, places: list[int], found: pl.DataFrame, expected: pl.DataFrame) -> str:
    for name in found.columns:
        pairs = zip(places, bits(found[name]), bits(expected[name]), strict=True)
        for place, one, other in pairs:
            if one != other and not found[name].equals(expected[name]):
                return f"{name}: of {rows['x'][place]!r} comes {one} for {other}"
    return "differs"


def fails(many: pl.DataFrame, columns: tuple[Column, ...], expr: pl.Expr) -> bool:
    """Whether polars raises, for some of many rows, what it is to raise whatever stands beside."""
    try:
        made = {**output_schema(many.schema, columns), "__i": pl.Int64()}
        many.select_seq(expr, pl.col("i").alias("__i")).cast(made)
    except FAILURES:
        return True
    return False


def departures(dtype: pl.DataType, *, quick: bool) -> Iterator[str]:
    """What the law finds over a column of this type, by name of the call."""
    rows = rows_of(dtype)
    many = pl.concat([rows] * (1000 // rows.height))
    known = [
        (name, expr, columns)
        for name, expr in calls(dtype, quick=quick)
        if not (name == "cast" and "Struct" in str(dtype)) and (columns := accepted(rows, expr)) is not None
    ]  # A struct that is cast to a number is one to polars' types, and a struct of numbers to its rows.
    together: dict[bool, list[tuple[str, tuple[Column, ...]]]] = {False: [], True: []}
    for name, expr, columns in known:
        if fails(many, columns, expr):
            if quick:
                continue  # What fails is loud: the long profile looks at what is left of it.
            yield from ((f"{name}: {where}") for where in [failing_alike(rows, columns)] if where)
        else:
            together[has_element_expression(expr)].append((name, columns))
    for some in together.values():
        if some and Outputs(rows, chain.from_iterable(columns for _, columns in some)).departure():
            for name, columns in some:
                where = Outputs(rows, columns).departure()
                if where and where.startswith("many rows: fails"):
                    where = failing_alike(rows, columns)
                if where:
                    yield f"{name}: {where}"


def failing_alike(rows: pl.DataFrame, columns: Iterable[Column]) -> str | None:
    """Which row fails alone and not in company, or in company and not alone; else what the sound rows give."""
    outputs = Outputs(rows, columns)
    failing = [place for place in range(rows.height) if not computes(outputs, outputs.rows.slice(place, 1))]
    sound = [place for place in range(rows.height) if place not in failing]
    if any(computes(outputs, outputs.rows[[*sound, place]]) for place in failing):
        return "a row fails alone, and not in company"
    if not sound or not computes(outputs, outputs.rows[sound]):
        return None  # What fails is loud, and changes nothing.
    where = Outputs(rows[sound], columns).departure()
    return None if where and where.startswith("many rows: fails") else where  # Loud in polars as well.


def computes(outputs: Outputs, frame: pl.DataFrame) -> bool:
    try:
        outputs.compute(frame).cast(outputs.made)
    except FAILURES:
        return False
    return True


@pytest.mark.parametrize("dtype", [dtype for dtype in CELLS if not (QUICK and dtype in ALIKE)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_every_function_gives_a_row_the_same_in_any_company(dtype: pl.DataType) -> None:
    found = list(departures(dtype, quick=QUICK))
    assert not found, "\n".join(found)


def test_every_function_of_polars_is_known_here() -> None:
    """So that one that comes with a new version is swept, or refused, and not taken on trust."""
    known = {name.split("/")[0] for name in (*SINGLE, *PAIRS, *REFUSED)} | NEEDING_MORE | NOT_FUNCTIONS
    if VERSION < (2, 0):
        known |= FORMER.keys()
    names = {name for name in dir(pl.Expr) if not name.startswith("_")}
    for space in sorted(NOT_FUNCTIONS - {"meta"}):
        names |= {f"{space}.{name}" for name in dir(getattr(pl.col("x"), space)) if not name.startswith("_")}
    assert names <= known
    if VERSION >= (2, 1):  # Those before it lack some of them.
        assert known & names >= {name for name in known if not name.startswith("pl.") and " " not in name}


def test_what_looks_at_other_rows_is_refused() -> None:
    schema = pl.Schema({"x": pl.Float64})
    assert len(REFUSED) > 60
    for name, (call,) in REFUSED.items():
        if not hasattr(pl.Expr, name):
            assert VERSION < (2, 1), name
            continue
        with pytest.raises(PlanError):
            pytest.fail(f"{name} is accepted: {row_expressions('law', schema, call(pl.col('x')))}")
