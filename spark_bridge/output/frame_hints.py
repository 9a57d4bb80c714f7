"""Messages for names of DataFrames, of Spark or polars, that a query and its views do not have: what to use instead."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from evercurrent.views.dataframe.operator_hints import (
    no_column_by_brackets,
    no_membership,
    no_rows_to_iterate,
)
from evercurrent.views.dataframe.spark_hints import OF_SPARK_COLLECTIONS

_STREAM = 'its deltas are a stream of Spark in readStream.format("evercurrent"); sinks are .to_sql(...), .to_delta(...) and others'
_FOLLOWED = "use .deltas(since=...), or on_epoch= of spark_bridge.run(...)"

_OF_VIEWS: Mapping[str, str] = {
    **dict.fromkeys(("writeStream", "foreachBatch", "foreach", "writeTo"), _STREAM),
    **dict.fromkeys(("subscribe", "follow", "watch"), _FOLLOWED),
    **dict.fromkeys(
        ("why", "lineage", "history", "prove", "timeline"), "use the view of engine.fork(checkpoint)"
    ),
    "fire": "use query.fire(view, key) of the query, which fires windows with the next micro-batch",
    "toPandas": "use .to_pandas()",
    "toArrow": "use .to_arrow()",
    "printSchema": "print .schema",
    "dtypes": "use .schema",
    "count": "use len(view), or .to_spark().count()",
}


def missing_of_view(view: object, name: str) -> AttributeError:
    """Return the error for an attribute that a view of a query does not have."""
    if (instead := _OF_VIEWS.get(name)) is None:
        ways = [f".read().{name}"] if hasattr(pl.DataFrame, name) else []
        ways += [f".to_spark().{name}"] if _is_of_spark(name) else []
        instead = f"use {' or '.join(ways)}, of what it holds now" if ways else None
    if instead is None:
        return AttributeError(
            f"{type(view).__name__!r} object has no attribute {name!r}", name=name, obj=view
        )
    return AttributeError(f"a view of a query has no {name!r}: {instead}")


def missing_of_query(query: object, name: str, views: Mapping[str, object]) -> AttributeError:
    """Return the error for an attribute that a query does not have."""
    if name in views:
        return AttributeError(f"a query has no attribute {name!r}: for the view write query.view({name!r})")
    if (instead := _OF_VIEWS.get(name)) is not None:
        return AttributeError(f"a query has no {name!r}; of a view, query.view(name): {instead}")
    if hasattr(pl.DataFrame, name) or _is_of_spark(name):
        return AttributeError(
            f"a query has no {name!r}; its views have rows: query.view(name).read(), or .to_spark() for a DataFrame of Spark"
        )
    return AttributeError(f"{type(query).__name__!r} object has no attribute {name!r}", name=name, obj=query)


def _is_of_spark(name: str) -> bool:
    """Return whether a DataFrame of Spark has this name; of names that are rare, only where PySpark is loaded."""
    loaded = sys.modules.get("pyspark.sql")
    return name in OF_SPARK_COLLECTIONS or (loaded is not None and hasattr(loaded.DataFrame, name))


class RefusedByView:
    """What tables do and a view of a query refuses, with what to write instead. Type checkers do not see it."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise, with what to write instead."""
            if name.startswith("_"):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
                )
            raise missing_of_view(self, name)

        def __iter__(self) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_rows_to_iterate("a view of a query", is_view=True)

        def __contains__(self, _: object) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_membership("a view of a query")

        def __getitem__(self, key: object) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_column_by_brackets("a view of a query", key, self.columns, is_view=True)


class RefusedByQuery:
    """What DataFrames and dictionaries do and a query refuses, with what to write instead. Type checkers do not see it."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise, with what to write instead."""
            if name.startswith("_"):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
                )
            raise missing_of_query(self, name, self.views)

        def __getitem__(self, name: object) -> NoReturn:
            """Raise, with what to write instead."""
            raise TypeError(f"a query has no brackets: for a view write query.view({name!r})")
