"""The views of a running query, which follows the declarations of its engine: new, replaced and dropped views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed
from evercurrent.views.engine.engine import Engine
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.partitioned.running_fill import RunningFill
from evercurrent.views.plan.plan import Plan

from ..execution.jobs import Setup
from ..execution.micro_batches import MicroBatches
from ..execution.preflight import check_picklable
from ..execution.writer_lock import WriterLock
from .spark_views import InSpark, SparkView, SparkViews

IN_ON_EPOCH = (
    "a micro-batch is being run: on_epoch=, and functions that views are computed with, cannot declare anything, nor push into the "
    "engine of the query; declare it from another thread"
)


class LiveViews(SparkViews):
    """Views whose query changes with the declarations of its engine, between two micro-batches.

    A change is made by the thread that declares: it fills the views from a commit that no micro-batch changes, commits them, and
    later micro-batches run with the new plan. So a change does not depend on whether rows come.
    """

    def __init__(
        self,
        engine: Engine,
        reader: CheckpointReader,
        in_spark: InSpark,
        batches: MicroBatches,
        lock: WriterLock,
    ) -> None:
        super().__init__(engine, reader, in_spark)
        self._batches = batches
        self._lock = lock
        batches.while_running = lambda: engine.turn.helped(IN_ON_EPOCH)
        engine.driven_by(self)

    @property
    def is_running(self) -> bool:
        """See ``ViewDriver``."""
        return not self._lock.is_released

    def begin(self, where: str, plan: Plan) -> RunningFill:
        """See ``ViewDriver``.

        Raises:
            PlanError: sources differ, a view cannot be filled, or a sink cannot take the change.
        """
        changes, setup = self._planned(where, plan)
        return self._batches.filling(where, setup, changes.names)

    def redeclare(self, where: str, plan: Plan, computed: object) -> None:
        """See ``ViewDriver``.

        Raises:
            PlanError: sources differ, a view cannot be filled, a sink cannot take the change, or the query has just ended.
            CheckpointError: it could not be written.
        """
        changes, setup = self._planned(where, plan)
        ended = PlanError(
            f"{where}: the query has ended meanwhile; declare it again, and start the query again on its checkpoint"
        )
        with self._lock.during(ended), self._engine.fill_reports.ending():
            self._reader.expect(setup.unpickled())
            try:
                states = computed.computed if isinstance(computed, RunningFill) else None
                self._batches.redeclare(where, setup, changes.names, self._in_spark.session, states)
                self._reader.last()
            finally:
                self._reader.expect(None)
            self._take_up(changes, InSpark(self._in_spark.session, setup))

    def _planned(self, where: str, plan: Plan) -> tuple[_Changes, Setup]:
        """Return the changes, and the setup of tasks after them.

        Raises:
            PlanError: the query does not support the change.
        """
        if not hasattr(self._in_spark.session, "_jsc"):
            raise PlanError(
                f"{where}: under Spark Connect micro-batches run in another process, which has the views that were declared when "
                "the query was started. Stop the query, declare it, and start the query again on its checkpoint"
            )
        self._require_same_sources(where, plan)
        changes = self._changes()
        self._require_no_readers(where, changes)
        return changes, replace(self._in_spark.setup, plan=check_picklable(plan, "the plan of the views"))

    def _changes(self) -> _Changes:
        """Return how the declarations of the engine differ from the views of the query."""
        declared = self._engine.views
        replaced = [
            name for name, view in self.views.items() if name in declared and not view.is_of(declared[name])
        ]
        reshaped = [
            name
            for name in replaced
            if list(self.views[name].schema.items()) != list(declared[name].schema.items())
        ]
        dropped = [name for name in self.views if name not in declared]
        return _Changes(tuple(dropped), tuple(replaced), tuple(reshaped))

    def _take_up(self, changes: _Changes, in_spark: InSpark) -> None:
        """Update the views to those that are declared now."""
        for name in (*changes.dropped, *changes.reshaped):
            how = "was dropped" if name in changes.dropped else "was replaced by one with other columns"
            self.views[name].end(f"view {name!r} {how}; the views of the query are in query.views")
        views: dict[str, SparkView] = {}
        for name, declared in self._engine.views.items():
            view = self.views.get(name)
            if view is None or name in changes.reshaped:
                view = SparkView(declared, self._reader, in_spark)
            else:
                view.go_on(declared, in_spark)
            views[name] = view
        self.views: Mapping[str, SparkView] = views
        self._in_spark = in_spark

    def _require_same_sources(self, where: str, plan: Plan) -> None:
        """Check that no source was added or dropped.

        Raises:
            PlanError: one was; names the way out.
        """
        if new := [name for name in plan.sources if name not in self._sources]:
            raise PlanError(
                f"{where}: no stream can be joined to a query that runs, and Spark's checkpoint can only go on with the streams that "
                f"it began with, so source {listed(new)} cannot be added. Start another query, on a checkpoint of its own, with an engine "
                "that declares it, or one that declares all sources on a new checkpoint"
            )
        if gone := [name for name in self._sources if name not in plan.sources]:
            raise PlanError(
                f"{where}: the query reads the stream of source {listed(gone)}, and Spark's checkpoint can only go on with the streams "
                "that it began with. Leave the source as it is: without views it costs little; or begin a new checkpoint"
            )

    def _require_no_readers(self, where: str, changes: _Changes) -> None:
        """Check that no sink gets the deltas of a view that is dropped, or that gets other columns.

        Raises:
            PlanError: one does; names the way out.
        """
        for name in (*changes.dropped, *changes.reshaped):
            if deliveries := self.views[name].deliveries:
                raise PlanError(
                    f"{where}: it is written to {deliveries[0]!r}; close that first: for each in query.view({name!r}).deliveries: "
                    "each.close()"
                )
        if changes.reshaped and self._batches.options.on_epoch is not None:
            raise PlanError(
                f"{where}: the view that replaces it has other columns, and on_epoch= does not take that; choose another name, or drop "
                f"the view first with engine.drop_view({changes.reshaped[0]!r})"
            )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The names of views that are gone, of those that others have, and of those among them whose columns are others."""

    dropped: tuple[str, ...]
    replaced: tuple[str, ...]
    reshaped: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all views that the query no longer has as they were."""
        return (*self.dropped, *self.replaced)
