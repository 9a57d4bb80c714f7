"""Messages for methods and options of polars' frames that a collection does not have: why, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.eventtime.windows.kinds import WindowTraits

from .dataflow_hints import OF_BEAM, OF_DATAFLOW_GROUPS, OF_DIFFERENTIAL, OF_FLINK
from .operator_hints import RefusedAsTable
from .pandas_hints import OF_PANDAS
from .spark_hints import OF_SPARK_COLLECTIONS, OF_SPARK_GROUPS

_NO_ORDER = "its rows have no order"
_SORT = f"{_NO_ORDER}; sort what you read, or keep the first rows with .limit(n, by=...)"
_FIRST = f"{_NO_ORDER}; say which with .limit(n, by=...), .top_k(k, by=...) or .bottom_k(k, by=...)"
_NEIGHBOUR = f'{_NO_ORDER}; state one inside of agg, as in pl.col("x").sort_by("at").last()'
_BY_HOUR = 'group by a computed key, as in .group_by(hour=pl.col("at").dt.truncate("1h"))'
_HOURS = f'{_NO_ORDER}; {_BY_HOUR}, or declare event_time= and use .window(ec.fixed("1h"))'
_LAST_HOUR = f'{_NO_ORDER}; declare event_time= and use .window(ec.sliding("1h", every="10m")), or {_BY_HOUR}'
_AGGREGATE = "use .group_by(...).agg(...), with group_by() for all rows as one group"
_CONCAT = "use .concat(other), where the columns are the same"
_SCHEMA = "use .schema or .columns"
_VIEW = "only views are kept current; declare one with engine.view(name, collection)"
_READ = "it is declared and not computed; what a view of it holds is in view.read()"
_GROUPED = "use .agg(...), .top_k(...), .bottom_k(...) or .limit(...)"
_BEFORE_GROUPS = "call it before .group_by(...), or on the result of .agg(...)"
_WINDOWS_BEFORE_GROUPS = 'call it before .group_by(...), as in .window(ec.fixed("1h")).group_by("k")'

_OF_COLLECTIONS = {
    **OF_BEAM,
    **OF_DIFFERENTIAL,
    **OF_FLINK,
    **OF_PANDAS,
    **OF_SPARK_COLLECTIONS,
    **dict.fromkeys(("sort", "set_sorted", "reverse", "merge_sorted"), _SORT),
    **dict.fromkeys(("head", "tail", "first", "last", "slice", "gather", "gather_every"), _FIRST),
    **dict.fromkeys(("shift", "interpolate", "with_row_index"), _NEIGHBOUR),
    "group_by_dynamic": _HOURS,
    "rolling": _LAST_HOUR,
    "upsample": f"{_NO_ORDER}; {_BY_HOUR}",
    **dict.fromkeys(("count", "len", "max", "mean", "median", "min", "null_count", "product"), _AGGREGATE),
    **dict.fromkeys(("n_unique", "quantile", "std", "sum", "var"), _AGGREGATE),
    **dict.fromkeys(("extend", "union", "vstack"), _CONCAT),
    **dict.fromkeys(("collect_schema", "dtypes", "width"), _SCHEMA),
    **dict.fromkeys(
        ("changes", "deltas", "follow", "lookup", "read", "snapshot", "subscribe", "timeline", "why"), _VIEW
    ),
    **dict.fromkeys(("sortBy", "sort_by", "sort_values"), _SORT),
    "apply": "use .with_columns(...) with polars expressions, or .map_batches(function)",
    "assign": "use .with_columns(name=...)",
    "distinct": "use .unique()",
    "explain": "use engine.explain(), which prints the plan with rows, bytes and time",
    "merge": "use .join(other, on=...)",
    "query": "use .filter(...) with polars expressions, or pl.sql_expr(...)",
    "value_counts": "use .group_by(...).len()",
    "drop_nans": 'use .filter(pl.col("x").is_not_nan())',
    "drop_nulls": 'use .filter(pl.col("x").is_not_null())',
    "fill_nan": 'use .with_columns(pl.col("x").fill_nan(...))',
    "fill_null": 'use .with_columns(pl.col("x").fill_null(...))',
    "join_asof": f'{_NO_ORDER}; join on equal keys, then choose with agg, as in pl.col("x").max_by("at")',
    "join_where": 'only equal keys are joined; use .join(other, how="cross").filter(...)',
    "pivot": 'its columns would depend on the rows; write an aggregate for each, with pl.col("x").filter(...)',
    "remove": "use .filter(~condition.fill_null(False))",
    "sample": 'the same input must give the same result; use .filter(pl.col("id").hash() % 10 == 0)',
    "sql": "there is no SQL yet; use the methods of a collection",
    "select_seq": "use .select(...)",
    "with_columns_seq": "use .with_columns(...)",
}

_OF_GROUPS = {
    **dict.fromkeys(
        ("cast", "concat", "drop", "explode", "filter", "join", "map_batches", "minus", "pipe", "rename", "select", "unique",
         "unnest", "unpivot", "where", "with_columns", "withColumn"),
        _BEFORE_GROUPS,
    ),
    **dict.fromkeys(("accumulate", "late_rows", "lateness", "trigger", "window"), _WINDOWS_BEFORE_GROUPS),
    **OF_DATAFLOW_GROUPS,
    **OF_SPARK_GROUPS,
    **dict.fromkeys(("head", "tail"), _FIRST),
    **dict.fromkeys(("first", "last"), _NEIGHBOUR),
    "count": "use .len(), or .agg(pl.col(x).count()) for values that are not null",
    "all": "use .agg(pl.all().implode())",
    "having": "use .agg(...).filter(...)",
    "map_groups": "use .agg(...), with evercurrent.aggregate(...) for an aggregate of your own",
    **dict.fromkeys(("std", "var"), "use .agg(pl.col(x).std()), or .var(), for each column that is meant"),
}  # fmt: skip


_OF_SOURCES = {
    **dict.fromkeys(
        ("add", "append", "emit", "extend", "feed", "ingest", "insert", "produce", "publish", "put", "send", "update", "upsert",
         "write"),
        "use .push(rows)",
    ),
    **dict.fromkeys(("delete", "remove", "retract"), "to take rows back, push them with _diff -1, or by key, into a source of kind='diffs' or 'upsert'"),
    **dict.fromkeys(("advance", "watermark"), "use engine.advance(name, watermark), or watermark= in .push(...)"),
}  # fmt: skip
"""What a source has instead of a name that queues, tables or lists have; the same name may be one of frames, too."""


def missing_of_collection(collection: RefusedAsTable, name: str, columns: Iterable[str]) -> AttributeError:
    """Return the error for an attribute that a collection does not have: a column, a method of polars, or a mistake."""
    if name in columns:
        return AttributeError(
            f"a collection has no attribute {name!r}: for the column write pl.col({name!r})"
        )
    of_polars = hasattr(pl.LazyFrame, name) or hasattr(pl.DataFrame, name)
    instead = _OF_COLLECTIONS.get(name, _READ if of_polars else None)
    if collection._is_source and (of_source := _OF_SOURCES.get(name)) is not None:
        instead = of_source if instead is None else f"{of_source}; to compute from it: {instead}"
    if instead is not None:
        return AttributeError(
            f"a collection has no {name!r}: {_of_view(name, instead) if collection._is_view else instead}"
        )
    what = f"{type(collection).__name__!r} has no attribute {name!r}"
    # Python itself suggests names that are spelled almost alike, but not in an error that is logged or printed.
    nearest = None if name.startswith("_") else _nearest(name, collection, _OF_COLLECTIONS)
    return AttributeError(what if nearest is None else f"{what}: {nearest}", name=name, obj=collection)


def _of_view(name: str, instead: str) -> str:
    """Return what a view has instead of a name, where that is more than what any collection has."""
    if name in ("toPandas", "toArrow", "pandas_api"):
        return "use .to_pandas() or .to_arrow()"
    if name in ("tail", "first", "last", "slice", "sort", "orderBy"):
        return f"{instead}; of what it holds now, use .read().sort(...)"
    if instead in (_READ, OF_PANDAS.get(name)) and hasattr(pl.DataFrame, name):
        return f"use .read().{name}, of what it holds now"
    if instead == _READ or instead == OF_SPARK_COLLECTIONS["collect"]:
        return "use .read(), for what it holds now"
    if instead == OF_SPARK_COLLECTIONS["writeStream"]:
        return "use .subscribe(f) or .deltas(); spark_bridge.run(engine, ...) runs it inside Spark"
    if instead.startswith("declare a view"):
        return instead.partition("; ")[2] or "this is a view already; use .read(), for what it holds now"
    return instead.replace("a view of it", "the view")


def _nearest(name: str, collection: object, hints: Mapping[str, str]) -> str | None:
    """Return the remedy of a name that differs only in case and underscores; None if there is none."""
    plain = _plain(name)
    if (
        method := next((each for each in dir(collection) if each[0] != "_" and _plain(each) == plain), None)
    ) is not None:
        return f"use .{method}"
    return next((hint for each, hint in hints.items() if _plain(each) == plain), None)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def missing_of_groups(groups: object, name: str) -> AttributeError:
    """Return the error for an attribute that a grouped collection does not have."""
    if (nearest := _nearest(name, groups, _OF_GROUPS)) is not None and name not in _OF_GROUPS:
        return AttributeError(f"a grouped collection has no {name!r}: {nearest}")
    return AttributeError(f"a grouped collection has no {name!r}: {_OF_GROUPS.get(name, _GROUPED)}")


def forbid_order(where: str, maintain_order: object) -> None:
    """Check that ``maintain_order`` does not request an order of rows.

    Raises:
        PlanError: it does.
    """
    if maintain_order not in (None, False, "none"):
        raise PlanError(
            f"{where}: maintain_order={maintain_order!r}: the rows of a collection have no order; leave it out, and "
            "sort what you read"
        )


def forbid_windows(where: str, keys: Iterable[object], named_keys: Mapping[str, object]) -> None:
    """Check that no key of a grouping is a kind of windows, as it may be in Spark.

    Raises:
        PlanError: one is.
    """
    if any(isinstance(key, WindowTraits) for key in (*keys, *named_keys.values())):
        raise PlanError(
            f"{where}: windows are given before the keys, as in "
            '.window(ec.fixed("1h")).group_by("k"); window_start and window_end are columns of the result'
        )


def require_choice(where: str, keep: object, by: object) -> None:
    """Check that the options of ``unique`` determine which of several rows is kept.

    Raises:
        PlanError: they do not.
    """
    if not isinstance(keep, str) or keep not in ("any", "first", "last"):
        raise PlanError(
            f"{where}: keep={keep!r}; there are 'any', 'first' and 'last'. For rows that are there once, use "
            ".group_by(...).agg(n=pl.len()).filter(pl.col('n') == 1)"
        )
    has_order = by is not None and not (isinstance(by, list | tuple) and not by)
    if (keep == "any") == has_order:
        raise PlanError(
            f"{where}: keep={keep!r} "
            + ("needs no by=; give keep='first' or keep='last' with it" if has_order else "")
            + (
                ""
                if has_order
                else "goes by the order of rows, and those of a collection have none; give it with by=, as in "
                ".unique('k', keep='last', by='at'), which is .group_by('k').limit(1, by='at', descending=True)"
            )
        )


def forbid_validation(where: str, validate: object) -> None:
    """Check that ``validate`` does not require keys to be unique.

    Raises:
        PlanError: it does.
    """
    if not isinstance(validate, str) or validate != "m:m":
        raise PlanError(
            f"{where}: validate={validate!r}: a key that is unique now may appear twice later; leave it out, and look "
            "for such keys in a view of .group_by(...).agg(n=pl.len()).filter(pl.col('n') > 1)"
        )
