"""Sources and views are declared, replaced and dropped, before the first epoch or between any two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError, PlanError
from evercurrent.core.data.schema import listed, require_name

from ..concurrency.interrupts import interruptible
from ..dataframe.collection import Collection, require_collection
from ..dataframe.source import Source, declare, is_same, with_other_columns
from ..dataframe.windowing import forbid_unused_answers
from ..durability.plan_match import require_distinguishable
from ..durability.redeclared import Before, Changed, Recompiled, as_refusal, difference, recompiled
from ..epochs.history import Retain
from ..epochs.subscriptions import SchemaChange
from ..plan.declared_calls import FORKED, NAMED, DeclaredCall, stands_on
from ..plan.node_identities import plan_identities
from ..plan.plan import Plan
from .backfill_rows import backfilled
from .epoch_runner import Running
from .view import View, ViewKeeper

Undo = Callable[[], None]


class Declarations:
    """Changes what an engine declares. The caller holds the engine's turn.

    Once there are states, a change is a step between two epochs: the plan is compiled again, what computes the same keeps its
    states, views that are new are filled from what is kept, and one epoch without input publishes the result and, with a
    checkpoint, commits it. If any of that fails, nothing has changed.
    """

    def __init__(
        self,
        engine: ViewKeeper,
        plan: Plan,
        sources: dict[str, Source],
        views: dict[str, View],
        running: Running,
        retain: Retain,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._sources = sources
        self._views = views
        self._running = running
        self._retain = retain
        self._joint: _Change | None = None

    def source(self, name: str, schema: Mapping[str, Any], options: Mapping[str, Any]) -> Source:
        """Declare a source; the same one again is the one that is there.

        Raises:
            PlanError: the name is that of another source, or options do not go together.
        """
        require_name("source", name)
        if (existing := self._sources.get(name)) is not None:
            if not is_same(existing, declare(Plan(), name, schema, **options)):
                raise PlanError(
                    f"source {name!r} is declared twice, in different ways; choose another name, or drop the one that is there "
                    f"with engine.drop_source({name!r})"
                )
            return existing
        with self._change(f"source {name!r}") as change:
            source = self._sources[name] = declare(self._plan, name, schema, **options)
            change.enter(name)
            if self._running.has_begun:
                change.done.append(lambda: self._running.untouched.add(name))
        return source

    def same_source(self, source: Source) -> Source:
        """Return the source of that name, or declare it as it is declared in another plan.

        Raises:
            PlanError: there is one that is declared otherwise.
        """
        name = source.name
        if (existing := self._sources.get(name)) is None:
            with self._change(f"source {name!r}") as change:
                existing = self._sources[name] = with_other_columns(self._plan, source, source.schema)
                self._plan.sources[name] = existing
                change.enter(name)
                if self._running.has_begun:
                    change.done.append(lambda: self._running.untouched.add(name))
        elif not is_same(existing, source):
            raise PlanError(
                f"source {name!r} is declared otherwise than while it ran; stop and start again, with a checkpoint if its "
                "columns are more or wider than before"
            )
        return existing

    def view(self, name: str, collection: Collection, *, replace: bool, backfill: object) -> View:
        """Declare a view; the same one again is the one that is there. See ``Engine.view``."""
        require_name("view", name)
        where = f"view {name!r}"
        require_collection(where, self._plan, collection)
        forbid_unused_answers(where, collection._windowing)
        if gone := self._plan.removed_sources(collection._place):
            raise PlanError(
                f"{where} is computed from source {listed(gone)}, which was dropped; declare it anew"
            )
        existing = self._views.get(name)
        if existing is not None and self._computes_the_same(existing, collection):
            return existing
        if existing is not None and not replace:
            raise PlanError(
                f"{where} is declared twice, in different ways; choose another name, or replace the one that is there with "
                "replace=True"
            )
        if backfill is not None and not self._running.has_begun:
            raise PlanError(
                f"{where}: backfill= goes with a view that is declared after the first push, and with a checkpoint after it was opened "
                "(engine.ready()); before that, push the rows into their sources"
            )
        readers = backfilled(name, backfill, self._sources, self._running.positions)
        view = View(self._engine, self._plan, collection._place, name, self._retain, collection._windowing)
        if existing is None:
            with self._change(where) as change:
                change.fill(name, readers)
                change.begun.append(view)
                self._add(view, collection)
        else:
            with self._change(where) as change:
                change.fill(name, readers)
                self._replace(existing, view, collection, change)
                replaced = f"{where} was replaced, and this is the one before; take engine.views[{name!r}]"
                change.done.append(lambda: setattr(existing, "_gone", replaced))
        return view

    def drop_view(self, name: str) -> None:
        """Drop a view. See ``Engine.drop_view``."""
        view = _named("view", name, self._views)
        others = stands_on_view(self._plan, view, self._views)
        if others:
            raise PlanError(f"view {name!r}: view {listed(others)} is declared on it; drop that first")
        if view.subscriptions:
            raise PlanError(
                f"view {name!r}: {len(view.subscriptions)} subscriptions to it are open ({view.subscriptions[0]!r}); close them "
                "first: for each in view.subscriptions: each.close()"
            )
        with self._change(f"view {name!r}") as change:
            change.has_epoch = True
            self._plan.remove_view(name)
            del self._views[name]
            named = self._running.readers.forget(name)
            change.undo.append(lambda: self._running.readers.restore(named))
            change.done.append(lambda: setattr(view, "_gone", f"view {name!r} was dropped"))

    def drop_source(self, name: str) -> None:
        """Drop a source. See ``Engine.drop_source``."""
        source = _named("source", name, self._sources)
        others = [view for view, at in self._plan.views.items() if source._place in self._plan.behind(at)]
        if others:
            raise PlanError(f"source {name!r}: view {listed(others)} is computed from it; drop that first")
        running = self._running
        with self._change(f"source {name!r}") as change:
            change.has_epoch = True
            del self._sources[name]
            self._plan.remove_source(name)
            positions = running.positions
            running.positions = {each: at for each, at in positions.items() if each != name}
            change.undo.append(lambda: setattr(running, "positions", positions))
            change.done += [lambda: running.untouched.discard(name), lambda: running.log.forget(name)]

    # Details

    def _computes_the_same(self, existing: View, collection: Collection) -> bool:
        """Return whether a view is declared again as it is.

        Raises:
            PlanError: they look the same, but refer to different objects that cannot be inspected.
        """
        if existing._place == collection._place:
            return True
        identities = plan_identities(self._plan)
        if identities[existing._place] != identities[collection._place]:
            return False
        places = sorted(self._plan.behind(existing._place) | self._plan.behind(collection._place))
        try:
            require_distinguishable(self._plan, identities, places)
        except CheckpointError as error:
            raise as_refusal(f"view {existing.name!r}", error) from error
        return True

    def _add(self, view: View, collection: Collection) -> None:
        self._plan.add_view(view.name, view._place)
        self._plan.calls.append(DeclaredCall(collection, NAMED, (), {}, view))
        self._views[view.name] = view

    def _replace(self, existing: View, view: View, collection: Collection, change: _Change) -> None:
        """Put a view in the place of another one, whose subscriptions go on with it."""
        name, readers = existing.name, self._running.readers
        same = list(existing.schema.items()) == list(view.schema.items())
        if same:
            view._history = existing._history
            change.replaced.add(name)
        else:
            self._require_schema_readers(existing)
            change.begun.append(view)
        self._plan.remove_view(name)
        self._add(view, collection)
        followed = SchemaChange(name, self._running.epoch + 1, existing.schema, view.schema)
        places = [(each, each.place) for each in existing.subscriptions]
        view._subscriptions = existing.subscriptions
        if not same:
            named = readers.forget(name, only_closed=True)
            change.undo.append(lambda: readers.restore(named))
        for each in existing.subscriptions:
            each.follow(view, None if same else followed)

        def return_readers() -> None:
            for each, place in places:
                each.return_to(place)

        change.undo.append(return_readers)

    def _require_schema_readers(self, view: View) -> None:
        """Check that all subscriptions of a view whose columns change are prepared for it, and are not behind.

        Raises:
            PlanError: one is not; names it, and the way out.
        """
        for each in view.subscriptions:
            if each.on_schema is None:
                raise PlanError(
                    f"view {view.name!r}: the one that replaces it has other columns, and {each!r} does not take that; close "
                    "it first, or subscribe with on_schema="
                )
            if each.name is not None and each.delivered < self._running.epoch:
                raise PlanError(
                    f"view {view.name!r}: {each!r} has not got the epochs after {each.delivered}, as its callback raised; it gets "
                    "them with the next epoch that changes the view, or close it"
                )

    @contextmanager
    def together(self, where: str) -> Iterator[None]:
        """Make all changes of declarations inside of the block real at its end, in one epoch at most; or undo all of them.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
            CheckpointError: it could not be written.
            SubscriberError: it is done, and a callback raised.
        """
        with self._change(where) as change:
            self._joint = change
            try:
                yield
            finally:
                self._joint = None

    @contextmanager
    def _change(self, where: str) -> Iterator[_Change]:
        """Change declarations inside of the block, and make that real at its end; or undo it. Within ``together`` that does.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
            CheckpointError: it could not be written.
            SubscriberError: it is done, and a callback raised.
        """
        if self._joint is not None:
            yield self._joint
            return
        running, change, result = self._running, _Change(), None
        with running.declaring() if running.has_begun else nullcontext():
            if running.has_begun:
                running.flush()
            named, sources, views = self._plan.named(), dict(self._sources), dict(self._views)
            try:
                before = self._before(where) if running.has_begun else None
                yield change
                if before is not None:
                    result = self._exchange(before, self._recompiled(where, before, change), change)
            except BaseException:
                self._plan.return_to(named)
                _return_to(self._sources, sources)
                _return_to(self._views, views)
                for undo in reversed(change.undo):
                    undo()
                raise
            for action in change.done:
                action()
        if result is not None:
            running.follow_up(result)

    def _before(self, where: str) -> Before:
        try:
            return Before.of(self._plan, self._running.current())
        except CheckpointError as error:
            raise as_refusal(where, error) from error

    def _recompiled(self, where: str, before: Before, change: _Change) -> Recompiled:
        untouched = {*self._running.untouched, *change.untouched}
        try:
            with interruptible():
                return recompiled(
                    self._plan, before, Changed(tuple(change.filled), untouched, change.backfill)
                )
        except CheckpointError as error:
            raise as_refusal(where, error) from error

    def _exchange(self, before: Before, recompiled: Recompiled, change: _Change) -> Any:
        """Go on with the circuit of the changed plan, and publish what it adds."""
        running, epoch = self._running, self._running.epoch
        durability = running.durability
        for view in change.begun:
            view._history.begin(epoch, None if durability is None else durability.past)
        if not change.has_epoch:
            if durability is None:
                return running.exchange(recompiled.compiled, None)
            with durability.redeclared(recompiled.compiled, recompiled.record, {}):
                return running.exchange(recompiled.compiled, None)
        deltas = dict(recompiled.filled)
        for name in change.replaced:
            deltas[name] = difference(deltas[name], before.compiled.contents[name].emitted())
        if durability is None:
            return running.exchange(recompiled.compiled, deltas)
        born = {view.name: epoch + 1 for view in change.begun}
        with durability.redeclared(recompiled.compiled, recompiled.record, born):
            return running.exchange(recompiled.compiled, deltas)


class _Change:
    """A change of declarations: what is to be filled, and how to undo it."""

    def __init__(self) -> None:
        self.undo: list[Undo] = []
        self.done: list[Callable[[], object]] = []
        """What follows once it is real, whatever subscribers raise."""
        self.filled: list[str] = []
        self.untouched: set[str] = set()
        self.backfill: dict[str, Callable[[], Delta]] = {}
        self.begun: list[View] = []
        """The views whose deltas begin with the change."""
        self.replaced: set[str] = set()
        """The views that were there, whose deltas go on with the difference."""
        self.has_epoch = False
        """Whether it is an epoch of its own: new sources alone are none."""

    def enter(self, source: str) -> None:
        """Add a source into which nothing has come."""
        self.untouched.add(source)

    def fill(self, view: str, backfill: Mapping[str, Callable[[], Delta]]) -> None:
        """Fill a view, in an epoch."""
        self.filled.append(view)
        self.backfill |= backfill
        self.has_epoch = True


def stands_on_view(plan: Plan, view: View, views: Mapping[str, View]) -> list[str]:
    """Return the names of the views that were declared on a view, by any number of calls, perhaps before the engine was forked."""
    calls_by_result, before = {id(call.result): call for call in plan.calls}, [view]
    while (call := calls_by_result.get(id(before[-1]))) and call.method == FORKED:
        before.append(call.receiver)
    return [
        name for name, other in views.items() if other is not view and stands_on(plan.calls, other, before)
    ]


def _return_to(mapping: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Make a mapping, which others hold, what it was before."""
    for name in mapping.keys() - before.keys():
        del mapping[name]
    mapping.update(before)


def _named(kind: str, name: str, declared: Mapping[str, Any]) -> Any:
    if name not in declared:
        raise PlanError(f"there is no {kind} {name!r}; there are {listed(declared)}")
    return declared[name]
