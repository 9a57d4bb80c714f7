"""A collection as one polars frame with a count for each row, which has the methods of a declared collection.

Nothing here is shared with operators or the plan: expressions are evaluated by polars as they were written, except for the order
of equal rows (``picks``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from evercurrent.core.data.columns.polars_versions import root_names
from evercurrent.core.eventtime.windows.kinds import Given

from .arguments import each_of, is_column, listed, with_name
from .exact_sums import with_exact_sums
from .merging import Closed, in_merged, in_sessions
from .picks import with_order_of_equals
from .row_frames import plain, repeated
from .ties import require_decided
from .windows import BOUNDS, PANE_TIME, UnprovableError, Windows, assigned, waits

DIFF = "_diff"
_GROUP, _COUNT, _LEFT, _RIGHT, _KEY = "#group", "#count", "#left", "#right", "#key"
"""Columns beside those of rows, whose names no declared column has."""

OF_EACH = ("sum", "mean", "median", "min", "max", "n_unique", "quantile")
"""The methods of groups that aggregate each column that is not a key."""


class Batch:
    """Rows with their counts. Each method returns what the method of that name declares, evaluated over all rows at once."""

    def __init__(
        self,
        frame: pl.DataFrame,
        event_time: str | None = None,
        shift: int = 0,
        windows: Windows | None = None,
        log: str = "",
    ) -> None:
        self.frame = frame
        self.event_time = event_time
        self.shift = shift
        self.windows = windows
        self.log = log
        """The mode of panes that do not retract each other, of which a view holds all that were emitted; empty for others."""

    @property
    def rows(self) -> pl.DataFrame:
        """The rows without their counts."""
        names = [name for name in self.frame.columns if name != DIFF]
        return pl.DataFrame([self.frame.get_column(name) for name in names])

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self.rows.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    @property
    def _diffs(self) -> pl.Series:
        return self.frame.get_column(DIFF)

    def consolidated(self) -> Batch:
        """Return each row once, and none with the count zero."""
        if not self.frame.height:
            return self
        summed = self.frame.group_by(self.columns, maintain_order=True).agg(pl.col(DIFF).sum())
        return self._of(summed.filter(pl.col(DIFF) != 0).select(self.frame.columns))

    def _of(self, frame: pl.DataFrame) -> Batch:
        time = self.event_time if self.event_time in frame.columns else None
        return Batch(frame, time, self.shift, self.windows)

    def _with_diffs(self, rows: pl.DataFrame, diffs: pl.Series) -> Batch:
        return self._of(pl.DataFrame([*plain(rows), diffs.alias(DIFF)]))

    # Row by row

    def pipe(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """See ``Collection.pipe``."""
        return function(self, *args, **kwargs)

    def filter(self, *predicates: Any, **constraints: Any) -> Batch:
        """See ``Collection.filter``."""
        conditions = [*predicates, *(pl.col(name).eq(value) for name, value in constraints.items())]
        chosen = self.rows.select(pl.all_horizontal(*conditions).alias(_KEY), self._diffs).get_column(_KEY)
        return self._of(self.frame.filter(chosen.fill_null(False)))

    def select(self, *exprs: Any, **named: Any) -> Batch:
        """See ``Collection.select``."""
        # By name, as polars takes a list of columns only where it is the one positional argument.
        selected = self.rows.select(*exprs, **named, **{DIFF: self._diffs})
        if self.windows is not None:  # The bounds of windows and event time stay, as grouping needs them.
            missing = set(self.columns) - set(selected.columns)
            beside = [self.rows.get_column(name) for name in (*BOUNDS, self.event_time) if name in missing]
            selected = pl.DataFrame([*selected.get_columns(), *beside])
        return self._with_diffs(selected.drop(DIFF), selected.get_column(DIFF))

    def with_columns(self, *exprs: Any, **named: Any) -> Batch:
        """See ``Collection.with_columns``."""
        return self._with_diffs(self.rows.with_columns(*exprs, **named), self._diffs)

    def rename(self, mapping: Any, *, strict: bool = True) -> Batch:
        """See ``Collection.rename``."""
        return self._with_diffs(self.rows.rename(mapping, strict=strict), self._diffs)

    def drop(self, *columns: Any, strict: bool = True) -> Batch:
        """See ``Collection.drop``."""
        return self._with_diffs(self.rows.drop(*columns, strict=strict), self._diffs)

    def cast(self, dtypes: Any, *, strict: bool = True) -> Batch:
        """See ``Collection.cast``."""
        return self._with_diffs(self.rows.cast(dtypes, strict=strict), self._diffs)

    def explode(self, *columns: Any) -> Batch:
        """See ``Collection.explode``."""
        return self._of(self.frame.explode(*columns, empty_as_null=False))

    def unnest(self, *columns: Any) -> Batch:
        """See ``Collection.unnest``."""
        structs = [name for name, dtype in self.schema.items() if isinstance(dtype, pl.Struct)]
        rows = self.rows.unnest(*(columns or structs))
        return self._with_diffs(rows, self._diffs)

    def map_batches(
        self, function: Callable[[pl.DataFrame], pl.DataFrame], *, schema: Any = None, version: Any = None
    ) -> Batch:
        """See ``Collection.map_batches``: rows of one count are handed over together."""
        del version  # It identifies the function, and computes nothing.
        frames = []
        for frame in self.frame.partition_by(DIFF, maintain_order=True):
            rows, diff = frame.drop(DIFF), frame.item(0, DIFF)
            # polars may round otherwise in a frame of one row.
            is_one = rows.height == 1
            result = function(pl.concat([rows, rows])).gather_every(2) if is_one else function(rows)
            frames.append(result.with_columns(pl.lit(diff, pl.Int64).alias(DIFF)))
        empty = pl.DataFrame(schema=schema) if schema is not None else function(self.rows.clear())
        frames.append(empty.clear().with_columns(pl.lit(0, pl.Int64).alias(DIFF)))
        frame = pl.concat([frame.select(frames[-1].columns) for frame in frames])
        return Batch(pl.DataFrame([*plain(frame.drop(DIFF)), frame.get_column(DIFF)]), windows=self.windows)

    def with_event_time(self, column: Any, *, strict: bool = False) -> Batch:
        """See ``Collection.with_event_time``."""
        if strict or not isinstance(column, str):
            raise UnprovableError("with_event_time depends on the watermark, or computes a time")
        return Batch(self.frame, column)

    # Event time

    def window(self, window: Any = None, *, timestamp: str = "end") -> Batch:
        """See ``Collection.window``."""
        kind = Given() if window is None else window
        of = self if (kind.is_given or kind.is_global) else self._with_lasting_time()
        windows = replace(self._windowing, window=kind, stamp=timestamp)
        return Batch(assigned(of.frame, of.event_time, of.shift, kind), of.event_time, of.shift, windows)

    def _with_lasting_time(self) -> Batch:
        """Return rows of panes with their event time in a column that stays when the bounds of windows are replaced."""
        if self.event_time not in BOUNDS:
            return self
        time = pl.col(self.event_time) + pl.duration(microseconds=self.shift)
        rows = self.rows.with_columns(time.alias(PANE_TIME))
        return Batch(pl.DataFrame([*rows.get_columns(), self._diffs.alias(DIFF)]), PANE_TIME)

    def trigger(
        self, trigger: Any = None, *, early: Any = None, late: Any = None, always: Any = False
    ) -> Batch:
        """See ``Collection.trigger``."""
        return self._with_windows(waits=waits(trigger, early, late, always))

    def accumulate(self, mode: str, *, allow_regrouping: bool = False) -> Batch:
        """See ``Collection.accumulate``."""
        del allow_regrouping  # Panes that are grouped again are refused: no rows decide which there are.
        return self._with_windows(mode=mode)

    def lateness(self, allowed: Any) -> Batch:
        """See ``Collection.lateness``: which rows came too late is looked up in the ledger."""
        del allowed
        return self._with_windows()

    def with_pane_info(self) -> Batch:
        """See ``Collection.with_pane_info``."""
        return self._with_windows(has_info=True)

    def latest(self) -> Batch:
        """See ``Collection.latest``."""
        if self.log == "discarding":
            raise UnprovableError("what the last discarding pane holds depends on when panes were emitted")
        return Batch(self.frame, self.event_time, self.shift)

    @property
    def _windowing(self) -> Windows:
        return self.windows or Windows()

    def _with_windows(self, **changed: Any) -> Batch:
        return Batch(self.frame, self.event_time, self.shift, replace(self._windowing, **changed))

    # What adds up

    def concat(self, *others: Batch) -> Batch:
        """See ``Collection.concat``."""
        alike = all((other.event_time, other.shift) == (self.event_time, self.shift) for other in others)
        frame = pl.concat([self.frame, *(other.frame.select(self.frame.columns) for other in others)])
        return Batch(frame, self.event_time if alike else None, self.shift, self.windows)

    def negate(self) -> Batch:
        """See ``Collection.negate``."""
        return self._with_diffs(self.rows, -self._diffs)

    def minus(self, other: Batch) -> Batch:
        """See ``Collection.minus``."""
        return self.concat(other.negate())

    def unpivot(
        self, on: Any = None, *, index: Any = None, variable_name: str = "variable", value_name: str = "value"
    ) -> Batch:
        """See ``Collection.unpivot``."""
        index_columns = [] if index is None else self.rows.select(index).columns
        turned = (
            [name for name in self.columns if name not in index_columns]
            if on is None
            else self.rows.select(on).columns
        )
        names = {"variable_name": variable_name, "value_name": value_name}
        unpivoted = self.frame.unpivot(turned, index=[*index_columns, DIFF], **names)
        return self._with_diffs(unpivoted.drop(DIFF), unpivoted.get_column(DIFF))

    def unique(
        self, subset: Any = None, *, keep: str = "any", by: Any = (), maintain_order: bool = False
    ) -> Batch:
        """See ``Collection.unique``."""
        del maintain_order  # Rows have no order.
        if subset is not None:
            names, is_last = self.rows.select(subset).columns, keep == "last"
            order = names if keep == "any" else by
            return self.group_by(*names).limit(1, by=order, descending=is_last, nulls_last=is_last)
        there = self.consolidated().frame.filter(pl.col(DIFF) > 0)
        return self._of(there.with_columns(pl.lit(1, pl.Int64).alias(DIFF)))

    # Groups and joins

    def group_by(self, *by: Any, maintain_order: bool = False, **named_by: Any) -> Groups:
        """See ``Collection.group_by``."""
        del maintain_order
        return Groups(self, by, named_by)

    def top_k(self, k: int, *, by: Any, reverse: Any = False) -> Batch:
        """See ``Collection.top_k``."""
        return self.group_by().top_k(k, by=by, reverse=reverse)

    def bottom_k(self, k: int, *, by: Any, reverse: Any = False) -> Batch:
        """See ``Collection.bottom_k``."""
        return self.group_by().bottom_k(k, by=by, reverse=reverse)

    def limit(self, n: int, *, by: Any, descending: Any = False, nulls_last: Any = False) -> Batch:
        """See ``Collection.limit``."""
        return self.group_by().limit(n, by=by, descending=descending, nulls_last=nulls_last)

    def join(self, other: Batch, on: Any = None, how: Any = "inner", **options: Any) -> Batch:
        """See ``Collection.join``: polars joins the different rows, and their counts multiply."""
        options = {
            name: value for name, value in options.items() if name not in ("validate", "maintain_order")
        }
        left, right = (
            pl.DataFrame([*batch.rows, batch._diffs.alias(tag)])
            for batch, tag in ((self.consolidated(), _LEFT), (other.consolidated(), _RIGHT))
        )
        if how != "cross":
            # With a second key polars does not merge sorted keys, where NaN would not match NaN.
            left, right = (side.with_columns(pl.lit(0).alias(_KEY)) for side in (left, right))
            keys = [options.pop(side, None) for side in ("left_on", "right_on")]
            names = [[*listed(on if key is None else key), _KEY] for key in keys]
            options |= {"left_on": names[0], "right_on": names[1]}
        joined = left.join(right, how=how, **options)
        tags = [joined.get_column(tag).fill_null(1) for tag in (_LEFT, _RIGHT) if tag in joined.columns]
        diffs = tags[0] * tags[1] if len(tags) == 2 else tags[0]
        rows = joined.select(name for name in joined.columns if not name.startswith("#"))
        frame = pl.DataFrame([*plain(rows), diffs.alias(DIFF)])
        # Rows of the right side without a partner have neither an event time nor windows.
        return Batch(frame) if how in ("right", "full") else self._of(frame)

    def _of_panes(self, windows: Windows) -> Batch:
        """Return the rows of panes, with their event time."""
        log = "" if windows.mode == "retracting" else windows.mode
        return Batch(self.frame, *windows.pane_time, log=log)

    def __getattr__(self, name: str) -> Any:
        """Refuse any other method by name."""
        raise UnprovableError(f"{name} is not evaluated in a batch")


class Groups:
    """A batch grouped by keys; without keys one group, which is there without rows too."""

    def __init__(
        self, batch: Batch, by: Sequence[Any], named: Mapping[str, Any], closed: Closed | None = None
    ) -> None:
        self._batch = batch
        self._by = [key for each in by for key in listed(each)]
        self._named = named
        self._closed = closed

    def around(self, closed: Closed) -> Groups:
        """Return the same groups, of which windows merge around those that had closed before."""
        return Groups(self._batch, self._by, self._named, closed)

    def _numbered(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Return the different keys, and for each row the number of its key."""
        if not (self._by or self._named):
            return pl.DataFrame(), pl.repeat(0, rows.height, dtype=pl.UInt32, eager=True)
        beside = pl.Series(_GROUP, range(rows.height), pl.UInt32)
        keys = pl.DataFrame(plain(rows.select(*self._by, beside, **self._named).drop(_GROUP)))
        numbered = keys.with_columns(beside).group_by(keys.columns, maintain_order=True).agg(pl.col(_GROUP))
        places = (
            numbered.select(pl.col(_GROUP))
            .with_row_index(_KEY)
            .explode(_GROUP, empty_as_null=False)
            .sort(_GROUP)
        )
        return numbered.drop(_GROUP), places.get_column(_KEY)

    def agg(self, *aggs: Any, **named: Any) -> Batch:
        """See ``GroupedCollection.agg``."""
        exprs = [
            *(each for one in aggs for each in listed(one)),
            *(with_name(one, name) for name, one in named.items()),
        ]
        for expr in exprs:
            if not isinstance(expr, pl.Expr | str):
                raise UnprovableError("an aggregate of your own is not computed by polars")
        batch = self._batch.consolidated()
        if (batch._diffs < 0).any():
            raise UnprovableError("there are rows with counts below zero, which polars cannot aggregate")
        if batch.windows is not None:
            return self._in_windows(batch, batch.windows).agg(*exprs)._of_panes(batch.windows)
        rows = repeated(batch.rows, batch._diffs)
        keys, numbers = self._numbered(rows)
        columns = keys.get_columns()
        for expr in (pl.col(each) if isinstance(each, str) else each for each in exprs):
            columns += self._aggregated(rows, numbers, expr, keys.height)
        frame = pl.DataFrame(columns)
        return Batch(frame.with_columns(pl.lit(1, pl.Int64).alias(DIFF)))

    def _in_windows(self, batch: Batch, windows: Windows) -> Groups:
        """Return the rows grouped by their windows too."""
        if windows.has_info:
            raise UnprovableError("with_pane_info depends on when panes were emitted")
        frame = batch.frame
        bounds = [] if windows.window.is_global else BOUNDS
        by = [each for each in self._by if not any(is_column(each, name) for name in bounds)]
        by += [with_name(each, name) for name, each in self._named.items()]
        gap, (_, merge) = windows.window.session_gap, windows.window.functions or (None, None)
        if gap is not None or merge is not None:
            # Keys that are computed of bounds are those of the windows before they merge.
            keys = pl.DataFrame(plain(batch.rows.select(*by))) if by else pl.DataFrame()
            beside = [column.alias(f"{_KEY} {at}") for at, column in enumerate(keys)]
            frame = frame.with_columns(beside)
            if gap is not None:
                frame = in_sessions(frame, keys, gap, self._closed)
            elif merge is not None:
                frame = in_merged(frame, keys, merge, self._closed)
            by = [pl.col(column.name).alias(name) for column, name in zip(beside, keys.columns, strict=True)]
        return Groups(Batch(frame, batch.event_time, batch.shift), [*by, *bounds], {})

    def len(self, name: str = "len") -> Batch:
        """See ``GroupedCollection.len``."""
        return self.agg(pl.len().alias(name))

    def _of_each(self, aggregate: str, *args: Any, **kwargs: Any) -> Batch:
        """Return an aggregate of each column that is neither a key nor a bound of a window."""
        keys, _ = self._numbered(self._batch.rows)
        not_values = {*keys.columns, *(BOUNDS if self._batch.windows is not None else ())}
        values = [pl.col(name) for name in self._batch.columns if name not in not_values]
        return self.agg([getattr(value, aggregate)(*args, **kwargs) for value in values])

    def _aggregated(
        self, rows: pl.DataFrame, numbers: pl.Series, expr: pl.Expr, groups: int
    ) -> list[pl.Series]:
        """Return the columns of one aggregate; it sees rows in the order of its own columns, or of event time."""
        text, time = str(expr), self._batch.event_time
        expr = with_order_of_equals(expr, rows, time)
        by_time = [time] if time is not None and (".first(" in text or ".last(" in text) else []
        order = [*by_time, *dict.fromkeys(root_names(expr))]
        numbered = rows.with_columns(numbers.alias(_GROUP))
        ordered = numbered.sort([*order, _GROUP]) if order else numbered
        exprs, ordered = with_exact_sums(expr, ordered, _GROUP)
        if self._by or self._named:
            columns = ordered.group_by(_GROUP).agg(exprs).sort(_GROUP).drop(_GROUP)
        else:
            try:
                columns = ordered.drop(_GROUP).select(exprs)
            except pl.exceptions.PanicException:
                raise UnprovableError("polars cannot compute an aggregate of no values") from None
        return [column.cast(pl.Int64) if column.dtype == pl.UInt32 else column for column in plain(columns)]

    def top_k(self, k: int, *, by: Any, reverse: Any = False) -> Batch:
        """See ``GroupedCollection.top_k``."""
        flags = [not flag for flag in each_of(reverse, len(listed(by)))]
        return self.limit(k, by=by, descending=flags, nulls_last=True)

    def bottom_k(self, k: int, *, by: Any, reverse: Any = False) -> Batch:
        """See ``GroupedCollection.bottom_k``."""
        return self.limit(k, by=by, descending=reverse, nulls_last=True)

    def limit(self, n: int, *, by: Any, descending: Any = False, nulls_last: Any = False) -> Batch:
        """See ``GroupedCollection.limit``: ties are broken by the whole row, ascending with nulls first."""
        batch, order = self._batch.consolidated(), listed(by)
        there = batch._of(batch.frame.filter(pl.col(DIFF) > 0))
        _, numbers = self._numbered(there.rows)
        # Views break ties by columns that have an order, and only then by the others.
        ties = sorted(there.columns, key=lambda name: there.schema[name].is_nested())
        rest = [False] * len(ties)
        names = [f"#{at}" for at in range(len(order))]
        ordered = (
            there.frame.with_columns(
                numbers.alias(_GROUP),
                **{
                    name: pl.col(key) if isinstance(key, str) else key
                    for name, key in zip(names, order, strict=True)
                },
            )
            .sort(
                [*names, *ties],
                descending=[*each_of(descending, len(order)), *rest],
                nulls_last=[*each_of(nulls_last, len(order)), *rest],
            )
            .with_columns((pl.col(DIFF).cum_sum().over(_GROUP) - pl.col(DIFF)).alias(_COUNT))
        )
        require_decided(ordered, [_GROUP, *names], _COUNT, DIFF, n)
        first_rows = ordered.filter(pl.col(_COUNT) < n).with_columns(
            pl.min_horizontal(pl.col(DIFF), n - pl.col(_COUNT)).cast(pl.Int64).alias(DIFF)
        )
        return batch._of(first_rows.select(batch.frame.columns))

    def __getattr__(self, name: str) -> Any:
        """Return the method of an aggregate of each column; refuse any other method by name."""
        if name in OF_EACH:
            return partial(self._of_each, name)
        raise UnprovableError(f"{name} is not evaluated in a batch")
