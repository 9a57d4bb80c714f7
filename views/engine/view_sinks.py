"""The sinks of a view: databases, table formats on files, folders, functions; each in a thread of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed, option_names, require_columns

from ..epochs.subscriptions import Followed, SchemaChange, Subscription, Unread, require_plain_function
from ..epochs.view_deltas import ViewDelta
from ..sinks.delivery import Delivery
from ..sinks.delta_table import DeltaTableSink
from ..sinks.fed_source import FedEngine, FedSource, fed_name, require_diffs
from ..sinks.function_sink import FunctionSink
from ..sinks.iceberg_table import IcebergTable
from ..sinks.kafka_messages import MODES, Mode
from ..sinks.kafka_topic import Producer, Send, kafka_topic, sent_by
from ..sinks.origin import Origin
from ..sinks.parquet_folder import ParquetFolder
from ..sinks.retry import Retry
from ..sinks.sink import Sink
from ..sinks.sql_table import SqlTable
from ..store import Store, store_at
from .consumers import Reader
from .durable_view import DurableView, KeptView

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyiceberg.catalog import Catalog

Key = str | Sequence[str] | None

MakeSink = Callable[[Origin, int | None], Sink]
"""Makes a sink from the origin of the rows and the epoch that is remembered under its name, None if there is none."""


class Outputs(ABC):
    """The methods of a view that write it, or its deltas, to a system outside.

    Each returns a ``Delivery``: a thread that writes the present contents and then each epoch, once. Rows and the number of
    the epoch are written in one step, so that no row is missing or duplicated whichever side crashes; called again, in this
    process or in the next one on the same checkpoint, it continues from the position stored in the sink. A sink that fails
    is tried again, after longer and longer pauses, and gets all missed epochs: ``delivery.lag`` is the number of epochs
    that it is behind, ``delivery.join()`` waits for it, and ``engine.close()`` waits for each that works.
    """

    name: str

    @property
    @abstractmethod
    def schema(self) -> pl.Schema:
        """The columns and their types."""

    @abstractmethod
    def _keys(self) -> tuple[str, ...]:
        """Return the key columns; none if its rows have no key."""

    @abstractmethod
    def _deliver(
        self, make: MakeSink, name: str, reader: Reader, retry: Retry | None, keys: tuple[str, ...] = ()
    ) -> Delivery:
        """Start a delivery. ``keys`` are the key columns by which rows are written, if they are those of the view."""

    def to_sql(
        self, url: str | sa.Engine, table: str, *, key: Key = None, retry: Retry | None = None
    ) -> Delivery:
        """Keep a table of a database equal to the view, with one row per key, through SQLAlchemy.

        Rows of an epoch and its number, in the table ``evercurrent_epochs``, are one transaction. The table is created with the
        first contents; readers of it see whole epochs.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len("n"))
        >>> delivery = hits.to_sql("sqlite:///hits.db", "hits")  # doctest: +SKIP
        >>> engine.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> delivery.join()  # doctest: +SKIP
        True

        Args:
            url: of SQLAlchemy, such as ``postgresql+psycopg://user@host/name`` or ``sqlite:///orders.db``, or an engine of it.
            table: the name of the table, which no other view writes.
            key: the columns that identify a row; by default those of the view, if it is a grouping or an upsert source.
            retry: how long to leave a database alone that failed.

        Raises:
            PlanError: SQLAlchemy or the driver is missing, or the view has no key.
            SinkError: a column has a type that the database does not hold exactly.
        """
        keys = self._required_keys("to_sql", key)
        return self._deliver(
            lambda origin, _: SqlTable(url, table, keys, self.schema, origin),
            f"sql {table}",
            "overwriting",
            retry,
            keys if key is None else (),
        )

    def to_delta(
        self, path: str | Path, *, mode: Literal["merge", "append"] = "merge", key: Key = None,
        storage_options: Mapping[str, str] | None = None, retry: Retry | None = None,
    ) -> Delivery:  # fmt: skip
        """Keep a Delta Lake table equal to the view (``mode="merge"``), or append its deltas to one (``"append"``).

        The number of the epoch is in the same commit, as the version of an application. No Spark is needed.

        Args:
            path: the path or url of the table.
            mode: "merge", a row per key; "append", the deltas with ``_epoch`` and ``_diff``.
            key: for "merge", the columns that identify a row; by default those of the view.
            storage_options: of the object store, as deltalake takes them.
            retry: how long to leave a store alone that failed.

        Raises:
            PlanError: deltalake is missing, or the view has no key.
            SinkError: a column has a type that the table does not hold exactly.
        """
        if not isinstance(mode, str) or mode not in ("merge", "append"):
            raise PlanError(f"view {self.name!r}: to_delta: mode={mode!r}; there are 'merge' and 'append'")
        if not isinstance(path, str | Path) or not str(path):
            raise PlanError(f"view {self.name!r}: to_delta: path={path!r}; give a path or a url")
        if storage_options is not None and not isinstance(storage_options, Mapping):
            raise PlanError(
                f"view {self.name!r}: to_delta: storage_options={storage_options!r}; give a dictionary of texts"
            )
        if mode == "append" and key is not None:
            raise PlanError(
                f"view {self.name!r}: to_delta: key={key!r} goes with mode='merge'; leave out one of the two"
            )
        keys = self._required_keys("to_delta", key) if mode == "merge" else ()
        name = f"delta {path}"
        return self._deliver(
            lambda origin, _: DeltaTableSink(str(path), keys, self.name, self.schema, origin, storage_options), name,
            "overwriting" if keys else "deltas", retry, keys if key is None else (),
        )  # fmt: skip

    def to_iceberg(
        self, table: str, catalog: Catalog | Mapping[str, str], *, key: Key = None, retry: Retry | None = None
    ) -> Delivery:
        """Keep an Iceberg table equal to the view, with one row per key, through pyiceberg.

        Args:
            table: the name of the table, with its namespace: ``shop.hits``.
            catalog: a catalog of pyiceberg, or the properties that ``load_catalog`` takes.
            key: the columns that identify a row; by default those of the view.
            retry: how long to leave a catalog alone that failed.

        Raises:
            PlanError: pyiceberg is missing, or the view has no key.
            SinkError: a column has a type that the table does not hold exactly.
        """
        keys = self._required_keys("to_iceberg", key)
        return self._deliver(
            lambda origin, _: IcebergTable(catalog, table, keys, self.name, self.schema, origin),
            f"iceberg {table}",
            "overwriting",
            retry,
            keys if key is None else (),
        )

    def to_parquet(self, folder: str | Path | Store, *, retry: Retry | None = None) -> Delivery:
        """Write the deltas as Parquet files, one or more epochs in each, with ``_epoch`` and ``_diff``.

        The first file has the contents, each row with its count. The files of up to a million rows are named
        ``<first epoch>-<last epoch>.parquet`` and never changed, so that ``pl.scan_parquet("folder/*.parquet")`` is a feed of changes.

        Args:
            folder: an empty folder, or a url of fsspec.
            retry: how long to leave a store alone that failed.

        Raises:
            PlanError: the folder is neither a path nor a store.
        """
        if not isinstance(folder, str | Path) and not hasattr(folder, "url"):
            raise PlanError(
                f"view {self.name!r}: to_parquet: folder={folder!r}; give a path, or a url of fsspec"
            )
        store = store_at(folder)
        return self._deliver(
            lambda origin, _: ParquetFolder(store, origin, self.schema),
            f"parquet {store.url}",
            "deltas",
            retry,
        )

    def to_kafka(
        self,
        topic: str,
        to: Producer | Mapping[str, str],
        *,
        mode: Mode = "changes",
        key: Key = None,
        retry: Retry | None = None,
    ) -> Delivery:
        """Send the deltas to a topic of Kafka, as JSON: each change, or for each key its row or a tombstone.

        A message has its epoch in the header ``_epoch``, and the key's columns as its key, if there is one. The checkpoint
        has the last epoch that the broker has taken completely, so that after a crash the messages of an epoch may be sent
        again, with the same texts: "upserts" then lead to the same contents, and of "changes" compare ``_epoch``.

        Args:
            topic: the name of the topic, which no other view writes.
            to: a producer of confluent-kafka, or, for a view in Spark, the options of Spark's writer, as in
                ``{"kafka.bootstrap.servers": "host:9092"}``.
            mode: "changes", rows with ``_epoch`` and ``_diff``, of an epoch the retractions first; "upserts", for a compacted
                topic: the row of each key that has changed, and null for one that has none now.
            key: the columns that identify a row; by default those of the view. "changes" need none.
            retry: how long to leave a broker alone that failed.

        Raises:
            PlanError: there is no such mode, the view has no key, or ``to`` is neither.
            SinkError: a column has a type that JSON does not hold.
        """
        if not isinstance(mode, str) or mode not in MODES:
            raise PlanError(f"view {self.name!r}: to_kafka: mode={mode!r}; there are {listed(MODES)}")
        is_changes = mode == "changes" and key is None and not self._keys()
        keys = () if is_changes else self._required_keys("to_kafka", key)
        send = self._sender(topic, to)
        return self._deliver(
            lambda _, remembered: kafka_topic(topic, send, self.schema, keys, mode, remembered, to),
            f"kafka {topic}",
            "deltas" if mode == "changes" else "overwriting",
            retry,
            keys if key is None else (),
        )

    def _sender(self, topic: str, to: Producer | Mapping[str, str]) -> Send:
        """Return the function that sends messages; a view in Spark has another one for the options of Spark's writer.

        Raises:
            PlanError: ``to`` is no producer.
        """
        return sent_by(cast("Producer", to), topic)

    def to_source(self, engine: FedEngine, source: str, *, retry: Retry | None = None) -> Delivery:
        """Feed a source of another engine with the deltas, each epoch of the view as an epoch there.

        The view's epoch is the position of the source, part of that engine's commits, so that both may be stopped and started
        again, each on its own.

        >>> from evercurrent import Engine
        >>> first, second = Engine(), Engine()
        >>> counts = first.view("counts", first.source("log", {"ip": pl.String}).group_by("ip").len("n"))
        >>> hits = second.source("hits", {"ip": pl.String, "n": pl.UInt32}, kind="diffs")
        >>> depth = second.view("depth", hits.group_by("n").len("ips"))
        >>> delivery = counts.to_source(second, "hits")
        >>> first.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> delivery.join()
        True
        >>> sorted(depth.read().rows())
        [(1, 1), (2, 1)]

        Args:
            engine: the engine that is fed.
            source: the name of a source of it, of ``kind="diffs"`` with the columns of this view.
            retry: how long to wait after a push that failed.

        Raises:
            PlanError: there is no such source, or it does not take rows back.
            CheckpointError: that engine is closed.
        """
        sources = getattr(engine, "sources", None)
        if sources is None:
            raise PlanError(
                f"view {self.name!r}: to_source: {engine!r} is no engine; give the engine that is fed, and the name of a source"
            )
        declared = sources.get(source) if isinstance(source, str) else None
        if declared is None:
            raise PlanError(
                f"view {self.name!r}: to_source: there is no source {source!r}; there are {listed(sources)}"
            )
        require_diffs(self.name, source, declared.kind)
        engine.require_not_closed()
        return self._deliver(
            lambda origin, _: FedSource(engine, source, self.name, origin),
            fed_name(engine, source),
            "deltas",
            retry,
        )

    def foreach(
        self, function: Callable[[pl.DataFrame], Any], *, name: str, retry: Retry | None = None
    ) -> Delivery:
        """Call a function with each delta, in a thread of its own; first with the contents, each row with its count.

        A delta at which it raises is passed again, after a pause. The last epoch that it has taken is remembered under ``name``
        in the next commit, so that after a crash the last ones, or the contents, may be passed once more, with the same rows under the
        same ``_epoch``.

        Args:
            function: takes a frame of the view's columns, ``_epoch`` and ``_diff``.
            name: under which the engine remembers how far it is.
            retry: how long to wait after it has raised.

        Raises:
            PlanError: it cannot be called, or is a coroutine function.
        """
        where = f"view {self.name!r}: foreach"
        if not callable(function):
            raise PlanError(f"{where}: {function!r} cannot be called; give a function of one frame")
        require_plain_function(where, function)
        return self._deliver(lambda _, remembered: FunctionSink(function, remembered), name, "deltas", retry)

    def _required_keys(self, method: str, key: Key) -> tuple[str, ...]:
        keys = self._keys() if key is None else option_names(f"view {self.name!r}: {method}: key", key)
        require_columns(f"{method} of view {self.name!r}", self.schema, keys)
        if not keys:
            raise PlanError(
                f"view {self.name!r}: {method}: its rows have no key; give key=[...], the columns that tell rows apart among "
                f"{listed(self.schema)}, or write its deltas, as with to_parquet(...)"
            )
        return keys


class DeliverySubscription(Subscription):
    """The part of a delivery that the engine keeps: it wakes the delivery, and its position is in commits."""

    delivery: Delivery | None = None

    def __init__(self, view: Followed, delivered: int, name: str) -> None:
        super().__init__(view, _nothing, delivered, name)

    def deliver(self, epoch: int, delta: ViewDelta | None) -> None:
        """Wake the delivery, which reads the delta itself."""
        self._wake()

    def pass_over(self, epoch: int) -> None:
        """Wake the delivery, though the epoch has not changed the view, so that it notes how far it is."""
        self._wake()

    def committed(self) -> None:
        """Wake the delivery, as it gets an epoch with its commit."""
        self._wake()

    def follow(self, view: Followed, change: SchemaChange | None, unread: Unread) -> None:
        """Continue with the view that replaces this one and has the same columns."""
        super().follow(view, change, unread)
        if self.delivery is not None:
            # All views of an engine are of this class.
            self.delivery.follow(DurableView(cast("KeptView", view)))

    def written(self, epoch: int) -> None:
        """Note, in the thread of the delivery, how far the sink is."""
        self.delivered = epoch

    def catch_up(self) -> None:
        """Wake the delivery."""
        self._wake()

    def close(self) -> None:
        """End the delivery."""
        super().close()
        if self.delivery is not None and not self.delivery.is_closed:
            self.delivery.close()

    def ended(self) -> None:
        """Note, in the thread of the delivery, that it has ended, so that the name is free."""
        self.is_closed = True

    def _wake(self) -> None:
        if self.delivery is not None:
            self.delivery.wake()


def free_name(view: Followed, name: str, sink: Sink, views: Iterable[Followed]) -> str:
    """Return the name under which a view is written to a sink: the place, if the name is that of another place.

    Raises:
        PlanError: the place is being written already, from this view or another one.
    """
    named = [each for each in _deliveries(view) if each.name == name and sink.target is not None]
    require_own_place(view.name, sink, [each for one in views for each in _deliveries(one)])
    if twin := next((each for each in named if each.place == sink.place), None):
        raise _is_written(view.name, twin)
    # The name is that of another place where, for one, tables of one name are in two databases.
    return sink.place if any(each.remembers for each in named) else name


def require_own_place(view: str, sink: Sink, deliveries: Iterable[Delivery]) -> None:
    """Check that no other delivery writes to the place of a sink.

    Raises:
        PlanError: one does; names its view.
    """
    twin = next((each for each in deliveries if each.is_to(sink)), None)
    if twin is not None:
        raise _is_written(view, twin)


def _is_written(view: str, twin: Delivery) -> PlanError:
    return PlanError(
        f"view {view!r}: {twin.place} is being written already, from view {twin.view_name!r}; close that delivery first, with "
        "its close(), or write to another place"
    )


def _deliveries(view: Followed) -> list[Delivery]:
    """Return the open deliveries of a view."""
    return [
        each.delivery
        for each in view._subscriptions
        if isinstance(each, DeliverySubscription) and each.delivery is not None and not each.is_closed
    ]


def _nothing(_: pl.DataFrame) -> None:
    """Take a delta; the delivery reads it itself."""
