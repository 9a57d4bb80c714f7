"""A change of declarations is a step between two epochs: it is made real as a whole, or undone as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import polars as pl

from evercurrent.core.data.clock import Epoch
from evercurrent.core.data.columns.key_hash import hashing_by
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError

from ..concurrency.interrupts import interruptible
from ..dataframe.source import Source
from ..durability.piecewise_fill import PiecewiseFill
from ..durability.redeclared import Before, Changed, Recompiled, as_refusal, difference, recompiled
from ..durability.replaced_columns import column_texts
from ..epochs.view_deltas import ViewDelta
from ..plan.plan import Plan
from .epoch_runner import Running
from .fills import Filling
from .view import View
from .view_driver import driver_of

Undo = Callable[[], None]

FEW_ENTRIES = 1 << 16
"""If a view is filled with more entries than this, its rows are read when they are first needed, which is often never."""


class Change:
    """A change of declarations: what is to be filled, and how to undo it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.computed: PiecewiseFill | None = None
        """The states of the views to be filled, if they are computed already."""
        self.filling: Filling | None = None
        """The fill that has computed the states, here or in a driver."""
        self.undo: list[Undo] = []
        self.done: list[Callable[[], object]] = []
        """Functions that are called once the change is committed, no matter what subscribers raise."""
        self.filled: list[str] = []
        self.untouched: set[str] = set()
        self.backfill: dict[str, Callable[[], Delta]] = {}
        self.begun: list[View] = []
        """The views whose deltas begin with the change."""
        self.replaced: set[str] = set()
        """The existing views whose deltas continue with the difference."""
        self.columns_before: dict[str, pl.Schema] = {}
        """The columns of the views that are replaced by others with other columns."""
        self.has_epoch = False
        """Whether it needs an epoch of its own; new sources alone do not."""

    def enter(self, source: str) -> None:
        """Add a source that has had no input."""
        self.untouched.add(source)

    def fill(self, view: View, backfill: Mapping[str, Callable[[], Delta]]) -> None:
        """Fill a view, in an epoch. Those who find it before the change is done wait for that."""
        view._is_being_declared = True
        self.done.append(view._declared)
        self.undo.append(lambda: view._declared(f"view {view.name!r} could not be declared in that way"))
        self.filled.append(view.name)
        self.backfill |= backfill
        self.has_epoch = True


class Changes:
    """Applies changes of declarations to an engine. The caller holds the engine's turn."""

    def __init__(
        self, plan: Plan, sources: dict[str, Source], views: dict[str, View], running: Running
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._views = views
        self._running = running
        self._joint: Change | None = None

    @contextmanager
    def together(self, where: str) -> Iterator[None]:
        """Apply all changes of declarations inside the block at its end, in one epoch at most; or undo all of them.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
            CheckpointError: it could not be written.
            SubscriberError: it is done, and a callback raised.
        """
        with self.change(where, self._views.values()) as change:
            self._joint = change
            try:
                yield
            finally:
                self._joint = None

    @contextmanager
    def change(self, where: str, replaced: Iterable[View] = ()) -> Iterator[Change]:
        """Change declarations inside the block, and apply the change at its end; or undo it.

        Within ``together``, that applies it. If one of the views that may be ``replaced`` or dropped has subscriptions, or has had some
        with a name, there is an epoch though there was none so far: a view may have rows before the first one, and readers get the
        difference, sinks that are written again by their position among them.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
            CheckpointError: it could not be written.
            SubscriberError: it is done, and a callback raised.
            Exception: it is done, and with this error a query that runs the views has ended.
        """
        if self._joint is not None:
            yield self._joint
            return
        running, change, result, ended = self._running, Change(where), None, None
        driver = driver_of(where, running)
        is_read = driver is None and any(running.readers.has_read(view) for view in replaced)
        with (
            running.begun() if is_read else nullcontext(),
            running.declaring() if running.has_begun else nullcontext(),
        ):
            if running.has_begun:
                running.flush()
            named, sources, views = self._plan.named(), dict(self._sources), dict(self._views)
            try:
                before = self.before(where) if running.has_begun else None
                yield change
                if before is not None:
                    result = self._exchange(before, self._recompiled(where, before, change), change)
                elif driver is not None:
                    ended = driver.redeclare(
                        where, self._plan, None if change.filling is None else change.filling.fill
                    )
            except BaseException:
                self._plan.return_to(named)
                return_to(self._sources, sources)
                return_to(self._views, views)
                for undo in reversed(change.undo):
                    undo()
                raise
            for action in change.done:
                action()
        if ended is not None:
            raise ended
        if result is not None:
            running.follow_up(result)

    def undo_with_others(self, undo: Undo) -> None:
        """Have something undone that is done already, if it is one of several changes ``together`` and these are undone."""
        if self._joint is not None:
            self._joint.undo.append(undo)

    def before(self, where: str) -> Before:
        """Return the plan and its circuit before a change.

        Raises:
            PlanError: functions of users cannot be distinguished.
        """
        try:
            return Before.of(self._plan, self._running.current())
        except CheckpointError as error:
            raise as_refusal(where, error) from error

    def _recompiled(self, where: str, before: Before, change: Change) -> Recompiled:
        untouched = {*self._running.untouched, *change.untouched}
        try:
            with interruptible():
                changed = Changed(tuple(change.filled), untouched, change.backfill)
                return recompiled(self._plan, before, changed, change.computed)
        except CheckpointError as error:
            raise as_refusal(where, error) from error

    def _exchange(self, before: Before, recompiled: Recompiled, change: Change) -> Any:
        """Continue with the circuit of the changed plan, and publish the rows that it adds."""
        running, epoch = self._running, self._running.epoch
        durability = running.durability
        fills, compiled, moved = running.fills, recompiled.compiled, recompiled.moved
        fills.require_kept(change.where, compiled, moved, but=change.filled)
        for view in change.begun:
            view._history.begin(epoch, None if durability is None else durability.past)
        if not change.has_epoch:
            if durability is None:
                return running.exchange(recompiled.compiled, None)
            with durability.redeclared(recompiled.compiled, recompiled.record, {}, {}):
                return running.exchange(recompiled.compiled, None)
        epoch_of_change, deltas = Epoch(epoch + 1), dict[str, ViewDelta]()
        with hashing_by(recompiled.compiled.circuit.key_hash):
            for name, rows in recompiled.filled.items():
                if name in change.replaced:
                    changed = difference(rows.delta(), before.compiled.contents[name].emitted())
                    deltas[name] = ViewDelta(epoch_of_change, changed)
                elif rows.entries > FEW_ENTRIES and rows.is_certain:
                    deltas[name] = ViewDelta.later(epoch_of_change, rows.entries, rows.delta)
                else:
                    deltas[name] = ViewDelta(epoch_of_change, rows.delta())
        if durability is None:
            return running.exchange(recompiled.compiled, deltas)
        born = {view.name: epoch + 1 for view in change.begun}
        before_change = {name: column_texts(schema) for name, schema in change.columns_before.items()}
        with durability.redeclared(recompiled.compiled, recompiled.record, born, before_change):
            return running.exchange(recompiled.compiled, deltas)


def return_to(mapping: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Restore the earlier contents of a mapping in place, as other objects refer to it."""
    for name in mapping.keys() - before.keys():
        del mapping[name]
    mapping.update(before)
