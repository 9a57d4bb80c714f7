"""Messages for what Python does with lists, tables and values (loops, brackets, pickling), and these objects refuse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self


def no_rows_to_iterate(what: str, *, is_view: bool) -> TypeError:
    """Return the error for a loop over a view or a collection: other libraries yield columns, names, or rows there."""
    if is_view:
        return TypeError(
            f"{what} is not iterated: write 'for row in view.read().iter_rows(named=True)' for its rows now, "
            "'for delta in view.deltas()' for the changes of each epoch, or 'for name in view.columns'"
        )
    return TypeError(
        f"{what} is not iterated, as it is declared and not computed: declare a view of it, "
        "view = engine.view(name, collection), and write 'for row in view.read().iter_rows(named=True)'"
    )


def no_column_by_brackets(what: str, key: object, columns: Iterable[str], *, is_view: bool) -> TypeError:
    """Return the error for brackets after a view or a collection: a column for pandas, polars and Spark, or a row."""
    of_view = f"; what the view holds now is view.read()[{key!r}]" if is_view else ""
    names = list(columns)
    if isinstance(key, str) and key in names:
        return TypeError(
            f"{what} has no brackets: for the column write pl.col({key!r}) within its methods, or .select({key!r}){of_view}"
        )
    if isinstance(key, list | tuple) and key and all(name in names for name in key):
        return TypeError(f"{what} has no brackets: for these columns write .select({list(key)!r}){of_view}")
    if isinstance(key, str | int | slice | list | tuple):
        rows = ", for the rows of a key use view.lookup(key)" if is_view else ""
        return TypeError(
            f"{what} has no brackets: its columns are {', '.join(names)}, and its rows have no order{rows}; use .select(...) and .filter(...)"
        )
    return TypeError(f"{what} has no brackets: for the rows where a condition is true write .filter(...)")


def no_membership(what: str) -> TypeError:
    """Return the error for ``x in view``: a column's name for pandas, a value or a row for others."""
    return TypeError(
        f"{what} has no 'in': write 'name in view.columns' for a column, or 'view.lookup(key).height > 0' for a key"
    )


def no_copy(what: str, instead: str) -> TypeError:
    """Return the error for pickling or copying what belongs to an engine, whose locks and states are of this process."""
    return TypeError(
        f"{what} cannot be pickled or copied: an engine has locks, threads and open files of this process. {instead}"
    )


class RefusedAsTable:
    """The operators of tables, which a collection refuses with what to write instead.

    Type checkers do not see them, so that they refuse a loop over a collection before it is run.
    """

    _is_view: ClassVar[bool] = False
    """Whether its rows are kept, and can be read."""

    _is_source: ClassVar[bool] = False
    """Whether rows are pushed into it."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_rows_to_iterate(self._as_operand, is_view=self._is_view)

        def __contains__(self, _: object) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_membership(self._as_operand)

        def __getitem__(self, key: object) -> NoReturn:
            """Raise, with what to write instead."""
            raise no_column_by_brackets(self._as_operand, key, self.columns, is_view=self._is_view)

    @property
    def _as_operand(self) -> str:
        """Return the words for this object in a message."""
        return "a collection"


class RefusedAsGroups:
    """The operators of groups in other libraries, which a grouped collection refuses with what to write instead.

    Type checkers do not see them, as those of ``RefusedAsTable``.
    """

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            """Raise, with what to write instead."""
            raise TypeError(
                "a grouped collection is not iterated, as it is declared and not computed: declare a view of its aggregates, "
                "view = engine.view(name, grouped.agg(...)), and write 'for row in view.read().iter_rows(named=True)'"
            )

        def __getitem__(self, key: object) -> NoReturn:
            """Raise, with what to write instead."""
            name = key if isinstance(key, str) else "x"
            raise TypeError(
                f"a grouped collection has no brackets: name the column within .agg, as in .agg(pl.col({name!r}).sum())"
            )


class OfOneEngine:
    """A handle of what an engine has: a shallow copy is another handle, and it cannot be pickled."""

    instead_of_pickling: ClassVar[str]
    """What to send to another process, as a sentence."""

    def __copy__(self) -> Self:
        """Return another handle of the same."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> NoReturn:
        """Raise, with what to send instead."""
        raise no_copy(self._as_operand, self.instead_of_pickling)

    @property
    @abstractmethod
    def _as_operand(self) -> str:
        """Return the words for this object in a message."""


_SOURCE = "declare what comes in by engine.source(name, schema) and give it rows by source.push(...); files: evercurrent run"
_DECLARED = "declare it by engine.view(name, collection)"
_READ_VIEW = "read a view by engine.views[name].read()"
_PUSH = "use engine.push(source, rows), or source.push(rows)"
_NO_START = "nothing is to be started: views are current when push returns"
_STATS = "use engine.stats()"
_NO_SQL = (
    "there is no SQL yet; declare views with the methods of a source, and conditions with pl.sql_expr(...)"
)
_NO_SESSION = "an engine is no session of Spark; spark_bridge.run(engine, ...) runs it in one"

OF_ENGINE: Mapping[str, str] = {
    **dict.fromkeys(
        ("table", "create_table", "read", "readStream", "read_csv", "read_stream", "add_source", "input"),
        _SOURCE,
    ),
    **dict.fromkeys(
        (
            "create_view",
            "createView",
            "createDataFrame",
            "create_materialized_view",
            "materialize",
            "register",
        ),
        _DECLARED,
    ),
    **dict.fromkeys(("query", "get", "collect", "fetch", "select", "show", "head", "rows"), _READ_VIEW),
    **dict.fromkeys(("insert", "append", "add", "send", "ingest", "write", "update", "upsert"), _PUSH),
    **dict.fromkeys(("run", "start", "execute", "compute", "refresh", "awaitTermination"), _NO_START),
    **dict.fromkeys(("stop", "shutdown", "terminate"), "use engine.close()"),
    **dict.fromkeys(("commit", "flush", "save"), "use engine.checkpoint(), of Engine(checkpoint=folder)"),
    **dict.fromkeys(
        ("subscribe", "follow"), "use engine.views[name].subscribe(f), or engine.watch(f) for epochs"
    ),
    **dict.fromkeys(
        ("filter", "where", "group_by", "groupBy", "groupby", "join", "window", "with_columns", "withColumn"),
        "call it on a source or a view: engine.sources[name], engine.views[name]",
    ),
    "sql": _NO_SQL,
    "deltas": "use engine.views[name].deltas()",
    "status": _STATS,
    "watermark": "use engine.watermarks",
    **dict.fromkeys(("drop", "delete", "remove"), "use engine.drop_view(name), or engine.drop_source(name)"),
    **dict.fromkeys(
        ("tables", "names", "streams", "catalog"),
        "use engine.views and engine.sources, which are dictionaries by name",
    ),
    **dict.fromkeys(
        ("restart", "resume", "restore", "load", "open"),
        "a program that declares ec.Engine(checkpoint=folder) goes on where it ended",
    ),
    **dict.fromkeys(
        ("lastProgress", "recentProgress", "isActive", "exception"),
        f"{_STATS}; a query of spark_bridge.run(...) has it",
    ),
    **dict.fromkeys(("sparkContext", "sparkSession", "newSession", "conf", "udf", "builder"), _NO_SESSION),
    **dict.fromkeys(("execute_sql", "executeSql", "sqlQuery", "sql_query"), _NO_SQL),
    **dict.fromkeys(("createTempView", "createOrReplaceTempView", "create_temporary_view"), _DECLARED),
    "range": _SOURCE,
    "snapshot": "use view.snapshot(); engine.fork() is a copy of all, and engine.checkpoint() makes it durable",
}
"""What to use instead, by the name in other systems."""


def missing_of_engine(engine: object, name: str, declared: Iterable[str]) -> AttributeError:
    """Return the error for an attribute that an engine does not have."""
    if name in declared:
        return AttributeError(
            f"an engine has no attribute {name!r}: write engine.views[{name!r}] or engine.sources[{name!r}]"
        )
    if (instead := OF_ENGINE.get(name)) is not None:
        return AttributeError(f"an engine has no {name!r}: {instead}")
    return AttributeError(
        f"{type(engine).__name__!r} object has no attribute {name!r}", name=name, obj=engine
    )
