"""The views of a running query, which follows the declarations of its engine: new, replaced and dropped views and sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed
from evercurrent.views.engine.engine import Engine
from evercurrent.views.engine.readers_of_replaced import require_same_use
from evercurrent.views.partitioned.bucket_states import ComputedStates
from evercurrent.views.partitioned.checkpoint_reader import CheckpointReader
from evercurrent.views.partitioned.running_fill import RunningFill
from evercurrent.views.plan.plan import Plan

from ..execution.jobs import Setup
from ..execution.micro_batches import MicroBatches
from ..execution.other_streams import continue_with
from ..execution.preflight import check_picklable
from ..execution.streaming import Streaming
from ..input.inputs import check_streams
from ..input.origins import require_no_aggregation, require_no_shuffle
from .spark_views import InSpark, SparkView, SparkViews
from .united_rows import UnitedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_ON_EPOCH = (
    "a micro-batch is being run: on_epoch=, and functions that views are computed with, cannot declare anything, nor push into the "
    "engine of the query; declare it from another thread"
)

FIXED = "the rows of this query come as one stream of all sources that were declared when it was started; start it again with the others"


LAST_STREAM = "the query would be without a stream; give it that of another source first, query.add_streams({...}), or stop it"


class LiveViews(SparkViews):
    """Views whose query changes with the declarations of its engine, between two micro-batches.

    A change is made by the thread that declares: it fills the views from a commit that no micro-batch changes, commits them, and
    later micro-batches run with the new plan. So a change does not depend on whether rows come. Where Spark itself has to be
    given something else, other streams or, under Spark Connect, another function for micro-batches, its query is ended
    before and started again after that commit.
    """

    def __init__(
        self,
        engine: Engine,
        reader: CheckpointReader,
        in_spark: InSpark,
        batches: MicroBatches,
        streaming: Streaming,
        rows: UnitedRows,
    ) -> None:
        super().__init__(engine, reader, in_spark)
        self._batches = batches
        self._streaming = streaming
        self._rows = rows
        batches.while_running = lambda: engine.turn.helped(IN_ON_EPOCH)
        engine.driven_by(self)

    @property
    def is_running(self) -> bool:
        """See ``ViewDriver``."""
        return not self._streaming.lock.is_released

    def begin(self, where: str, plan: Plan) -> RunningFill:
        """See ``ViewDriver``.

        Raises:
            PlanError: a view cannot be filled, or a sink cannot take the change.
        """
        changes, setup = self._planned(where, plan)
        return self._batches.filling(where, setup, changes.names)

    def redeclare(self, where: str, plan: Plan, computed: object) -> Exception | None:
        """See ``ViewDriver``; a query ends where Spark does not start it again.

        Raises:
            PlanError: a view cannot be filled, a sink cannot take the change, or the query has just ended.
            CheckpointError: it could not be written.
        """
        changes, setup = self._planned(where, plan)
        states = computed.computed if isinstance(computed, RunningFill) else None
        gone = [name for name in self._batches.setup.sources() if name in changes.sources]
        if self._rows.is_fixed and (gone or plan.sources.keys() - self._sources.keys()):
            raise PlanError(f"{where}: {FIXED}")
        if gone and self._rows.frames.keys() <= {*gone}:
            raise PlanError(f"{where}: {LAST_STREAM}")
        ended = _ended(where)
        with self._streaming.lock.during(ended), self._engine.fill_reports.ending():
            if not gone and not self._batches.is_connected:
                self._batches.await_begun(lambda: self._streaming.is_active)
                self._exchange(where, changes, setup, states)
                return None
            is_committed = False
            try:
                with self._streaming.between_micro_batches(ended):
                    self._exchange(where, changes, setup, states)
                    is_committed = True
                    if gone:
                        self._continue_with(
                            {name: frame for name, frame in self._rows.frames.items() if name not in gone}
                        )
            except Exception as error:
                if not is_committed:
                    raise
                return error
        return None

    def add_streams(self, sources: Mapping[str, DataFrame]) -> None:
        """Read the rows of sources that were declared while the query runs, from the beginning of their streams.

        Until then such a source has no rows. Spark's query is ended between two micro-batches, and started again with more streams,
        all others where they are; in the checkpoint that is an epoch of its own. Started again on the checkpoint, the query needs
        a DataFrame for each of its sources: ``run(engine, {...})``.

        >>> import evercurrent as ec
        >>> import polars as pl
        >>> from evercurrent import spark_bridge
        >>> engine = ec.Engine()
        >>> hits = engine.source("hits", {"ip": pl.String})
        >>> _ = engine.view("visitors", hits.group_by("ip").len("n"))
        >>> spark = spark_bridge.local_session()  # doctest: +SKIP
        >>> stream = spark.readStream.schema("ip string").parquet("hits")  # doctest: +SKIP
        >>> query = spark_bridge.run(engine, {"hits": stream}, checkpoint="hits.checkpoint")  # doctest: +SKIP
        >>> names = engine.source("names", {"ip": pl.String, "name": pl.String})
        >>> _ = engine.view("named", hits.join(names, on="ip"))
        >>> stream = spark.readStream.schema("ip string, name string").parquet("names")  # doctest: +SKIP
        >>> query.add_streams({"names": stream})  # doctest: +SKIP

        Args:
            sources: a streaming DataFrame for each of these sources, as for ``run``.

        Raises:
            InputError: a DataFrame does not fit its source, or reads the same stream as another one.
            PlanError: a source is not declared, or has a stream already; or the query has ended.
            CheckpointError: Spark's own checkpoint cannot be continued with more streams, or it could not be written.
        """
        with self._engine.turn:
            self._require_without_streams(sources)
            declared = {name: self._engine.sources[name] for name in sources}
            check_streams(declared, sources, is_streaming=True)
            require_no_shuffle(sources, declared)
            require_no_aggregation(sources)
            frames = {**self._rows.frames, **sources}
            self._rows.streams(frames).require_own()
            ended = _ended(f"source {listed(sources)}")
            with self._streaming.lock.during(ended), self._streaming.between_micro_batches(ended):
                self._continue_with(frames)

    def _require_without_streams(self, sources: Mapping[str, DataFrame]) -> None:
        """Check that these are sources of the query that have no stream yet.

        Raises:
            PlanError: one is not; names the way out.
        """
        if not isinstance(sources, Mapping) or not sources:
            raise PlanError("add_streams: give a dictionary, as {'name': DataFrame}")
        where = f"source {listed(sources)}"
        if not self.is_running:
            raise _ended(where)
        if self._rows.is_fixed:
            raise PlanError(f"{where}: {FIXED}")
        if unknown := [name for name in sources if name not in self._engine.sources]:
            raise PlanError(
                f"source {listed(unknown)} is not declared; there are {listed(self._engine.sources)}: declare it with engine.source(...)"
            )
        if there := [name for name in sources if name in self._batches.setup.sources()]:
            raise PlanError(
                f"source {listed(there)} has a stream already; declare another source, or drop this one with engine.drop_source({there[0]!r}) "
                "first"
            )

    def _continue_with(self, frames: Mapping[str, DataFrame]) -> None:
        """Continue with the streams of these DataFrames. Spark's query has ended."""
        before, streams = self._batches.streams, self._rows.streams(frames)
        continue_with(self._batches, before, streams, self._in_spark.session)
        self._rows.frames = dict(frames)
        self._in_spark = replace(self._in_spark, setup=self._batches.setup)

    def _exchange(self, where: str, changes: _Changes, setup: Setup, states: ComputedStates | None) -> None:
        """Commit a changed plan, and go on with it."""
        self._reader.expect(setup.unpickled())
        try:
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
        changes = self._changes()
        self._require_no_readers(where, changes)
        streams = tuple(name for name in self._batches.setup.sources() if name not in changes.sources)
        pickled = check_picklable(plan, "the plan of the views")
        return changes, replace(self._batches.setup, plan=pickled, streams=streams)

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
        sources = [
            name for name, source in self._sources.items() if self._engine.sources.get(name) is not source
        ]
        return _Changes(tuple(dropped), tuple(replaced), tuple(reshaped), tuple(sources))

    def _take_up(self, changes: _Changes, in_spark: InSpark) -> None:
        """Update the views to those that are declared now."""
        for name in (*changes.dropped, *changes.reshaped):
            how = "was dropped" if name in changes.dropped else "was replaced by one with other columns"
            self.views[name].end(f"view {name!r} {how}; the views of the query are in query.views")
        views: dict[str, SparkView] = {}
        for name, declared in self._engine.views.items():
            view = self.views.get(name)
            if view is None or name in changes.reshaped:
                view = SparkView(declared, self._reader, in_spark, self._sinks)
            else:
                view.go_on(declared, in_spark)
            views[name] = view
        self.views: Mapping[str, SparkView] = views
        self._sources = dict(self._engine.sources)
        self._in_spark = in_spark

    def _require_no_readers(self, where: str, changes: _Changes) -> None:
        """Check that no sink gets the deltas of a view that is dropped, gets other columns, or does not fit the sink any more.

        Raises:
            PlanError: one does; names the way out.
        """
        for name in (*changes.dropped, *changes.reshaped):
            if deliveries := self.views[name].deliveries:
                raise PlanError(
                    f"{where}: it is written to {deliveries[0]!r}; close that first: for each in query.view({name!r}).deliveries: "
                    "each.close()"
                )
        for name in changes.replaced:
            for delivery in self.views[name].deliveries:
                require_same_use(delivery, name, self._engine.views[name])
        if changes.reshaped and self._batches.options.on_epoch is not None:
            raise PlanError(
                f"{where}: the view that replaces it has other columns, and on_epoch= does not take that; choose another name, or drop "
                f"the view first with engine.drop_view({changes.reshaped[0]!r})"
            )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The names of views that are gone, of those that others have, and of those among them whose columns are others.

    ``sources`` are those that are gone, or are others now.
    """

    dropped: tuple[str, ...]
    replaced: tuple[str, ...]
    reshaped: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all views and sources that the query no longer has as they were."""
        return (*self.dropped, *self.replaced, *self.sources)


def _ended(where: str) -> PlanError:
    return PlanError(
        f"{where}: the query has ended meanwhile; declare it again, and start the query again on its checkpoint"
    )
