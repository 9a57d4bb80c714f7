"""The change of one epoch: rows with signed counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from weakref import ref

import numpy as np
import polars as pl

from .columns.combinations import group_by_columns
from .columns.grouping import Groups, consolidated, group, group_column
from .columns.kernels import (
    MANY_ROWS,
    Index,
    Ints,
    Keys,
    Mask,
    at,
    frame_of,
    gather,
    keep,
    key_words,
    series_of,
    stack,
)
from .columns.ownership import PushedColumns
from .columns.whole_columns import AnyColumn, IntColumn
from .schema import DIFF, empty_delta_frame


class Delta:
    """Rows with diffs: the change of a collection in one epoch. It is immutable.

    ``frame`` holds the data columns and, last, ``_diff`` (Int64, no nulls). It is made when it is first needed: operators that
    take ``column`` and ``diffs`` pass changes on as arrays. A delta is *consolidated* when each row is in
    it once and no diff is zero. Linear operators neither need nor restore that form, so a delta has a flag for it
    (``is_consolidated``), and ``consolidate`` establishes it where it is needed: at the edge of the circuit.
    """

    __slots__ = (
        "_columns",
        "_diffs",
        "_frame",
        "_groups",
        "_words",
        "_words_by",
        "height",
        "is_consolidated",
    )

    def __init__(self, frame: pl.DataFrame, is_consolidated: bool = False) -> None:
        self._frame: pl.DataFrame | None = frame
        self.height: int = frame.height
        """The number of entries, each a row with its diff."""
        self._words_by: dict[tuple[tuple[str, ...], int], Keys] = {}
        """The words of keys that were made of these rows: operators that keep them by the same key share the work."""
        self._columns: Mapping[str, AnyColumn] | None = None
        self._diffs: Ints | None = None
        self._groups: Groups | None = None
        """The entries by equal rows, once they were brought together: whoever needs them next has them for nothing."""
        self._words: Keys | None = None
        self.is_consolidated: bool = is_consolidated

    @staticmethod
    def empty(schema: pl.Schema) -> Delta:
        """Return the delta without rows over these data columns."""
        return Delta(empty_delta_frame(schema), is_consolidated=True)

    @staticmethod
    def of(rows: pl.DataFrame, diffs: Ints, *, is_consolidated: bool = False) -> Delta:
        """Return rows and their diffs, side by side."""
        return Delta(frame_of([*rows.get_columns(), pl.Series(DIFF, diffs)]), is_consolidated)

    @staticmethod
    def of_columns(columns: Sequence[AnyColumn], diffs: Ints, *, is_consolidated: bool = False) -> Delta:
        """Return columns and their diffs, side by side, by reference."""
        return Delta.of_mapping(
            {column.name: column for column in columns}, diffs, is_consolidated=is_consolidated
        )

    @staticmethod
    def of_mapping(columns: Mapping[str, AnyColumn], diffs: Ints, *, is_consolidated: bool = False) -> Delta:
        """Return columns by name and their diffs, side by side, by reference."""
        delta = object.__new__(Delta)
        delta._frame = delta._groups = delta._words = None
        delta._columns = columns
        delta._diffs = diffs
        delta.height = len(diffs)
        delta._words_by = {}
        delta.is_consolidated = is_consolidated
        return delta

    def __len__(self) -> int:
        """Return the number of entries, each a row with its diff."""
        return self.height

    def __repr__(self) -> str:
        """Return the rows, for messages of tests."""
        return f"Delta({self.frame!r}, is_consolidated={self.is_consolidated})"

    @property
    def frame(self) -> pl.DataFrame:
        """Return data columns and diffs as a frame."""
        columns, frame = self._columns, self._frame
        if frame is None:
            assert columns is not None, "columns are dropped once there is a frame"
            frame = frame_of([*columns.values(), pl.Series(DIFF, self.diffs)])
            self._frame = frame
            self._columns = None
        return frame

    def column(self, name: str) -> AnyColumn:
        """Return a data column."""
        columns = self._columns
        return self.frame.get_column(name) if columns is None else columns[name]

    def columns(self, names: Iterable[str]) -> list[AnyColumn]:
        """Return data columns."""
        columns = self._columns
        if columns is None:
            frame = self.frame
            return [frame.get_column(name) for name in names]
        return [columns[name] for name in names]

    def renamed(self, copies: Mapping[str, str]) -> list[AnyColumn]:
        """Return the columns that these name, under their new names."""
        columns, frame = self._columns, self._frame
        renamed: list[AnyColumn] = []
        for name, copied in copies.items():
            if columns is None:
                assert frame is not None, "columns are dropped once there is a frame"
                column: AnyColumn = frame.get_column(copied)
            else:
                column = columns[copied]
            renamed.append(column if name == copied else column.alias(name))
        return renamed

    def copied(self, copies: Mapping[str, str], *, is_consolidated: bool) -> Delta:
        """Return the same entries with the columns that these name, under their new names, and no others."""
        return Delta.of_columns(self.renamed(copies), self.diffs, is_consolidated=is_consolidated)

    def frame_with(self, names: Iterable[str], *, at_once: bool = False) -> pl.DataFrame:
        """Return a frame with at least these columns, ``_diff`` among them or not; if there is none yet, with no others.

        If they are read ``at_once``, and nothing refers to them or to their memory afterwards, they may be as they were pushed.
        """
        columns = self._columns
        if columns is None:
            return self.frame
        of_name = columns.as_pushed if at_once and isinstance(columns, PushedColumns) else columns.__getitem__
        read = [of_name(name) for name in names if name != DIFF]
        return frame_of([*read, pl.Series(DIFF, self.diffs)])

    @property
    def pushed_columns(self) -> PushedColumns | None:
        """Return the columns if they are still those that were pushed, copied as far as they were read."""
        return self._columns if isinstance(self._columns, PushedColumns) else None

    @property
    def pushed_reference(self) -> ref[PushedColumns] | None:
        """Return a reference to ``pushed_columns``, which does not keep them."""
        return ref(self._columns) if isinstance(self._columns, PushedColumns) else None

    def with_values(self, change: Callable[[pl.Series], pl.Series]) -> Delta:
        """Return the same entries with each column changed by a function; pushed columns are when they are first read."""
        pushed = self.pushed_columns
        if pushed is not None:
            return Delta.of_mapping(pushed.changed(change), self.diffs, is_consolidated=self.is_consolidated)
        columns = self.rows.get_columns() if self._columns is None else map(series_of, self._columns.values())
        return Delta.of_columns([*map(change, columns)], self.diffs, is_consolidated=self.is_consolidated)

    def where(self, mask: Mask) -> Delta:
        """Return the entries where the mask is true."""
        if self.height > MANY_ROWS and self.pushed_columns is None:
            return Delta(keep(self.frame, mask), self.is_consolidated)
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, index: Index) -> Delta:
        """Return the entries at these ascending positions."""
        columns, diffs = self._columns, self.diffs[index]
        if columns is None:
            return Delta.of(gather(self.rows, index), diffs, is_consolidated=self.is_consolidated)
        if isinstance(columns, PushedColumns):
            rows = [columns.at(name, index) for name in columns]
            return Delta.of_columns(rows, diffs, is_consolidated=self.is_consolidated)
        columns_at: list[AnyColumn] = [
            IntColumn(name, column.values[index]) if isinstance(column, IntColumn) else at(column, index)
            for name, column in columns.items()
        ]
        return Delta.of_columns(columns_at, diffs, is_consolidated=self.is_consolidated)

    @property
    def names(self) -> Collection[str]:
        """Return the names of the data columns; for a delta that is a frame, that of the diffs is among them."""
        columns = self._columns
        return self.frame.columns if columns is None else columns.keys()

    @property
    def diffs(self) -> Ints:
        """Return the diffs as int64, one per entry."""
        if self._diffs is None:
            self._diffs = self.frame.get_column(DIFF).to_numpy()
        return self._diffs

    @property
    def rows(self) -> pl.DataFrame:
        """Return the data columns, without ``_diff``."""
        return frame_of(self.frame.get_columns()[:-1])

    def words_by(self, names: tuple[str, ...], routed: int) -> Keys:
        """Return the ``key_words`` of these columns. Cost: that of ``key_words``, the first time."""
        keys = self._words_by.get((names, routed))
        if keys is None:
            keys = key_words(self.columns(names), self.height, routed)
            self._words_by[names, routed] = keys
        return keys

    def groups_by(self, names: tuple[str, ...], routed: int, is_one_word: bool) -> Groups:
        """Return the entries by equal ``words_by`` these columns. Cost: those words, the first time, and a sort of them.

        Integers with few combinations are counted instead. ``is_one_word``: it is one column whose values are the words of the key.
        """
        if is_one_word:
            return group_column(self.column(names[0]))
        counted = None
        if len(names) > 1 and (names, routed) not in self._words_by:
            counted = group_by_columns(self.columns(names), self.height, routed)
        return counted or group(self.words_by(names, routed))

    @property
    def words(self) -> Keys:
        """Return the words of the rows. Cost: two hashes of the entries, the first time."""
        if self._words is None:
            self._words = key_words(self.rows.get_columns(), self.height)
        return self._words

    @property
    def groups(self) -> Groups:
        """Return the entries by equal rows. Cost: that of ``words``, and one sort of the entries, the first time."""
        if self._groups is None:
            self._groups = group(self.words)
        return self._groups

    def bare(self) -> Delta:
        """Return the same entries without what was found out about them, to be kept for long."""
        same = self.as_consolidated()
        same._groups = same._words = None
        same._words_by, same.is_consolidated = {}, self.is_consolidated
        return same

    def without_cancelled(self) -> Delta | None:
        """Return the change ``bare``; consolidated if all of its rows may cancel, and None if they do."""
        remaining = self.consolidate() if self.diffs.sum() == 0 else self
        return remaining.bare() if remaining.height else None

    def as_consolidated(self) -> Delta:
        """Return the same entries, each of which is known to be another row, with a diff that is not zero."""
        same = object.__new__(Delta)
        same._columns, same._frame, same._diffs = self._columns, self._frame, self._diffs
        same._groups, same._words, same._words_by = self._groups, self._words, self._words_by
        same.height = self.height
        same.is_consolidated = True
        return same

    def consolidate(self) -> Delta:
        """Return the same change with each row once and no zero diff, rows in order of first appearance.

        Cost: that of ``groups``; nothing if the delta is already consolidated.
        """
        if self.is_consolidated:
            return self
        keep, diffs = consolidated(self.groups, self.diffs)
        if keep is None:
            return self.as_consolidated()
        return Delta.of(gather(self.rows, keep), diffs, is_consolidated=True)

    def net(self, *, may_retract: bool) -> Delta:
        """Return the same change in a form in which rows with positive diffs are there after it.

        Without ``may_retract`` it takes no row back. Cost: none if all diffs are positive; else that of ``consolidate``.
        """
        if not self.height or (self.diffs > 0).all():
            return self
        delta = self.consolidate()
        assert may_retract or (delta.diffs > 0).all(), "a retraction where there was to be none"
        return delta

    def negate(self) -> Delta:
        """Return the change that undoes this one."""
        return Delta.of(self.rows, np.negative(self.diffs), is_consolidated=self.is_consolidated)


def rows_at(deltas: Sequence[Delta], names: Sequence[str], index: Index) -> pl.DataFrame:
    """Return these columns of the rows at some positions in deltas that stand one after the other."""
    frames = [frame_of(delta.columns(names)) for delta in deltas]
    return gather(frames[0] if index.max() < frames[0].height else stack(frames), index)
