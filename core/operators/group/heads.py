"""The first row of each group by an order is kept in additive columns.

A value of up to 64 bits has an *order word*, an integer that sorts as the value does; a decimal has two. The first row of a
group is the one whose words come first, so while no row is retracted a group needs these words and nothing of its other rows. They
are kept as differences: an epoch adds ``word now - word before`` modulo 2^64, so that the words of a group are the sums of its
columns. Spines, merges, rollback, checkpoints and buckets then work as they do for any sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ...data.columns.kernels import Index, Ints, Mask, series_of
from ...data.columns.lossless import exactly
from ...data.columns.nulls import nulls_as, nulls_in
from ...data.columns.order_words import (
    order_word_count,
    several_order_words,
    values_of_several,
    word_kind,
)
from ...data.columns.whole_columns import AnyColumn
from ...data.schema import Order
from .aggregates import FirstBy

PREFIX = "head:"
"""The prefix of the names of the additive columns of first rows."""

WORDS = ((), ("word",), ("upper", "lower"))
"""The names of the order words of a value, by their number."""


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """The first rows of groups: which groups have one, and its words. The row with the least words comes first."""

    has: Mask
    words: tuple[Ints, ...]

    def replaced(self, groups: Index, others: Heads) -> Heads:
        """Return the same, with the first rows of these groups replaced by others."""
        has = self.has.copy()
        has[groups] = others.has
        words = tuple(column.copy() for column in self.words)
        for column, other in zip(words, others.words, strict=True):
            column[groups] = other
        return Heads(has, words)


@dataclass(frozen=True, slots=True)
class HeadOrder:
    """The order that determines the first row of a group, over columns that all have order words.

    The aggregate shows the value of its ``input`` in that row. For each column words are kept: whether the
    value is null, placed as the order places nulls, and its order words.
    """

    aggregate: FirstBy
    columns: tuple[Order, ...]
    types: tuple[pl.DataType, ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of the additive columns: whether there is a first row, then its words."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self._names())

    @staticmethod
    def of(aggregate: FirstBy, types: Mapping[str, pl.DataType]) -> HeadOrder | None:
        """Return the order of an aggregate; None if a column of it has no order words."""
        columns = {order.column: order for order in aggregate.order}
        columns.setdefault(aggregate.input, Order(aggregate.input))
        if not all(order_word_count(types[name]) for name in columns):
            return None
        return HeadOrder(aggregate, tuple(columns.values()), tuple(types[name] for name in columns))

    def _names(self) -> tuple[str, ...]:
        parts = [
            f"{each.column}{'-' if each.descending else '+'}{'<>'[each.nulls_last]}" for each in self.columns
        ]
        where = "" if self.aggregate.where is None else f" where {self.aggregate.where}"
        about = PREFIX + ",".join(parts) + where
        return (
            about,
            *(
                f"{about}:{part}{place}"
                for place, dtype in enumerate(self.types)
                for part in ("null", *WORDS[order_word_count(dtype)])
            ),
        )

    @property
    def has_wide_words(self) -> bool:
        """Return whether a value has several words, which earlier versions did not keep: they kept the rows that come first."""
        return any(order_word_count(dtype) > 1 for dtype in self.types)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the columns of rows that are needed."""
        where = () if self.aggregate.where is None else (self.aggregate.where,)
        return tuple(dict.fromkeys((*(each.column for each in self.columns), *where)))

    @property
    def kept_sums(self) -> tuple[str, ...]:
        """Return the names with the kinds of the words, so that words of one kind are never read as those of another."""
        kinds = ",".join(word_kind(dtype) for dtype in self.types)
        return tuple(f"{name} ({kinds})" for name in self.names)

    def words(self, rows: pl.DataFrame) -> tuple[Ints, ...]:
        """Return the words of rows; the row with the least words comes first."""
        row_words: list[Ints] = []
        for order in self.columns:
            column = rows.get_column(order.column)
            words = several_order_words(column)
            words = [~each for each in words] if order.descending else words
            nulls = np.zeros(rows.height, np.int64)
            if column.has_nulls():
                nulls = nulls_in(column).astype(np.int64)
                words = [np.where(nulls != 0, 0, each) for each in words]
            row_words += [nulls if order.nulls_last else -nulls, *words]
        return tuple(row_words)

    def qualifying(self, rows: pl.DataFrame) -> Index:
        """Return the positions of the rows that may be first: those for which ``where`` is true."""
        if self.aggregate.where is None:
            return np.arange(rows.height)
        return np.flatnonzero(nulls_as(False, rows.get_column(self.aggregate.where)).to_numpy())

    def first(self, rows: pl.DataFrame, groups: Index, count: int) -> Heads:
        """Return the first row of each of ``count`` groups; ``groups`` has the group of each row. Cost: the rows."""
        return _first_among(self.words(rows), self.qualifying(rows), groups, count)

    def first_of_changes(
        self, rows: pl.DataFrame, diffs: Ints, groups: Index, count: int
    ) -> tuple[Heads, Heads]:
        """Return the ``first`` of the rows that are added, and of those that are retracted."""
        words, chosen = self.words(rows), self.qualifying(rows)
        own_diffs = diffs[chosen]
        added, retracted = chosen[own_diffs > 0], chosen[own_diffs < 0]
        return _first_among(words, added, groups, count), _first_among(words, retracted, groups, count)

    def shown(self, heads: Heads) -> AnyColumn:
        """Return the value of each group: null where it has no first row."""
        place = next(at for at, order in enumerate(self.columns) if order.column == self.aggregate.input)
        return self._column(heads, place).alias(self.aggregate.output)

    def retyped(self, other: HeadOrder, sums: Mapping[str, Ints]) -> dict[str, Ints]:
        """Return the additive columns, converted from those that another order has kept for columns of other types.

        Raises:
            LossyValueError: a value does not fit its type.
        """
        heads = other.kept(sums, len(sums[self.names[0]]))
        columns = [
            exactly(series_of(other._column(heads, place)), dtype).alias(order.column)
            for place, (order, dtype) in enumerate(zip(self.columns, self.types, strict=True))
        ]
        return self.sums(Heads(heads.has, self.words(pl.DataFrame(columns))))

    def _column(self, heads: Heads, place: int) -> AnyColumn:
        begin = sum(1 + order_word_count(dtype) for dtype in self.types[:place])
        name, dtype = self.columns[place].column, self.types[place]
        nulls, *words = heads.words[begin : begin + 1 + order_word_count(dtype)]
        words = [~each for each in words] if self.columns[place].descending else words
        lacking = ~heads.has | (nulls != 0)
        if not lacking.any():
            return values_of_several(name, words, dtype)
        words = [np.where(lacking, 0, each) for each in words]
        return series_of(values_of_several(name, words, dtype)).set(pl.Series(lacking), None)

    def first_of_parts(self, parts: pl.DataFrame, groups: Index, count: int, prefix: str = "") -> Heads:
        """Return the first row of each group, given the first rows of parts in the columns that ``columns_of`` returns."""
        has, *words = (nulls_as(0, parts.get_column(prefix + name)).to_numpy() for name in self.names)
        chosen = np.flatnonzero(has)
        return first_of([each[chosen] for each in words], groups[chosen], count)

    def columns_of(self, heads: Heads) -> list[pl.Series]:
        """Return first rows as columns, for parts of a change that are combined later."""
        return [pl.Series(name, column) for name, column in self.sums(heads).items()]

    def none(self, count: int) -> Heads:
        """Return that no group has a first row."""
        return self.kept({}, count)

    def kept(self, sums: Mapping[str, Ints], count: int) -> Heads:
        """Return the first rows that the additive columns of groups hold."""
        nothing = np.zeros(count, np.int64)
        has, *words = (sums.get(name, nothing) for name in self.names)
        return Heads(has != 0, tuple(words))

    def sums(self, heads: Heads) -> dict[str, Ints]:
        """Return the additive columns that hold these first rows, with zeros for groups without one."""
        words = heads.words if heads.has.all() else [np.where(heads.has, each, 0) for each in heads.words]
        return dict(zip(self.names, (heads.has.astype(np.int64), *words), strict=True))


def _first_among(words: Sequence[Ints], chosen: Index, groups: Index, count: int) -> Heads:
    """Return the first of the rows at these positions for each group."""
    if len(chosen) == len(groups):
        return first_of(words, groups, count)
    return first_of([each[chosen] for each in words], groups[chosen], count)


def first_of(words: Sequence[Ints], owners: Index, count: int) -> Heads:
    """Return the first row of each group by these words. Cost: a pass for each word over the rows that still tie."""
    has = np.zeros(count, np.bool_)
    has[owners] = True
    first: list[Ints] = []
    tied: Index | None = None
    for place, column in enumerate(words):
        column = column if tied is None else column[tied]
        if not column.any():
            first.append(np.zeros(count, np.int64))
            continue
        least = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(least, owners, column)
        first.append(np.where(has, least, 0))
        if place == len(words) - 1:
            break
        ties = np.flatnonzero(column == least[owners])
        if len(ties) < len(owners):
            owners, tied = owners[ties], ties if tied is None else tied[ties]
    return Heads(has, tuple(first))


def is_before(one: Heads, other: Heads) -> Mask:
    """Return for each group that has both first rows whether the one comes before the other; for others it may be either."""
    before = np.zeros(len(one.has), np.bool_)
    is_tied = np.ones(len(one.has), np.bool_)
    for mine, theirs in zip(one.words, other.words, strict=True):
        before |= is_tied & (mine < theirs)
        is_tied &= mine == theirs
    return before


def earlier_of(one: Heads, other: Heads) -> Heads:
    """Return for each group the one of its two first rows that comes before the other."""
    chosen = one.has & (is_before(one, other) | ~other.has)
    words = zip(one.words, other.words, strict=True)
    return Heads(one.has | other.has, tuple(np.where(chosen, mine, theirs) for mine, theirs in words))
