"""Declared sources: what they have as rows, how these count, and their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from evercurrent.core.data.columns.lossless import holds_empty_arrays
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import (
    DIFF,
    forbid_reserved,
    listed,
    option_names,
    require_booleans,
    require_columns,
)
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark

from ..connectors.change_formats import Changed, ChangeFormat, Decoded
from ..connectors.positions import Position, PositionOrder, Positions
from ..connectors.pushed_frames import PushedFrame
from ..expressions import declared_schema
from ..plan.digests import digest_of, is_covered
from ..plan.node_identities import operation_identity
from ..plan.nodes import EventTime, Input, PlanId, PlanNode, SourceKind
from ..plan.plan import Plan
from .collection import Collection
from .operator_hints import OfOneEngine
from .watermarks import declared_watermark
from .windowing import require_time


@tagged("views.sources:Source")
class Source(Collection, OfOneEngine):
    """A collection into which rows are pushed. ``Engine.source`` makes it.

    >>> import evercurrent as ec
    >>> engine = ec.Engine()
    >>> words = engine.source("words", {"word": pl.String}, kind="diffs")
    >>> words
    Source 'words' of kind diffs: word String
    >>> now = engine.view("now", words)
    >>> _ = words.push({"word": ["a", "b"]})
    >>> _ = words.push({"word": ["a"], "_diff": [-1]})
    >>> now.read().rows()
    [('b',)]
    """

    _is_source = True

    def __init__(
        self, plan: Plan, place: PlanId, declared: Input, position_order: PositionOrder | None = None
    ) -> None:
        super().__init__(plan, place)
        self._declared = declared
        self.positions: Positions = Positions(declared.name, position_order)
        """How positions of its input are compared."""
        self._take: Callable[..., int] | None = None
        """The method ``push`` of the engine that has declared it."""
        self.changed: Changed = Changed(
            f"source {declared.name!r}", self.schema, self.kind, self.key, self.sequence_by
        )
        """What the decoders of change messages need of it."""
        self.format: ChangeFormat | None = declared.format
        """The format of the messages in which its changes come; None if rows come as they are."""
        self.arriving: pl.Schema = self.schema if self.format is None else self.format.arriving(self.changed)
        """The columns that are pushed, besides ``_diff``: those of its rows, or those of messages."""
        self.read_as: pl.Schema = self.arriving
        """The types as which columns of Python values are read; a message may be a text or bytes."""
        if self.format is not None:
            texts = {name: dtype for name, dtype in self.arriving.items() if dtype != pl.Binary}
            self.read_as = pl.Schema(texts)

    def push(
        self,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes: ``engine.push(source.name, data, ...)``, with the same arguments and results.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> words = engine.source("words", {"word": pl.String})
        >>> counts = engine.view("counts", words.group_by("word").len())
        >>> words.push({"word": ["a", "b", "a"]})
        1
        """
        if self._take is None:
            raise PlanError(f"source {self.name!r} belongs to no engine; declare it with engine.source(...)")
        return self._take(self.name, data, at=at, watermark=watermark, position=position)

    def forked(self, plan: Plan) -> Source:
        """Return the same source in a copy of its plan."""
        return Source(plan, self._place, self._declared, self.positions.order)

    @property
    def name(self) -> str:
        """The name under which rows are pushed."""
        return self._declared.name

    @property
    def kind(self) -> SourceKind:
        """What a row means: "append", "diffs" or "upsert"."""
        return self._declared.kind

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key of an upsert source; empty otherwise."""
        return self._declared.keys

    @property
    def sequence_by(self) -> tuple[str, ...]:
        """The columns that order the changes of a key in an upsert source; empty if rows count in the order in which they come."""
        return self._declared.sequence

    @property
    def event_time(self) -> str | None:
        """The column of event time, if one was declared."""
        return None if self._event_time is None else self._event_time.column

    @property
    def is_trusted(self) -> bool:
        """Whether its retractions are not checked."""
        return self._declared.trusted

    def decoded(self, messages: PushedFrame) -> Decoded:
        """Return the rows of messages, as they are pushed.

        Raises:
            InputError: these are not the columns of messages.
        """
        assert self.format is not None
        decoded = self.format.decoded_frame(self.changed, messages.frame)
        return replace(decoded, rows=decoded.rows.drop(DIFF)) if self.kind == "append" else decoded

    @property
    def stamps_rows(self) -> bool:
        """Whether the event time of a row is the processing time of its batch."""
        return self._declared.watermark is not None and self._declared.watermark.stamps_rows

    instead_of_pickling = (
        "Push in the process of the engine, and send the rows there, by a queue or as return values"
    )

    @property
    def _as_operand(self) -> str:
        return f"source {self.name!r}"

    def __repr__(self) -> str:
        """Show name, kind and columns."""
        return f"Source {self.name!r} of kind {self.kind}: {self._described}"


def declare(
    plan: Plan,
    name: str,
    schema: Mapping[str, Any],
    *,
    kind: SourceKind,
    key: str | tuple[str, ...] | list[str] | None,
    event_time: str | None,
    watermark: Watermark | None,
    bounded: bool,
    strict: bool,
    trusted: bool,
    retained: bool = False,
    sequence_by: str | tuple[str, ...] | list[str] | None = None,
    position_order: PositionOrder | None = None,
    format: ChangeFormat | None = None,
) -> Source:
    """Check a source's declaration and add it to the plan.

    Raises:
        PlanError: columns are reserved or missing, or options do not go together.
    """
    where = f"source {name!r}"
    types = declared_schema(where, schema)
    if not types:
        raise PlanError(f"{where}: no columns; declare at least one, as in {{'id': pl.Int64}}")
    forbid_reserved(where, types)
    if objects := [column for column, dtype in types.items() if dtype in (pl.Object, pl.Unknown)]:
        raise PlanError(
            f"{where}: column {listed(objects)} has a type that cannot be kept; use a plain polars type"
        )
    for column, dtype in types.items():
        if holds_empty_arrays(dtype):
            raise PlanError(
                f"{where}: column {column!r} is {dtype}, and arrays of no values cannot be kept; leave it out, declare the number of "
                "values that its arrays have, or declare a list"
            )
    require_booleans(where, bounded=bounded, strict=strict, trusted=trusted, retained=retained)
    if not isinstance(kind, str) or kind not in ("append", "diffs", "upsert"):
        raise PlanError(f"{where}: unknown kind {kind!r}; there are 'append', 'diffs' and 'upsert'")
    keys = option_names(f"{where}: key", key)
    if (kind == "upsert") != bool(keys):
        raise PlanError(f"{where}: key= goes with kind='upsert', and an upsert source needs one")
    if (kind != "diffs" and (strict or trusted)) or (strict and trusted):
        raise PlanError(f"{where}: strict= and trusted= go with kind='diffs', one of them at a time")
    require_columns(where, types, keys)
    sequence = _sequence(where, types, kind, keys, sequence_by)
    if event_time is not None:
        if not isinstance(event_time, str):
            raise PlanError(f"{where}: event_time={event_time!r}; give the name of a column")
        require_columns(where, types, [event_time])
        require_time(where, event_time, types[event_time])
    specification = declared_watermark(where, watermark, types, event_time, appends=kind == "append")
    if format is not None:
        _require_format(format, Changed(where, types, kind, keys, sequence))
    declared = Input(
        name, kind, keys, strict, trusted, specification, bounded, bool(retained), sequence, format
    )
    timed = None if event_time is None else EventTime(event_time)
    if position_order is not None and not callable(position_order):
        raise PlanError(
            f"{where}: position_order={position_order!r}; give a function that returns what a position is compared by"
        )
    source = Source(plan, plan.add(PlanNode(declared, (), types, where, timed)), declared, position_order)
    plan.sources[name] = source
    return source


def _require_format(format: object, into: Changed) -> None:
    """Check ``format=``.

    Raises:
        PlanError: it is no format, or changes of it do not fit the source.
    """
    if not isinstance(format, ChangeFormat):
        raise PlanError(
            f"{into.where}: format={format!r}; give ec.Debezium(), ec.BeforeAfter() or ec.ChangeFeed(), or leave it out for rows"
        )
    format.require(into)


def is_same(one: Source, other: Source) -> bool:
    """Return whether two sources, perhaps of two plans, are declared in the same way, their functions included."""
    first, second = one._plan[one._place], other._plan[other._place]
    orders = one.positions.order, other.positions.order
    are_equal = first.operation == second.operation and orders[0] is orders[1]
    return (
        operation_identity(first) == operation_identity(second)
        and one._declared.retained == other._declared.retained
        and one.format == other.format
        and digest_of(orders[0]) == digest_of(orders[1])
        and (are_equal or is_covered(first.operation, second.operation, *orders))
    )


def with_other_columns(plan: Plan, source: Source, types: pl.Schema) -> Source:
    """Return the same source in another plan, declared with other columns."""
    node = replace(source._plan[source._place], schema=types)
    return Source(plan, plan.add(node), source._declared)


def _sequence(
    where: str,
    types: pl.Schema,
    kind: SourceKind,
    keys: tuple[str, ...],
    sequence_by: str | tuple[str, ...] | list[str] | None,
) -> tuple[str, ...]:
    """Check ``sequence_by``, and return the columns by which changes of a key are ordered; none if they come in order.

    Raises:
        PlanError: a column does not exist or cannot be ordered, or the source is of another kind.
    """
    names = option_names(f"{where}: sequence_by", sequence_by)
    if names and kind != "upsert":
        raise PlanError(
            f"{where}: sequence_by= goes with kind='upsert', where rows replace the row of their key"
        )
    require_columns(where, types, names)
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise PlanError(f"{where}: sequence_by= names {listed(twice)} twice; name it once")
    if both := [name for name in names if name in keys]:
        raise PlanError(
            f"{where}: {listed(both)} is the key, and equal in all changes of it; leave it out of sequence_by="
        )
    for name in names:
        dtype = types[name]
        if dtype.is_nested() or dtype in (pl.Categorical, pl.Null):
            raise PlanError(
                f"{where}: column {name!r} is {dtype}, which cannot be ordered; give sequence_by= a column of numbers, times or texts"
            )
    return names
