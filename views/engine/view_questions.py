"""Queries on a view: why a row is there, from which rows it comes, how it has changed, whether it is right, and drawings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import date, datetime
from typing import TYPE_CHECKING

import polars as pl

from evercurrent.core.data.tags import tagged

from ..epochs.records import require_since
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from .view_keeper import ViewKeeper

if TYPE_CHECKING:
    from ..inspection.proving.proof import Proof
    from ..inspection.timeline.of_view import Key
    from ..inspection.timeline.timeline import Timeline
    from ..inspection.tracing.history import History as RowHistory
    from ..inspection.tracing.lineage import Lineage


class Questions(ABC):
    """The methods of a view that explain its rows and windows. They change nothing, apart from ``fire``."""

    name: str
    _plan: Plan
    _place: PlanId

    @property
    @abstractmethod
    def _engine(self) -> ViewKeeper:
        """The engine."""

    @abstractmethod
    def _delta_schema(self) -> pl.Schema:
        """Return the columns of its deltas."""

    @tagged("views.view:View.fire")
    def fire(self, key: object = None, window: object = None, *, at: datetime | str | None = None) -> int:
        """Fire the windows whose trigger waits for ``signal()``, in an epoch of its own.

        A window that is open now is reached, also if it holds no rows. One that opens later has missed the signal.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> words = engine.source("words", {"word": pl.String})
        >>> counts = words.trigger(ec.repeat(ec.signal())).group_by("word").agg(n=pl.len())
        >>> on_demand = engine.view("on_demand", counts)
        >>> _ = words.push({"word": ["a", "b", "a"]})
        >>> _ = on_demand.fire("a")
        >>> on_demand.read().rows()
        [('a', 2)]

        Args:
            key: the key of the windows: a value, a tuple or a dictionary; None for all keys.
            window: its start, or (start, end); None for all windows.
            at: processing time, as for ``Engine.push``.

        Raises:
            InputError: the view has no trigger, the key does not go with its columns, or an epoch is open
                (``with engine.epoch()``). Where no window waits for a signal, the epoch is run and emits nothing.
        """
        return self._engine.fire(self.name, key, window, at)

    @tagged("views.view:View.why")
    def why(self, key: object = None, window: object = None) -> str:
        """Explain why a row is there or is not, and why a window has emitted no pane.

        For a row that is there: the rows that it is computed from, stage by stage down to the sources. For one that is not:
        which filter refuses it, which join has no partner for it, which rows come before it, which values differ, or that no
        such row was pushed, or that it was refused or too late. For open windows: what they wait for, what holds the watermark,
        when they may fire.
        Cost: that of ``lineage``; of windows, those that are open.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> orders = engine.source("orders", {"id": pl.Int64, "item": pl.String}, retained=True)
        >>> items = engine.source("items", {"item": pl.String, "price": pl.Int64}, retained=True)
        >>> priced = engine.view("priced", orders.join(items, on="item"))
        >>> _ = engine.push("orders", {"id": [7], "item": ["pen"]})
        >>> print(priced.why({"id": 7}))
        view 'priced' has no row with id 7
        source 'orders' has 1 row of it:
          id 7, item pen
        it has no partner in source 'items', on item:
        source 'items' has no row with item pen: none was pushed, or it was taken back

        Args:
            key: the key of the view or of its windows, a value or a tuple; or a dictionary of any columns of the view; None for
                all open windows.
            window: its start, or (start, end); None for all windows.

        Raises:
            InputError: the key does not go with the columns of the view, or there is none, and the view has no windows.
        """
        return "\n".join(self._engine.why(self.name, key, window))

    @tagged("views.view:View.lineage")
    def lineage(self, row: object, *, limit: int = 1000) -> Lineage:
        """Return the rows of each source from which a row comes, by the names of the sources, with ``_diff`` as their counts.

        They are followed back through the plan: through groupings to all rows of a group, through windows and sessions to
        those of the window, through joins to both partners, through distinct, unions and the first rows of groups. The newest
        come first: by event time, by the ``sequence_by`` of the source, or by the epochs that ``Engine(record=True)`` has recorded.
        Where a source retains no rows, they are those of the nearest view, join or grouping that has some. Rows that keep others
        away (the other side of an anti join, what ``minus`` subtracts) are not among them. Of equal rows those are counted that
        take part. Counted windows of a key that begin at the same instant come together, as the end of each counts the earlier
        ones.

        The result is a mapping of frames that prints the stages in between, and draws them: ``text()``, ``mermaid()``,
        ``svg()``.

        Rows are looked up, by any column. Small parts of a state are sorted by the columns that are needed; of large parts one
        column is scanned, until after 100 calls a thread has sorted them. Then a call costs the rows that it reads, and the
        parts that are new. Memory: at most 16 bytes for each row and set of columns, until the part is merged into another one.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, retained=True)
        >>> totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        >>> _ = engine.push("sales", {"shop": ["north", "south", "north"], "price": [3, 4, 5]})
        >>> sorted(totals.lineage({"shop": "north"})["sales"].rows())
        [('north', 3, 1), ('north', 5, 1)]

        Args:
            row: columns and their values, as far as they choose the row or several; or a whole row as a tuple.
            limit: the most rows of each source.

        Raises:
            InputError: there is no such row; or it cannot be followed back, as through ``map_batches`` and windows of counts.
        """
        return self._engine.lineage_of(self.name, row, limit)

    @tagged("views.view:View.history")
    def history(self, key: object, *, since: int | None = None) -> RowHistory:
        """Return each change of the rows of a key: its epoch, its processing time, and the input rows that caused it.

        Changes are the deltas that are retained, with a checkpoint those of its retained commits too. The causes of one are
        followed back through the changes of the same epoch: of sources if the engine was made with ``Engine(record=True)``, of
        views by their deltas. If a stage keeps none, the result names it, and how to keep them. The change of a
        window that no row caused was due to time.

        The result has ``frame()``, and prints and draws itself: ``text()``, ``mermaid()``, ``svg()``.

        >>> from evercurrent import Engine
        >>> engine = Engine(record=True)
        >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
        >>> totals = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        >>> _ = engine.push("sales", {"shop": ["north", "south"], "price": [3, 4]}, at="2026-01-01T12:00:00Z")
        >>> _ = engine.push("sales", {"shop": ["north"], "price": [5]}, at="2026-01-01T12:01:00Z")
        >>> totals.history("north")
        history of shop north in view totals
        epoch 1, 2026-01-01 12:00:00
          +1 shop north, total 3
            by sales: shop north, price 3
        epoch 2, 2026-01-01 12:01:00
          -1 shop north, total 3
          +1 shop north, total 8
            by sales: shop north, price 5

        Args:
            key: a value, or a tuple in the order of the keys of the view, or a dictionary of any of its columns.
            since: only the changes after this epoch.

        Raises:
            InputError: the key does not go with the columns.
            EpochGoneError: the changes after ``since`` are no longer all retained.
        """
        if since is not None:
            require_since(self.name, since)
        return self._engine.history_of(self.name, key, since)

    @tagged("views.view:View.prove")
    def prove(self, sample: float | None = None) -> Proof:
        """Evaluate the definition by polars over the retained rows, in one batch, and compare the result with the view.

        The result is true if both are equal, and has the rows that differ otherwise, with the epoch from which on each does:
        at the commits of a checkpoint, or in memory at each epoch, if the rows of the sources are recorded by epoch
        (``Engine(record=True)``). Nothing of the engine computes it: the calls that declared the view are repeated with
        polars, over the rows of retained sources, or of other views where a source retains none. Floats are equal if they
        differ by a billionth, except sums and means, which are added up without rounding. Pushes continue meanwhile. Cost: that of the batch.

        Windows are evaluated too: fixed, sliding, calendar and sessions. Panes that wait for a trigger, and windows for which
        rows came too late, do not follow from rows: they are left out, and the result names which (``unproved``).

        Args:
            sample: prove a share of the keys, such as 0.01; see ``Engine.prove``.

        Raises:
            InputError: it cannot be evaluated: no rows are retained, or it has windows of counts or shifted by key, panes that are
                discarded or accumulate, aggregates of your own, rows with counts below zero, or a limit between rows that differ only in
                lists or structs; names the reason.
        """
        return self._engine.proof_of(self.name, sample)

    @tagged("views.view:View.timeline")
    def timeline(
        self,
        value: str | None = None,
        *,
        label: str | None = None,
        key: Key | None = None,
        start: date | str | None = None,
        end: date | str | None = None,
        title: str | None = None,
        subtitle: str = "",
        width: int = 900,
        height: int | None = None,
        rows: int = 2000,
        panes: int = 300,
        keys: int = 6,
        legend: bool = True,
    ) -> Timeline:
        """Draw the run so far: event time across, processing time up, rows as dots, panes as rectangles.

        Rows are drawn if the engine was made with ``Engine(record=True)``. Whether a pane is early, on time or late is
        read from its pane information (``with_pane_info()``); without that it follows from the watermarks.

        Args:
            value: the column written at panes; by default the first one that is neither key nor bound.
            label: the column of a source written at its rows; by default the one named like the value, else its
                only column of numbers.
            key: draw this key alone: a value, several in the order of the key's columns, or by name.
            start: draw event time from here on: rows at it or later, and panes whose windows reach beyond it.
            end: draw event time before this. Both are given as a watermark is.
            title: a line above the drawing; by default the name of the view.
            subtitle: a line below the title.
            width: of the drawing, in pixels.
            height: of one pair of axes; by default it follows from the width.
            rows: the largest number of rows that are drawn.
            panes: the largest number of panes that are drawn.
            keys: the largest number of keys that are drawn, each with its own axes.
            legend: whether to explain the marks.

        Returns:
            A drawing to be saved with ``save("run.svg")``, ``save("run.html")``, which zooms, or ``save("run.png")`` if a
            converter is installed; notebooks display it.

        Raises:
            PlanError: a column that is not there, a key that the view does not have, a size that makes no drawing, or an
                ``end`` that is not after ``start``.
            InputError: the view has emitted nothing for the key, or ``start`` or ``end`` is no time.
        """
        from ..inspection.timeline.drawing import Look  # Imported here, as only drawings need it.
        from ..inspection.timeline.of_view import timeline_of_view

        now = self._engine.published()
        _, deltas = now.all_deltas(self.name, list)
        return timeline_of_view(
            self.name,
            self._plan,
            self._place,
            pl.concat([self._delta_schema().to_frame(), *deltas]),
            now,
            value=value,
            label=label,
            key=key,
            title=title,
            subtitle=subtitle,
            look=Look(width, height, rows, panes, keys, legend),
            start=start,
            end=end,
        )
