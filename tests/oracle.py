"""The slow, plain truth: every operator over a dictionary from row to diff. Imports nothing of ours.

A ``Bag`` has the methods of a ``Collection``, so one plan text runs on both. What adds up is done on the
dictionary, for any diffs. The rest is handed to polars: batch evaluation of the expanded rows *is* the
definition of a grouping, polars' own join of the distinct rows (whose diffs multiply) that of a join.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import polars as pl

Row = tuple[Any, ...]
By = str | pl.Expr | Sequence[str | pl.Expr]

DIFF = "_diff"
COUNTING = re.compile(r"(^len|\.count|\.null_count|\.n_unique)\(\)$")
NAN = math.nan
LARGEST = 20_000


class TooLargeError(Exception):
    """The oracle refuses to expand this many rows."""


def freeze(cell: Any) -> Any:
    """A cell as a dictionary key. As in polars, all NaN are one value and -0.0 is 0.0.

    >>> freeze([-0.0, {"a": float("nan")}]) == (0.0, (NAN,))
    True
    """
    match cell:
        case float():
            return NAN if math.isnan(cell) else cell + 0.0
        case list():
            return tuple(map(freeze, cell))
        case pl.Series():
            return tuple(map(freeze, cell.to_list()))
        case dict():
            return tuple(map(freeze, cell.values()))
    return cell


def thaw(cell: Any, dtype: pl.DataType) -> Any:
    """A frozen cell as polars takes it."""
    if cell is None:
        return None
    if isinstance(dtype, pl.List | pl.Array):
        return [thaw(each, cast(pl.DataType, dtype.inner)) for each in cell]
    if isinstance(dtype, pl.Struct):
        return {
            field.name: thaw(each, cast(pl.DataType, field.dtype))
            for field, each in zip(dtype.fields, cell, strict=True)
        }
    return cell


def rows_of(frame: pl.DataFrame) -> list[Row]:
    """The rows of a frame, frozen."""
    return [tuple(map(freeze, row)) for row in frame.iter_rows()]


def frame_of(schema: pl.Schema, rows: Iterable[Row]) -> pl.DataFrame:
    """Rows as a frame, column by column so that no type is guessed."""
    rows = list(rows)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pl.DataFrame(
        [
            pl.Series(name, [thaw(cell, dtype) for cell in column], dtype=dtype)
            for (name, dtype), column in zip(schema.items(), columns, strict=True)
        ]
    )


def counted(schema: pl.Schema, counts: Iterable[str]) -> pl.Schema:
    """The types of polars, with ours for counts: Int64, since a count of rows with diffs has a sign."""
    assert all(schema[name] == pl.UInt32 for name in counts), "polars counts in UInt32"
    return pl.Schema({name: pl.Int64() if name in counts else dtype for name, dtype in schema.items()})


def without(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """The rows without some columns.

    Out of the columns themselves: ``drop`` starts a query, and loses the rows before polars 2.0 where no column is left.
    """
    gone = set(names)
    left = [frame.get_column(name) for name in frame.columns if name not in gone]
    return pl.DataFrame(left) if left else pl.DataFrame(height=frame.height)


class Bag:
    """A collection: its columns and the diff of each row, zeros left out."""

    def __init__(self, schema: pl.Schema | Mapping[str, Any], counts: Mapping[Row, int]) -> None:
        self.schema = pl.Schema(schema)
        self.counts: dict[Row, int] = {row: n for row, n in counts.items() if n}

    @staticmethod
    def of(frame: pl.DataFrame) -> Bag:
        """The contents of a frame; without a column ``_diff`` each row counts once."""
        diffs = frame[DIFF].to_list() if DIFF in frame.columns else [1] * frame.height
        rows = without(frame, [DIFF])
        return Bag.weighed(rows, diffs)

    @staticmethod
    def weighed(rows: pl.DataFrame, diffs: Iterable[int]) -> Bag:
        counts: Counter[Row] = Counter()
        for row, n in zip(rows_of(rows), diffs, strict=True):
            counts[row] += n
        return Bag(rows.schema, counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        ordered = sorted(self.counts.items(), key=repr)
        return f"Bag({dict(self.schema)}, {{{', '.join(f'{row}: {n:+d}' for row, n in ordered)}}})"

    @property
    def columns(self) -> list[str]:
        return self.schema.names()

    @property
    def diffs(self) -> list[int]:
        return list(self.counts.values())

    def frame(self) -> pl.DataFrame:
        """Each row once."""
        return frame_of(self.schema, self.counts)

    def expanded(self) -> pl.DataFrame:
        """Each row as many times as its diff."""
        assert all(n > 0 for n in self.diffs), "only a collection without negative rows can be expanded"
        if sum(self.diffs) > LARGEST:
            raise TooLargeError
        return frame_of(self.schema, (row for row, n in self.counts.items() for _ in range(n)))

    def part(self, sign: Literal[1, -1]) -> Bag:
        """The rows of that sign, counted positively."""
        return Bag(self.schema, {row: sign * n for row, n in self.counts.items() if sign * n > 0})

    # Row by row: polars on the distinct rows, diffs carried along.

    def _beside(self) -> pl.Series:
        return pl.Series(DIFF, self.diffs, dtype=pl.Int64)

    def _carried(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Bag:
        return Bag.of(change(self.frame().hstack([self._beside()])))

    def filter(self, *predicates: pl.Expr, **constraints: Any) -> Bag:
        given = [*predicates, *(pl.col(name).eq(value) for name, value in constraints.items())]
        rows = self.frame()
        kept = rows.select(pl.all_horizontal(*given).alias("kept"), self._beside())["kept"].to_list()
        return Bag(
            self.schema, {row: n for (row, n), yes in zip(self.counts.items(), kept, strict=True) if yes}
        )

    def select(self, *exprs: Any, **named: Any) -> Bag:
        return Bag.of(self.frame().select(*exprs, self._beside(), **named))

    def with_columns(self, *exprs: Any, **named: Any) -> Bag:
        return Bag.weighed(self.frame().with_columns(*exprs, **named), self.diffs)

    def rename(self, names: Mapping[str, str]) -> Bag:
        return Bag({names.get(name, name): dtype for name, dtype in self.schema.items()}, self.counts)

    def drop(self, *names: str) -> Bag:
        return self._carried(lambda rows: without(rows, names))

    def cast(self, dtypes: Any) -> Bag:
        return Bag.weighed(self.frame().cast(dtypes), self.diffs)

    def explode(self, *names: str) -> Bag:
        return self._carried(lambda rows: rows.explode(*names, empty_as_null=False))

    def unnest(self, *names: str) -> Bag:
        return self._carried(lambda rows: rows.unnest(*names))

    def map_batches(self, function: Callable[[pl.DataFrame], pl.DataFrame], *, schema: Any = None) -> Bag:
        """One row at a time, which is what "row by row" promises."""
        counts: Counter[Row] = Counter()
        columns = pl.Schema(schema) if schema is not None else function(self.frame().clear()).schema
        for row, n in self.counts.items():
            for result in rows_of(function(frame_of(self.schema, [row]))):
                counts[result] += n
        return Bag(columns, counts)

    # What adds up, for any diffs: dictionaries only.

    def concat(self, *others: Bag) -> Bag:
        total = Counter(self.counts)
        for other in others:
            total.update(other.counts)
        return Bag(self.schema, total)

    def negate(self) -> Bag:
        return Bag(self.schema, {row: -n for row, n in self.counts.items()})

    def minus(self, other: Bag) -> Bag:
        return self.concat(other.negate())

    def unpivot(
        self,
        on: Sequence[str],
        *,
        index: Sequence[str],
        variable_name: str = "variable",
        value_name: str = "value",
    ) -> Bag:
        names = {"variable_name": variable_name, "value_name": value_name}
        rows = self.frame().hstack([self._beside().alias("#")])
        turned = rows.unpivot(on, index=[*index, "#"], **names)
        return Bag.weighed(without(turned, ["#"]), turned["#"].to_list())

    def unique(self, subset: Sequence[str] | None = None, *, keep: str = "any", by: By = ()) -> Bag:
        if subset is None:
            return Bag(self.schema, {row: 1 for row, n in self.counts.items() if n > 0})
        order = subset if keep == "any" else by
        firsts = self.group_by(*subset).limit(
            1, by=order, descending=keep == "last", nulls_last=keep == "last"
        )
        return firsts.select(*self.columns)

    # Groups, orders and joins.

    def group_by(self, *by: By, **named: pl.Expr) -> Groups:
        keys = [pl.col(key) if isinstance(key, str) else key for each in by for key in _listed(each)]
        return Groups(self, [*keys, *(expr.alias(name) for name, expr in named.items())])

    def top_k(self, k: int, *, by: By, reverse: bool | Sequence[bool] = False) -> Bag:
        return self.group_by().top_k(k, by=by, reverse=reverse)

    def bottom_k(self, k: int, *, by: By, reverse: bool | Sequence[bool] = False) -> Bag:
        return self.group_by().bottom_k(k, by=by, reverse=reverse)

    def limit(
        self,
        n: int,
        *,
        by: By,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> Bag:
        return (
            self.group_by()
            .limit(n, by=by, descending=descending, nulls_last=nulls_last)
            .select(*self.columns)
        )

    def join(self, other: Bag, on: Any = None, how: str = "inner", **options: Any) -> Bag:
        """polars' join of the distinct rows; a matched pair counts as often as the product of their counts."""
        left, right = _tagged(self, "#left"), _tagged(other, "#right")
        if how != "cross":
            # A second key keeps polars from its merge of sorted keys, in which NaN does not match NaN.
            left, right = (side.with_columns(pl.lit(0).alias("#key")) for side in (left, right))
            keys = {side: [*_listed(options.pop(side, on)), "#key"] for side in ("left_on", "right_on")}
            options |= keys
        joined = left.join(right, how=cast(Any, how), maintain_order="left_right", **options)
        joined = without(joined, [name for name in joined.columns if name.startswith("#key")])
        tags = [name for name in ("#left", "#right") if name in joined.columns]
        diffs = [math.prod(1 if n is None else n for n in row) for row in joined[tags].iter_rows()]
        return Bag.weighed(without(joined, tags), diffs)


def _tagged(bag: Bag, name: str) -> pl.DataFrame:
    return bag.frame().hstack([bag._beside().alias(name)])


def _listed(by: By) -> Sequence[str | pl.Expr]:
    return [by] if isinstance(by, str | pl.Expr) else by


def _each(flag: bool | Sequence[bool], count: int) -> list[bool]:
    return [flag] * count if isinstance(flag, bool) else list(flag)


def _is_count(expr: pl.Expr, schema: pl.Schema) -> bool:
    """Whether polars counts here, in UInt32; ours are Int64, see ``counted``."""
    text = str(expr.meta.undo_aliases())
    roots = [schema[name] for name in expr.meta.root_names()]
    return bool(COUNTING.search(text)) or (text.endswith(".sum()") and roots == [pl.Boolean()])


class Groups:
    """A collection by key; without keys one group, which exists also on empty input."""

    def __init__(self, bag: Bag, keys: list[pl.Expr]) -> None:
        self.bag = bag
        self.keys = keys

    def _numbered(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
        """The different keys, and for each row the number of its key."""
        if not self.keys:
            return pl.DataFrame(), [0] * rows.height
        keys = without(rows.select(*self.keys, pl.Series("#", [0] * rows.height, dtype=pl.Int8)), ["#"])
        frozen = rows_of(keys)
        numbers = {key: number for number, key in enumerate(dict.fromkeys(frozen))}
        return frame_of(keys.schema, numbers), [numbers[key] for key in frozen]

    def agg(self, *aggs: pl.Expr, **named: pl.Expr) -> Bag:
        exprs = [*aggs, *(expr.alias(name) for name, expr in named.items())]
        if any(n < 0 for n in self.bag.diffs):
            return self._agg_of_any_diffs(exprs)
        rows = self.bag.expanded()
        keys, numbers = self._numbered(rows)
        columns = [keys] if self.keys else []
        for expr in exprs:
            # Aggregates see the rows in the order of their own columns: a function of the collection.
            given = rows.with_columns(pl.Series("#", numbers, dtype=pl.Int64))
            ordered = given.sort([*dict.fromkeys(expr.meta.root_names()), "#"])
            if self.keys:
                result = without(ordered.group_by("#").agg(expr).sort("#"), ["#"])
            else:
                result = without(ordered, ["#"]).select(expr)
            columns.append(result.cast(pl.Int64) if _is_count(expr, rows.schema) else result)
        return Bag.of(pl.concat(columns, how="horizontal"))

    def _agg_of_any_diffs(self, exprs: Sequence[pl.Expr]) -> Bag:
        """What adds up is that of the positive rows less that of the negative ones; a group of no rows is none."""
        keys = [key.alias(f"#{at}") for at, key in enumerate(self.keys)]
        by = [f"#{at}" for at in range(len(keys))]
        names = [key.meta.output_name() for key in self.keys]
        schema = self.bag.select(*self.keys).schema if self.keys else pl.Schema({})
        totals: dict[Row, list[float]] = {}
        for at, expr in enumerate([pl.len().alias("#len"), *exprs]):
            inputs = [pl.col(name) for name in dict.fromkeys(expr.meta.root_names())]
            projected = self.bag.select(*keys, *inputs, pl.lit(0).alias("#"))
            for sign in (1, -1):
                result = projected.part(1 if sign > 0 else -1).group_by(*by).agg(expr)
                schema = pl.Schema({**schema, **{c: d for c, d in result.schema.items() if c not in by}})
                for row in result.counts:
                    total = totals.setdefault(row[: len(by)], [0] * (1 + len(exprs)))
                    total[at] += sign * row[-1]
        del schema["#len"]
        assert list(schema) == [*names, *(expr.meta.output_name() for expr in exprs)]
        return Bag(schema, {(*key, *total[1:]): 1 for key, total in totals.items() if total[0] or not keys})

    def top_k(self, k: int, *, by: By, reverse: bool | Sequence[bool] = False) -> Bag:
        flags = [not flag for flag in _each(reverse, len(_listed(by)))]
        return self.limit(k, by=by, descending=flags, nulls_last=True)

    def bottom_k(self, k: int, *, by: By, reverse: bool | Sequence[bool] = False) -> Bag:
        flags = _each(reverse, len(_listed(by)))
        return self.limit(k, by=by, descending=flags, nulls_last=True)

    def limit(
        self,
        n: int,
        *,
        by: By,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | Sequence[bool] = False,
    ) -> Bag:
        """The first ``n`` rows by the order, then by the whole row ascending, nulls first."""
        order = _listed(by)
        rows = self.bag.frame()
        ordered = (
            rows.with_columns(
                pl.Series("#", self._numbered(rows)[1], dtype=pl.Int64),
                pl.Series("#n", self.bag.diffs, dtype=pl.Int64),
            )
            .with_columns(
                **{f"#{at}": pl.col(key) if isinstance(key, str) else key for at, key in enumerate(order)}
            )
            .sort(
                [*(f"#{at}" for at in range(len(order))), *self.bag.columns],
                descending=[*_each(descending, len(order)), *[False] * len(self.bag.columns)],
                nulls_last=[*_each(nulls_last, len(order)), *[False] * len(self.bag.columns)],
            )
        )
        left: dict[int, int] = {}
        counts: dict[Row, int] = {}
        whole = rows_of(ordered[self.bag.columns])
        for row, group, many in zip(whole, ordered["#"], ordered["#n"], strict=True):
            taken = min(many, left.get(group, n))
            left[group] = left.get(group, n) - taken
            counts[row] = taken
        return Bag(self.bag.schema, counts)


def upserted(history: Iterable[Iterable[tuple[Mapping[str, Any], int]]], key: Sequence[str]) -> list[Row]:
    """What a source keyed by ``key`` holds after these batches of (row, +1 or -1): the last row of each key."""
    held: dict[Row, Row] = {}
    for batch in history:
        for row, diff in batch:
            identity = tuple(freeze(row[name]) for name in key)
            if diff < 0:
                held.pop(identity, None)
            else:
                held[identity] = tuple(map(freeze, row.values()))
    return list(held.values())


def sequenced(changes: pl.DataFrame, key: Sequence[str], sequence: Sequence[str]) -> list[Row]:
    """What a source keyed by ``key`` holds after these changes in any order, if the greatest ``sequence`` stands.

    Of equal ones a deletion stands before rows, and of rows the first by their columns.
    """
    others = [name for name in changes.columns if name not in (*key, *sequence, "_diff")]
    ordered = changes.with_columns(pl.col(pl.Float64) + 0.0).sort(
        [*sequence, "_diff", *others], descending=[name in sequence for name in (*sequence, "_diff", *others)]
    )
    stands = ordered.unique(key, keep="first", maintain_order=True).filter(pl.col("_diff") > 0)
    return [tuple(map(freeze, row)) for row in stands.drop("_diff").iter_rows()]
