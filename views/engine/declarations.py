"""Sources and views are declared, replaced and dropped, before the first epoch or between any two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError, PlanError
from evercurrent.core.data.schema import counted, listed, require_name

from ..dataframe.collection import Collection, require_collection
from ..dataframe.source import Source, declare, is_same, with_other_columns
from ..dataframe.windowing import forbid_unused_answers
from ..durability.piecewise_fill import PiecewiseFill
from ..durability.plan_match import require_distinguishable
from ..durability.redeclared import Changed, as_refusal, piecewise
from ..epochs.history import Retain
from ..epochs.subscriptions import SchemaChange
from ..plan.declared_calls import NAMED, DeclaredCall, by_results, stands_on
from ..plan.node_identities import plan_identities
from ..plan.nodes import PlanId
from ..plan.plan import Plan
from .backfill_rows import backfilled
from .declaration_changes import Change, Changes, return_to
from .epoch_runner import Running
from .fills import Filling, OnProgress
from .readers_of_replaced import has_same_columns, require_readers, require_up_to_date
from .view import View
from .view_driver import ViewDriver, driver_of, the_one
from .view_keeper import ViewKeeper

DROPPED_MEANWHILE = "was dropped while it was being filled"
REPLACED_MEANWHILE = "was replaced while it was being filled; take what engine.view has returned since"


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
        self._changes = Changes(plan, sources, views, running)
        self.together = self._changes.together

    def source(self, name: str, schema: Mapping[str, Any], options: Mapping[str, Any]) -> Source:
        """Declare a source; a repeated declaration returns the existing one.

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
        with self._changes.change(f"source {name!r}") as change:
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
            with self._changes.change(f"source {name!r}") as change:
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

    def view(
        self,
        name: str,
        collection: Collection,
        *,
        replace: bool,
        backfill: object,
        background: bool = False,
        on_progress: OnProgress | None = None,
    ) -> View:
        """Declare a view; a repeated declaration returns the existing one. See ``Engine.view``."""
        require_name("view", name)
        where = f"view {name!r}"
        require_collection(where, self._plan, collection)
        forbid_unused_answers(where, collection._windowing)
        if gone := self._plan.removed_sources(collection._place):
            raise PlanError(
                f"{where} is computed from source {listed(gone)}, which was dropped; declare it anew"
            )
        if (pending := self._pending(name, collection, replace=replace, background=background)) is not None:
            return pending
        existing = self._views.get(name)
        if existing is not None and self._computes_the_same(existing, collection):
            self._running.fills.stop(name, REPLACED_MEANWHILE)
            self._declare_again(existing, collection)
            return existing
        if existing is not None and not replace:
            raise PlanError(
                f"{where} is declared twice, in different ways; choose another name, or replace the one that is there with "
                "replace=True"
            )
        if backfill is not None and not self._running.has_begun:
            if the_one(where, self._running.drivers) is not None:
                raise PlanError(
                    f"{where}: backfill= is for an engine that maintains views itself, and a query fills views from what its checkpoint "
                    "keeps; declare the source with retained=True, or begin a new checkpoint"
                )
            raise PlanError(
                f"{where}: backfill= goes with a view that is declared after the first push, and with a checkpoint after it was opened "
                "(engine.ready()); before that, push the rows into their sources"
            )
        if replace:
            self._plan.replacing.add(name)
        readers = backfilled(name, backfill, self._sources, self._running.positions)
        view = View(self._engine, self._plan, collection._place, name, self._retain, collection._windowing)
        if on_progress is not None and not self._running.has_begun:
            self._running.reports.callbacks[name] = (
                on_progress  # There may be a checkpoint, which is opened later.
            )
        driver = driver_of(where, self._running)
        if background and existing is not None:
            require_readers(existing, view)
        if background and driver is not None:
            self._begin_in(driver, view, collection, on_progress)
        elif background and self._has_rows(collection._place):
            self._begin(view, collection, readers, on_progress)
        else:
            self._declare(view, collection, readers)
        return view

    def _declare(
        self,
        view: View,
        collection: Collection,
        backfill: Mapping[str, Callable[[], Delta]],
        filling: Filling | None = None,
        computed: PiecewiseFill | None = None,
    ) -> None:
        """Add a view, or replace another one by it; the ``filling`` has its states, if they are computed already.

        These are the ``computed`` ones, or those of the driver that runs the views.
        """
        name, where = view.name, f"view {view.name!r}"
        existing = self._views.get(name)
        with self._changes.change(where, [] if existing is None else [existing]) as change:
            change.fill(view, backfill)
            if filling is None:
                change.done.append(lambda: self._running.fills.stop(name, REPLACED_MEANWHILE))
            else:
                change.computed, change.filling = computed, filling
                # From here on it is like any view that is being declared.
                view._filling = None
                change.undo.append(lambda: setattr(view, "_filling", filling))
                change.done.append(lambda: self._appear(view, filling))
            if filling is None:
                self._note(view, collection)
            if existing is None:
                change.begun.append(view)
                self._add(view)
            else:
                self._replace(existing, view, change)
                replaced = f"{where} was replaced, and this is the one before; take engine.views[{name!r}]"
                change.done.append(lambda: setattr(existing, "_gone", replaced))

    # In the background

    def _pending(self, name: str, collection: Collection, *, replace: bool, background: bool) -> View | None:
        """Return the view that is being filled under this name, if the declaration repeats it.

        Raises:
            PlanError: it is another one, and is not to be replaced.
        """
        filling = self._running.fills.get(name)
        if filling is None or filling.state != "filling":
            return None
        view: View = filling.view
        if self._computes_the_same(view, collection):
            if not background:
                filling.complete()
            return view
        if not replace:
            raise PlanError(
                f"view {name!r} is being filled, and is declared in another way; choose another name, or replace it with "
                "replace=True"
            )
        return None

    def _has_rows(self, place: PlanId) -> bool:
        """Return whether there may be rows from which a collection is to be filled."""
        sources = [source.name for source in self._plan.sources_of(place)]
        return self._running.has_begun and not self._running.untouched.issuperset(sources)

    def _begin(
        self,
        view: View,
        collection: Collection,
        backfill: Mapping[str, Callable[[], Delta]],
        on_progress: OnProgress | None,
    ) -> None:
        """Start to fill a view; nothing visible changes before it is filled.

        Raises:
            PlanError: it cannot be filled.
        """
        name, where, running = view.name, f"view {view.name!r}", self._running
        with running.declaring():
            named = self._plan.named()
            try:
                before = self._changes.before(where)
                if name in self._plan.views:
                    self._plan.remove_view(name)
                self._plan.add_view(name, view._place)
                fill = piecewise(self._plan, before, Changed((name,), set(running.untouched), backfill))
            except CheckpointError as error:
                raise as_refusal(where, error) from error
            finally:
                self._plan.return_to(named)

        def adopt(filling: Filling) -> None:
            if name in self._views:
                fill.hold(running.current())
                running.fills.complete_others(filling)
            self._declare(view, collection, backfill, filling, fill)

        self._start(view, Filling(view, collection, fill, running.turn, adopt, on_progress))

    def _begin_in(
        self, driver: ViewDriver, view: View, collection: Collection, on_progress: OnProgress | None
    ) -> None:
        """Start to fill a view in the driver that runs the views.

        Raises:
            PlanError: it cannot be filled.
        """
        name, where, views = view.name, f"view {view.name!r}", dict(self._views)
        named = self._plan.named()
        try:
            if name in self._plan.views:
                self._plan.remove_view(name)
            self._plan.add_view(name, view._place)
            self._views[name] = view
            fill = driver.begin(where, self._plan)
        finally:
            self._plan.return_to(named)
            return_to(self._views, views)

        def adopt(filling: Filling) -> None:
            if not driver.is_running:
                raise PlanError(
                    f"{where}: the query has ended meanwhile; declare the view again, and start the query again on its checkpoint"
                )
            self._declare(view, collection, {}, filling)

        self._start(view, Filling(view, collection, fill, self._running.turn, adopt, on_progress))

    def _start(self, view: View, filling: Filling) -> None:
        self._running.fills.stop(view.name, REPLACED_MEANWHILE)
        view._filling = self._running.fills[view.name] = filling
        self._note(view, filling.collection)  # Others may be declared on it before it appears.
        filling.start()

    def _appear(self, view: View, filling: Filling) -> None:
        """Note that a view was filled and can be read."""
        self._running.fills.pop(view.name, None)
        filling.end("ready")

    def drop_view(self, name: str) -> None:
        """Drop a view. See ``Engine.drop_view``."""
        if not isinstance(name, str):
            raise PlanError(f"drop_view: {name!r} is not the name of a view; there are {listed(self._views)}")
        fills, filling = self._running.fills, self._running.fills.get(name)
        dropped = [filling.view] if filling is not None and filling.state == "filling" else []
        if filling is None or name in self._views:
            dropped.append(_named("view", name, self._views))
        pending = {other: each.collection for other, each in fills.items() if other != name}
        for view in dropped:
            if others := stands_on_view(self._plan, view, {**self._views, **pending}):
                raise PlanError(f"view {name!r}: view {listed(others)} is declared on it; drop that first")
        if filling is not None and name not in self._views:
            fills.stop(name, DROPPED_MEANWHILE)
            return
        view = self._views[name]
        if view.subscriptions:
            raise PlanError(
                f"view {name!r}: {counted(len(view.subscriptions), 'open subscription')} to it ({view.subscriptions[0]!r}); close them "
                "first: for each in view.subscriptions: each.close()"
            )
        with self._changes.change(f"view {name!r}", [view]) as change:
            change.has_epoch = True
            if filling is not None:
                del fills[name]
                change.undo.append(lambda: fills.update({name: filling}))
                change.done.append(lambda: filling.stop(DROPPED_MEANWHILE))
            self._plan.remove_view(name)
            del self._views[name]
            change.undo.append(self._running.readers.forget(name))
            change.done.append(lambda: setattr(view, "_gone", f"view {name!r} was dropped"))

    def drop_source(self, name: str) -> None:
        """Drop a source. See ``Engine.drop_source``."""
        source = _named("source", name, self._sources)
        pending = {view: each.collection._place for view, each in self._running.fills.items()}
        others = [
            view
            for view, at in {**self._plan.views, **pending}.items()
            if source._place in self._plan.behind(at)
        ]
        if others:
            raise PlanError(f"source {name!r}: view {listed(others)} is computed from it; drop that first")
        running = self._running
        with self._changes.change(f"source {name!r}") as change:
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
        places = sorted(self._plan.behind(existing._place) | self._plan.behind(collection._place))
        identities = plan_identities(self._plan, places)
        if identities[existing._place] != identities[collection._place]:
            return False
        try:
            require_distinguishable(self._plan, identities, places)
        except CheckpointError as error:
            raise as_refusal(f"view {existing.name!r}", error) from error
        return True

    def _declare_again(self, view: View, collection: Collection) -> None:
        """Note that a view is declared as another collection that computes the same: views on which only the one before stands can go."""
        calls = self._plan.calls
        if collection is view or stands_on(by_results(calls), collection, [view]):
            return  # It is declared as itself.
        before = calls.of(view)
        calls.put(DeclaredCall(collection, NAMED, (), {}, view))
        self._changes.undo_with_others(partial(calls.put, before))

    def _note(self, view: View, collection: Collection) -> None:
        self._plan.calls.note(collection, NAMED, (), {}, view)

    def _add(self, view: View) -> None:
        self._plan.add_view(view.name, view._place)
        self._views[view.name] = view

    def _replace(self, existing: View, view: View, change: Change) -> None:
        """Replace a view by another one, with which its subscriptions continue."""
        name, readers = existing.name, self._running.readers
        same = has_same_columns(existing, view)
        require_readers(existing, view)
        if same:
            view._history = existing._history
            change.replaced.add(name)
        else:
            require_up_to_date(existing, self._running.epoch)
            change.begun.append(view)
            change.columns_before.setdefault(name, existing.schema)
        self._plan.remove_view(name)
        self._add(view)
        followed = SchemaChange(name, self._running.epoch + 1, existing.schema, view.schema)
        places = [(each, each.place) for each in existing.subscriptions]
        view._subscriptions = existing.subscriptions
        if not same and self._running.has_begun:
            change.undo.append(readers.pass_by(name, followed.epoch, existing.schema))
        before = self._running.published() if self._running.has_begun else None

        def unread(since: int) -> Iterator[pl.DataFrame]:
            return iter(()) if before is None else before.deltas(name, since)

        for each in existing.subscriptions:
            each.follow(view, None if same else followed, unread)

        def return_readers() -> None:
            for each, place in places:
                each.return_to(place)

        change.undo.append(return_readers)


def stands_on_view(plan: Plan, view: View, views: Mapping[str, Collection]) -> list[str]:
    """Return the names of the views that were declared on a view, by any number of calls.

    A view that is being filled is not declared yet, and is given as the collection that defines it.
    """
    calls = by_results(plan.calls)
    return [
        name
        for name, other in views.items()
        if (other is not view or name != view.name) and (other is view or stands_on(calls, other, [view]))
    ]


def _named(kind: str, name: str, declared: Mapping[str, Any]) -> Any:
    if not isinstance(name, str) or name not in declared:
        raise PlanError(f"there is no {kind} {name!r}; there are {listed(declared)}")
    return declared[name]
