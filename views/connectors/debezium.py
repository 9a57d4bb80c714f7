"""Debezium's messages, as they are in a topic of Kafka: an envelope with the row before a change and after it, in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Mask
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.halving import bad_places
from evercurrent.core.data.schema import listed
from evercurrent.core.data.tags import tagged

from .change_formats import (
    NO_AFTER,
    NO_BEFORE,
    ONLY_INSERTS,
    Changed,
    ChangeFormat,
    Decoded,
    refused_of,
    require_changes,
    rows_of,
)
from .change_rows import other_keys
from .json_messages import TimeUnit, message_rows, read_messages, require_readable, wire_types

UNREADABLE = (
    "the message is not JSON of this format, or a value is not of its column's type; correct it, or declare other columns, and push "
    "it again"
)
OTHER_OP = "op is none of c, r, u and d; have other messages filtered out (skipped.operations), or correct it"
TRUNCATED = (
    "a truncation (op t) names no rows; delete them by messages of their own, or have the table read again"
)
READ_AGAIN = "an incremental snapshot reads rows that are there already, which would count twice; declare kind='upsert'"
UNCHANGED = (
    "a value was not sent, as the change has not touched it (__debezium_unavailable_value); have it sent (REPLICA IDENTITY FULL), "
    "and push the message again"
)

PLACEHOLDER = "__debezium_unavailable_value"

KAFKA: Mapping[str, pl.DataType] = {
    "key": pl.Binary(),
    "value": pl.Binary(),
    "topic": pl.String(),
    "partition": pl.Int32(),
    "offset": pl.Int64(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestampType": pl.Int32(),
    "headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()})),
}
"""The columns of a frame that Spark reads from Kafka."""

OF_KAFKA = tuple(name for name in KAFKA if name not in ("key", "value", "headers"))

TIMES: Mapping[str, TimeUnit] = {"ts_ms": "ms", "ts_us": "us", "ts_ns": "ns"}
"""The units of times in an envelope, by the names of their fields."""


@tagged("views.connectors:Debezium")
@dataclass(frozen=True, slots=True)
class Debezium(ChangeFormat):
    """Debezium's change messages in JSON, with the envelope alone or as ``payload`` beside its ``schema``.

    They come in the columns of Kafka: ``value``, a text or bytes, and ``key``, which may be left out; the others of a frame that
    Spark reads from Kafka may be there. With ``op`` c and r the row after is added, with u it replaces the one before, with d the row
    before is deleted. A source of kind "diffs" needs the whole row before; one of kind "upsert" its key, or that of the message.
    Refused are messages that cannot be read, truncations (t), and for "diffs" those of incremental snapshots.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> pets = engine.source("pets", {"id": pl.Int64, "name": pl.String}, kind="upsert", key="id", format=ec.Debezium())
    >>> now = engine.view("now", pets)
    >>> _ = pets.push({"value": [
    ...     '{"op": "r", "before": null, "after": {"id": 1, "name": "Rex"}}',
    ...     '{"op": "u", "before": null, "after": {"id": 1, "name": "Max"}}',
    ... ]})
    >>> now.read().rows()
    [(1, 'Max')]

    Args:
        columns: declared columns that are of the message and not of the row, each with its place: "ts_ms", "op", "source.lsn",
            "source.ts_ms" and so on in the envelope, "kafka.offset", "kafka.partition", "kafka.topic" or "kafka.timestamp" beside
            it. ``sequence_by`` one of them orders the changes of a key.
        time_unit: the unit of times of day and datetimes without a zone that come as numbers since 1970 ("ms", "us", "ns": the
            connector's ``time.precision.mode``), dates then being days; a map of columns, where they differ. Left out, they are
            texts of ISO 8601. Datetimes with a zone are texts in any case.
        tombstones: "skip", as Debezium sends one behind each deletion; "delete", for a compacted topic in which the
            deletion may be gone: for "upsert", the key of the message is deleted.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    time_unit: TimeUnit | Mapping[str, TimeUnit] | None = None
    tombstones: Literal["skip", "delete"] = "skip"

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise PlanError(
                f"Debezium: columns={self.columns!r}; give a dictionary, such as {{'lsn': 'source.lsn'}}"
            )
        for name, place in self.columns.items():
            parts = place.split(".") if isinstance(place, str) else []
            if len(parts) not in (1, 2) or not all(parts):
                raise PlanError(
                    f"Debezium: columns: {name!r} is at {place!r}; give a place such as 'ts_ms' or 'source.lsn'"
                )
            if parts[0] == "kafka" and parts[-1] not in OF_KAFKA:
                raise PlanError(
                    f"Debezium: columns: {name!r} is at {place!r}; of Kafka there are {listed(OF_KAFKA)}"
                )
            if parts[0] in ("before", "after", "payload", "schema"):
                raise PlanError(
                    f"Debezium: columns: {name!r} is at {place!r}, which is of the row; leave it out"
                )
        units = self.time_unit.values() if isinstance(self.time_unit, Mapping) else (self.time_unit,)
        if bad := next((unit for unit in units if unit not in ("ms", "us", "ns", None)), None):
            raise PlanError(f"Debezium: time_unit={bad!r}; give 'ms', 'us', 'ns', or None for texts")
        if self.tombstones not in ("skip", "delete"):
            raise PlanError(f"Debezium: tombstones={self.tombstones!r}; give 'skip' or 'delete'")

    def require(self, into: Changed) -> None:
        """See ``ChangeFormat.require``."""
        what = "format=Debezium(columns=...)"
        require_changes(what, into, self.columns)
        if isinstance(self.time_unit, Mapping) and (
            unknown := [name for name in self.time_unit if name not in into.schema]
        ):
            raise PlanError(
                f"{into.where}: Debezium: time_unit: column {listed(unknown)} is not declared; leave it out"
            )
        if not self._row(into):
            raise PlanError(f"{into.where}: {what} has all columns; declare those of the row too")
        require_readable(into.where, self._row(into), self.time_unit)
        require_readable(into.where, self._envelope(into), None)
        if self.tombstones == "delete":
            late = [name for name in into.sequence if not self.columns.get(name, "").startswith("kafka.")]
            if into.kind != "upsert" or late:
                raise PlanError(
                    f"{into.where}: format=Debezium(tombstones='delete') is for kind='upsert', and a tombstone has no values but those of "
                    "Kafka, as for sequence_by: columns={'offset': 'kafka.offset'}; leave it out"
                )

    def arriving(self, into: Changed) -> pl.Schema:
        """See ``ChangeFormat.arriving``."""
        places = (
            place.removeprefix("kafka.") for place in self.columns.values() if place.startswith("kafka.")
        )
        return pl.Schema({name: KAFKA[name] for name in dict.fromkeys(("key", "value", *places))})

    def is_optional(self, column: str) -> bool:
        """See ``ChangeFormat.is_optional``."""
        return column == "key"

    def is_ignored(self, column: str) -> bool:
        """See ``ChangeFormat.is_ignored``."""
        return column in KAFKA

    @property
    def way_out(self) -> str:
        """See ``ChangeFormat.way_out``."""
        return (
            "give the messages as text in a column 'value'; of parsed ones pl.struct(pl.all()).struct.json_encode().alias('value'), or "
            "to_json(struct('*')) as value in Spark"
        )

    def decoded(self, into: Changed, messages: pl.DataFrame) -> Decoded:
        """See ``ChangeFormat.decoded``. Cost: the messages are parsed once; with bad ones among them, in halves."""
        texts = _texts(messages.get_column("value"))
        is_tombstone = messages.get_column("value").is_null().to_numpy() | _is_empty(texts)
        envelope, unread = read_messages(texts, ~is_tombstone, self._wrapped(into))
        before, bad_before = message_rows(envelope, "before", self._row(into), self.time_unit)
        after, bad_after = message_rows(envelope, "after", self._row(into), self.time_unit)
        has_before, has_after = (
            envelope.get_column(side).is_not_null().to_numpy() for side in ("before", "after")
        )
        operation = envelope.get_column("op")
        adds = operation.is_in(["c", "r", "u"]).fill_null(value=False).to_numpy()
        updates, deletes = (operation.eq_missing(code).to_numpy() for code in "ud")
        live = ~is_tombstone
        faults = {
            UNREADABLE: unread | (live & (bad_before | bad_after)),
            TRUNCATED: operation.eq_missing("t").to_numpy(),
            OTHER_OP: live & ~adds & ~deletes,
            UNCHANGED: texts.str.contains(PLACEHOLDER, literal=True).fill_null(value=False).to_numpy(),
            NO_AFTER: adds & ~has_after,
        }
        takes_back = updates | deletes
        if into.kind == "append":
            faults[ONLY_INSERTS] = takes_back
        elif into.kind == "diffs":
            snapshot = envelope.get_column("source").struct.field("snapshot")
            faults[READ_AGAIN] = snapshot.eq_missing("incremental").to_numpy()
            faults[NO_BEFORE] = takes_back & ~has_before
        else:
            buries = is_tombstone & (self.tombstones == "delete")
            before, bad_keys = self._with_keys(into, messages, before, (deletes & ~has_before) | buries)
            faults[UNREADABLE] |= bad_keys
            takes_back = deletes | buries | (updates & has_before & other_keys(before, after, into.keys))
        extra = self._extra(envelope, messages, into)
        sides = [(before.with_columns(extra), takes_back, -1), (after.with_columns(extra), adds, 1)]
        refused, bad, first = refused_of(_shown(messages, texts), faults)
        return Decoded(rows_of(sides, into.schema, bad), refused, first)

    def _row(self, into: Changed) -> pl.Schema:
        """Return the declared columns that are of the row."""
        return pl.Schema({name: dtype for name, dtype in into.schema.items() if name not in self.columns})

    def _envelope(self, into: Changed) -> pl.Schema:
        """Return the fields of an envelope that are read, without the rows in it."""
        flat: dict[str, pl.DataType] = {"op": pl.String()}
        nested: dict[str, dict[str, pl.DataType]] = (
            {"source": {"snapshot": pl.String()}} if into.kind == "diffs" else {}
        )
        for name, place in self.columns.items():
            outer, _, inner = place.partition(".")
            if outer == "kafka":
                continue
            dtype = into.schema[name]
            if (inner or outer) in TIMES and dtype.is_temporal():
                dtype = pl.Int64()
            if inner:
                nested.setdefault(outer, {})[inner] = dtype
            else:
                flat[outer] = dtype
        return pl.Schema({**flat, **{name: pl.Struct(fields) for name, fields in nested.items()}})

    def _wrapped(self, into: Changed) -> pl.Schema:
        row = pl.Struct(wire_types(self._row(into), self.time_unit))
        envelope = {"before": row, "after": row, **self._envelope(into)}
        return pl.Schema({**envelope, "payload": pl.Struct(envelope)})

    def _with_keys(
        self, into: Changed, messages: pl.DataFrame, before: pl.DataFrame, lacking: Mask
    ) -> tuple[pl.DataFrame, Mask]:
        """Return the rows before, with the keys of messages where these lack it, and which keys cannot be read."""
        if not lacking.any():
            return before, lacking
        types = pl.Schema({name: into.schema[name] for name in into.keys})
        wire = wire_types(types, self.time_unit)
        texts = _texts(messages.get_column("key"))
        has_key = lacking & ~_is_empty(texts) & texts.is_not_null().to_numpy()
        keys, unread = read_messages(texts, has_key, pl.Schema({**wire, "payload": pl.Struct(wire)}))
        row = keys.select(pl.struct(list(wire)).alias("key"))
        read, bad = message_rows(row, "key", types, self.time_unit)
        chosen = pl.Series(lacking)
        return before.with_columns(
            pl.select(pl.when(chosen).then(read[name]).otherwise(before[name]).alias(name)).to_series()
            for name in types
        ), unread | (bad & lacking)

    def _extra(self, envelope: pl.DataFrame, messages: pl.DataFrame, into: Changed) -> list[pl.Series]:
        """Return the columns that are of messages."""
        columns = []
        for name, place in self.columns.items():
            outer, _, inner = place.partition(".")
            if outer == "kafka":
                column = messages.get_column(inner)
            else:
                column = envelope.get_column(outer)
                column = column.struct.field(inner) if inner else column
            dtype, unit = into.schema[name], TIMES.get(inner or outer)
            if unit is not None and isinstance(dtype, pl.Datetime) and column.dtype == pl.Int64:
                column = column.cast(pl.Datetime(unit, None if dtype.time_zone is None else "UTC"))
            columns.append(column.alias(name))
        return columns


def _texts(column: pl.Series) -> pl.Series:
    """Return bytes or texts as texts; null where bytes are none of UTF-8."""
    if column.dtype != pl.Binary:
        return column.cast(pl.String)

    def is_text(start: int, end: int) -> bool:
        try:
            column[start:end].cast(pl.String)
        except pl.exceptions.ComputeError:
            return False
        return True

    odd = bad_places(len(column), is_text)
    if not odd:
        return column.cast(pl.String)
    # Bytes behind a null are read too, so others take their place first.
    return column.scatter(odd, [b""] * len(odd)).cast(pl.String).scatter(odd, [None] * len(odd))


def _is_empty(texts: pl.Series) -> Mask:
    """Return which texts stand for no message."""
    return np.asarray(texts.str.strip_chars().is_in(["", "null"]).fill_null(value=False).to_numpy())


def _shown(messages: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return messages as the ledger keeps them, with texts in place of bytes."""
    return messages.with_columns(_texts(messages.get_column("key")).alias("key"), texts.alias("value"))
