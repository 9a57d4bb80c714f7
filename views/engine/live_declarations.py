"""What an engine does with its declarations while it runs: it drops them, is forked, compared and proved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import polars as pl

from ..checkpoint import Checkpoint
from ..connectors.positions import Position
from ..epochs.history import Retain
from ..inspection.questions import WindowQueries
from ..plan.nodes import PlanId
from ..proving.proof import Proof, Proofs
from ..tracing.history import History
from ..tracing.indexes import Indexes
from ..tracing.lineage import Lineage
from .declarations import Declarations
from .forks import Origin, checkpoint_of, compared, fork
from .proving import Prover
from .served_views import ServedViews
from .tracing import Tracer


class LiveDeclarations(ServedViews):
    """The methods of an engine that change, copy or examine what it declares, at any epoch."""

    _retain: Retain
    _indexes: Indexes

    @abstractmethod
    def _fresh(self) -> Self:
        """Return an engine in memory that retains as many deltas, with nothing declared."""

    @abstractmethod
    def push(
        self,
        source: str,
        data: Any,
        *,
        at: datetime | str | None = None,
        watermark: datetime | str | int | None = None,
        position: Position | None = None,
    ) -> int:
        """Take one batch of changes."""

    def drop_view(self, name: str) -> None:
        """Drop a view, in an epoch of its own; states that nothing else needs are freed, and their files in time.

        Raises:
            PlanError: there is no such view, another one was declared on it, or a subscription to it is open.
        """
        with self._turn:
            self._declarations().drop_view(name)

    def drop_source(self, name: str) -> None:
        """Drop a source with its position, its watermark and its retained rows, in an epoch of its own.

        Raises:
            PlanError: there is no such source, or a view is computed from it.
        """
        with self._turn:
            self._declarations().drop_source(name)

    def fork(self, checkpoint: str | Path | Checkpoint | None = None, *, epoch: int | None = None) -> Self:
        """Return an engine in memory that begins with the contents of this one and goes its own way.

        All runs of states are shared and none is copied, so a fork takes milliseconds and a few kilobytes whatever their size. It
        changes nothing here: push what might happen into it, and ``compare`` the results. It has its own sources and views
        under the same names (``fork.sources``, ``fork.views``), the positions and watermarks, and the deltas that are in
        memory; no subscriptions, no checkpoint, and one worker.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64}, kind="diffs")
        >>> _ = engine.view("totals", sales.group_by("shop").agg(total=pl.col("price").sum()))
        >>> _ = engine.push("sales", {"shop": ["north", "south"], "price": [3, 4]})
        >>> fork = engine.fork()
        >>> _ = fork.push("sales", {"shop": ["north"], "price": [3], "_diff": [-1]})
        >>> fork.compare(engine)["totals"].rows()
        [('north', 3, -1)]
        >>> engine.views["totals"].read().height
        2

        Args:
            checkpoint: fork the engine that writes there, or has written there, and declares what this one declares. It may
                be running, in another process too: nothing is locked or written.
            epoch: a committed epoch that is retained; by default the last one, of this engine that of its last push.

        Raises:
            InputError: an epoch is being evaluated, or an epoch is given and there is no checkpoint.
            EpochGoneError: the epoch has no commit, or it is no longer retained; names those that remain.
            CheckpointError: the checkpoint is of another plan, or damaged.
        """
        with self._turn:
            if checkpoint is None and self.is_durable:
                self.ready()
            place = checkpoint_of(self._running, checkpoint, epoch)
            other = self._fresh()
            origin = Origin(self._plan, self.sources, self.views, self._running, self._retain)
            other._running = running = fork(origin, other, place, epoch)
            other._plan, other.sources, other.views = running.parts
            for source in other.sources.values():
                source._take = other.push
        return other

    def compare(self, other: LiveDeclarations) -> dict[str, pl.DataFrame]:
        """Return how views differ from those of another engine, such as the one that this one is a fork of.

        For each view of both that differs, the rows that would have to be added to the other engine's view, with ``_diff`` 1,
        and taken away, with ``_diff`` -1, to have the rows of this one. Each engine is read after its own last epoch. Cost: the
        views that do not share all of their runs.

        Raises:
            PlanError: views with one name have different columns.
        """
        return compared(self.published(), other.published(), self.views, other.views)

    def prove(self) -> Proofs:
        """Evaluate the definitions of all views by polars over the retained rows, and compare that with what the views hold.

        See ``View.prove``. Views that cannot be proved are in ``refused``, with the reasons.
        """
        return self._prover().proofs(self.views)

    def proof_of(self, view: str) -> Proof:
        """Return the proof of one view; see ``View.prove``."""
        return self._prover().proof(view)

    def lineage_of(self, view: str, row: object, limit: int) -> Lineage:
        """Return the rows of sources from which a row of a view comes; see ``View.lineage``."""
        return self._tracer().lineage(view, row, limit)

    def history_of(self, view: str, key: object, since: int | None) -> History:
        """Return the changes of the rows of a key, and what caused them; see ``View.history``."""
        with self._turn:
            tracer, now = self._tracer(), self.published()
        return tracer.history(self.views[view], key, since, now)

    def why_row(self, view: str, row: Mapping[str, object]) -> list[str]:
        """Explain line by line why a row of a view is there or not; see ``View.why``."""
        fork = self.fork()
        compiled, plan = fork._running.current(), fork._plan
        instant = self._last_instant() or 0

        def windows(place: PlanId, given: pl.DataFrame) -> list[str]:
            return WindowQueries(plan, compiled, view, place).why_waiting(given.row(0, named=True), instant)

        return Tracer(plan, compiled, self._indexes).why(view, row, windows)

    def _tracer(self) -> Tracer:
        fork = self.fork()
        return Tracer(fork._plan, fork._running.current(), self._indexes)

    def _prover(self) -> Prover:
        fork = self.fork()
        running = fork._running
        return Prover(fork._plan, running.current(), running.epoch, fork.views)

    def _declarations(self) -> Declarations:
        return Declarations(self, self._plan, self.sources, self.views, self._running, self._retain)
