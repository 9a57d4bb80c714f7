"""Declared sources, and the check of every frame that is pushed into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.columns.kernels import Ints, frame_of
from evercurrent.core.columns.lossless import LossyValueError, exactly
from evercurrent.core.columns.ownership import PushedColumns
from evercurrent.core.columns.whole_columns import is_ones, ones
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, EPOCH, columns_are, forbid_reserved, listed, require_columns
from evercurrent.core.data.tags import tagged
from evercurrent.core.eventtime.watermarks.kinds import Watermark

from ..connectors.change_formats import Changed, ChangeFormat, Decoded
from ..connectors.input_hints import refusal
from ..connectors.positions import Position, PositionOrder, Positions
from ..connectors.pushed_frames import PushedFrame, pushed_frame
from ..connectors.text_bytes import require_utf8
from ..expressions import declared_schema
from ..plan.digests import digest_of, is_covered
from ..plan.node_identities import operation_identity
from ..plan.nodes import EventTime, Input, PlanId, PlanNode, SourceKind
from ..plan.plan import Plan
from .collection import Collection
from .operator_hints import OfOneEngine
from .watermarks import declared_watermark
from .windowing import require_time

DIFF_LIMIT = 2**31
"""Diffs from this size on are refused: sums of that many rows could not be kept exactly."""


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
        self._changed = Changed(
            f"source {declared.name!r}", self.schema, self.kind, self.key, self.sequence_by
        )
        format = declared.format
        self.arriving: pl.Schema = self.schema if format is None else format.arriving(self._changed)
        """The columns that are pushed, besides ``_diff``: those of its rows, or those of messages."""
        self.read_as: pl.Schema = self.arriving
        """The types as which columns of Python values are read; a message may be a text or bytes."""
        if format is not None:
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

    @property
    def format(self) -> ChangeFormat | None:
        """The format of the messages in which its changes come; None if rows come as they are."""
        return self._declared.format

    def decoded(self, messages: PushedFrame) -> Decoded:
        """Return the rows of messages, as they are pushed.

        Raises:
            InputError: these are not the columns of messages.
        """
        assert self.format is not None
        decoded = self.format.decoded_frame(self._changed, messages.frame)
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
    if kind not in ("append", "diffs", "upsert"):
        raise PlanError(f"{where}: unknown kind {kind!r}; there are 'append', 'diffs' and 'upsert'")
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    if (kind == "upsert") != bool(keys):
        raise PlanError(f"{where}: key= goes with kind='upsert', and an upsert source needs one")
    if (kind != "diffs" and (strict or trusted)) or (strict and trusted):
        raise PlanError(f"{where}: strict= and trusted= go with kind='diffs', one of them at a time")
    require_columns(where, types, keys)
    sequence = _sequence(where, types, kind, keys, sequence_by)
    if event_time is not None:
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
    names = (sequence_by,) if isinstance(sequence_by, str) else sequence_by or ()
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise PlanError(
            f"{where}: sequence_by={sequence_by!r}; give the name of a column, or several in a list"
        )
    names = tuple(names)
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


def accepted(source: Source, data: Any, *, is_copied: bool = True) -> Delta:
    """Return a pushed frame as a delta, with its columns in the order of the source.

    Unless it ``is_copied``, the delta may have ``pushed_columns``, which are the caller's to ``own`` in time.

    Raises:
        InputError: the frame does not fit the source; names the column, what is in it and the remedy.
    """
    where = f"source {source.name!r}"
    pushed = pushed_frame(where, source.read_as, data, is_copied=is_copied or source.format is not None)
    if source.format is not None:
        decoded = source.decoded(pushed)
        decoded.require_all(where)
        pushed = PushedFrame(decoded.rows, "polars", {})
    return delta_of(source, pushed)


def arriving_frame(source: Source, data: Any) -> pl.DataFrame:
    """Return pushed data that fit the source as rows with diffs, or as the messages that they are.

    Raises:
        InputError: they do not fit the source.
    """
    rows = accepted(source, data).frame
    return rows if source.format is None else messages_of(source, data)


def messages_of(source: Source, data: Any) -> pl.DataFrame:
    """Return the messages that were pushed into a source of changes, with all columns of its format; none is decoded.

    Raises:
        InputError: a column is not one of the format, or of another type.
    """
    assert source.format is not None
    messages = pushed_frame(f"source {source.name!r}", source.read_as, data).frame
    return source.format.with_columns(source._changed, messages).cast(source.arriving)


def delta_of(source: Source, pushed: PushedFrame) -> Delta:
    """Return a frame that was pushed as a delta, as ``accepted`` does."""
    where, schema = f"source {source.name!r}", source._node.schema
    frame, names, dtypes = pushed.frame, schema.names(), schema.dtypes()
    if frame.columns == names:
        diffs = ones(frame.height)
    else:
        frame, diffs = _with_declared_columns(where, source, frame)
    require_utf8(where, frame)
    if frame.dtypes != dtypes or frame.columns != names:
        frame = _as_declared(where, schema, frame, pushed)
    for key in source.key:
        if frame.get_column(key).has_nulls():
            row = int(frame.get_column(key).is_null().arg_max() or 0)
            raise InputError(f"{where}: primary key {key!r} is null in row {row}; give every row its key")
    for name in source.sequence_by:
        _require_sequence(where, frame.get_column(name))
    if pushed.is_owned:
        delta = Delta.of_columns(frame.get_columns(), diffs)
    else:
        delta = Delta.of_mapping(
            PushedColumns(frame.get_columns()), diffs if is_ones(diffs) else diffs.copy()
        )
    return delta if is_ones(diffs) or diffs.all() else delta.take(np.flatnonzero(diffs))


def _with_declared_columns(where: str, source: Source, frame: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Return a frame with all declared columns, of the types that were pushed, and the diffs of its rows.

    Raises:
        InputError: a column is missing or not declared, or diffs are not what the source takes.
    """
    if EPOCH in frame.columns:
        raise InputError(f"{where}: column {EPOCH!r} is reserved for the engine; drop it")
    schema, diffs = source.schema, _diffs(where, source, frame)
    if source.kind == "upsert":
        frame = _with_deleted_columns(source, frame, diffs)
    if source.stamps_rows and source.event_time not in frame.columns:
        assert source.event_time is not None
        dtype = schema[source.event_time]
        frame = frame.with_columns(pl.lit(None, dtype).alias(source.event_time))
    _require_columns(where, schema, frame)
    return frame, diffs


def _diffs(where: str, source: Source, frame: pl.DataFrame) -> Ints:
    if DIFF not in frame.columns:
        return ones(frame.height)
    if source.kind == "append":
        raise InputError(
            f"{where}: rows with {DIFF!r}, but the source is declared append; declare it with kind='diffs' to retract"
        )
    column = frame.get_column(DIFF)
    if not column.dtype.is_integer():
        raise InputError(
            f"{where}: column {DIFF!r} is {column.dtype}; it must be a whole number, for example pl.Int64"
        )
    if column.has_nulls():
        row = int(column.is_null().arg_max() or 0)
        raise InputError(f"{where}: column {DIFF!r} is null in row {row}; use +1 or -1")
    if column.dtype == pl.Int64:
        diffs: Ints = column.to_numpy()
    else:
        diffs = column.cast(pl.Int64, strict=False).fill_null(DIFF_LIMIT).to_numpy()
    # The least integer has no absolute value.
    if len(diffs) and (int(diffs.max()) >= DIFF_LIMIT or int(diffs.min()) <= -DIFF_LIMIT):
        raise InputError(f"{where}: column {DIFF!r} holds a count of {DIFF_LIMIT} or more; split the row")
    if source.kind == "upsert" and not (np.abs(diffs) == 1).all():
        raise InputError(
            f"{where}: column {DIFF!r} of an upsert source is +1 (this row now) or -1 (delete the key)"
        )
    return diffs


def _with_deleted_columns(source: Source, frame: pl.DataFrame, diffs: Ints) -> pl.DataFrame:
    """Add columns of nulls to a frame of deletions, which needs only the key and the sequence."""
    needed = (*source.key, *source.sequence_by)
    missing = [name for name in source.columns if name not in frame.columns and name not in needed]
    if missing and (diffs == -1).all():
        frame = frame.with_columns(pl.lit(None, source.schema[name]).alias(name) for name in missing)
    return frame


def _require_sequence(where: str, column: pl.Series) -> None:
    """Check that a column of ``sequence_by`` has neither null nor NaN, which have no place in the order."""
    bad, what = column.is_null(), "null"
    if not bad.any() and column.dtype.is_float():
        bad, what = column.is_nan(), "NaN"
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise InputError(
            f"{where}: sequence {column.name!r} is {what} in row {row}, so it is neither before nor after other rows of its "
            "key; give every row its sequence, deletions too"
        )


def _require_columns(where: str, schema: pl.Schema, frame: pl.DataFrame) -> None:
    if missing := [name for name in schema if name not in frame.columns]:
        raise InputError(
            f"{where}: {columns_are(missing)} missing; the frame has {listed(frame.columns)}: add {'it' if len(missing) == 1 else 'them'}"
        )
    if extra := [name for name in frame.columns if name not in schema and name != DIFF]:
        raise InputError(
            f"{where}: {columns_are(extra)} not declared; {'drop it or declare it' if len(extra) == 1 else 'drop them or declare them'}"
        )


def _as_declared(where: str, schema: pl.Schema, frame: pl.DataFrame, pushed: PushedFrame) -> pl.DataFrame:
    """Return the declared columns in their order and with exactly their types, and every value unchanged."""
    types = frame.schema
    columns: list[pl.Series] = []
    for name, dtype in schema.items():
        if types[name] != dtype:
            column = frame.get_column(name)
            try:
                columns.append(exactly(column, dtype))
            except LossyValueError as lossy:
                what = refusal(pushed.origin, name, pushed.type_of(name), column, dtype, lossy)
                raise InputError(f"{where}: {what}") from None
    frame = frame.with_columns(columns) if columns else frame
    return frame_of([frame.get_column(name) for name in schema])
