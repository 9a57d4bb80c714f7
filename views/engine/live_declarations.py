"""The methods of a running engine that drop declarations, fork it, compare it with another one, and prove its views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import polars as pl

from evercurrent.core.data.errors import InputError, PlanError

from ..checkpoint import Checkpoint, CommitLog
from ..dataframe.source import Source
from ..epochs.history import Retain
from ..inspection.tracing.indexes import Indexes
from .declarations import Declarations
from .served_views import ServedViews

if TYPE_CHECKING:
    from ..inspection.proving.proof import Proof, Proofs
    from ..inspection.tracing.history import History
    from ..inspection.tracing.lineage import Lineage
    from .proving import Prover
    from .tracing import Tracer


class LiveDeclarations(ServedViews, ABC):
    """The methods of an engine that change, copy or examine what it declares, at any epoch."""

    _retain: Retain
    _indexes: Indexes

    @abstractmethod
    def _fresh(self) -> Self:
        """Return an engine in memory that retains as many deltas, with nothing declared."""

    @abstractmethod
    def _adopt(self, source: Source) -> Source:
        """Make this engine the one that takes pushes into a source, and return the source."""

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
        """Return an independent engine in memory that starts with the contents of this one.

        All runs of states are shared and none is copied, so a fork takes milliseconds and a few kilobytes whatever their size. It
        changes nothing here: push hypothetical input into it, and ``compare`` the results. It has its own sources and views
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
            checkpoint: fork the engine or the query in Spark that writes there, or has written there, and declares what this
                one declares; what else it declares is left out. It may be running, in another process too: nothing is locked or
                written.
            epoch: a committed epoch that is retained; by default the last one, of this engine that of its last push. What was
                declared then and has been dropped since is left out.

        Raises:
            InputError: an epoch is being evaluated, or an epoch is given and there is no checkpoint.
            EpochGoneError: the epoch has no commit, or it is no longer retained; names those that remain.
            CheckpointError: the checkpoint is of another plan, or damaged.
        """
        from .forks import Origin, checkpoint_of, fork  # Imported here, as only forks need it.

        with self._turn:
            if checkpoint is None and self.is_durable:
                self.ready()
            place = checkpoint_of(self._running, checkpoint, epoch)
            other = self._fresh()
            origin = Origin(self._plan, self.sources, self.views, self._running, self._retain)
            other._running = running = fork(origin, other, place, epoch)
            other._plan, other.sources, other.views = running.parts
            for source in other.sources.values():
                other._adopt(source)
        return other

    def compare(self, other: LiveDeclarations) -> dict[str, pl.DataFrame]:
        """Return how views differ from those of another engine, such as the one from which this one was forked.

        For each view of both that differs, the rows that would have to be added to the other engine's view, with ``_diff`` 1,
        and taken away, with ``_diff`` -1, to have the rows of this one. Each engine is read after its own last epoch. Cost: the
        views that do not share all of their runs.

        Raises:
            PlanError: views with one name have different columns, or it is no engine.
        """
        from .forks import compared

        if not isinstance(other, LiveDeclarations):
            raise PlanError(
                f"compare: {type(other).__name__} is no engine; give one, such as the engine of which this one is a fork"
            )
        return compared(self.published(), other.published(), self.views, other.views)

    @contextmanager
    def redeclaring(self, where: str) -> Iterator[Declarations]:
        """Change declarations inside the block, all of them in one epoch at its end, or none.

        Views that are being filled in the background are completed before.

        Raises:
            PlanError: a view cannot be filled; names it and the way out.
        """
        with self._turn:
            for filling in list(self._running.fills.values()):
                if filling.state == "filling":
                    filling.complete()  # It appears in an epoch of its own.
            declarations = self._declarations()
            with declarations.together(where):
                yield declarations
            for source in self.sources.values():
                self._adopt(source)

    def retain_rows(self) -> None:
        """Keep the rows of all sources, as ``source(..., retained=True)`` does, so that their views can be proved.

        >>> from evercurrent import Engine
        >>> engine = Engine()
        >>> sales = engine.source("sales", {"shop": pl.String})
        >>> shops = engine.view("shops", sales.unique())
        >>> engine.retain_rows()
        >>> _ = engine.push("sales", {"shop": ["north", "north"]})
        >>> bool(shops.prove())
        True

        Raises:
            PlanError: there was an epoch already, whose rows are gone.
        """
        with self._turn:
            if self._running.has_begun:
                raise PlanError("retain_rows() comes before the first epoch, whose rows would be missing")
            self._plan.retain_sources()

    def prove(
        self, sample: float | None = None, *, checkpoint: str | Path | Checkpoint | None = None
    ) -> Proofs:
        """Evaluate the definitions of all views by polars over the retained rows, and compare the results with the views.

        See ``View.prove``. Views that cannot be proved are in ``refused``, with the reasons.

        Args:
            sample: prove a share of the keys of each view, such as 0.01, the same ones in every call. Where keys are copied
                from a source, only the rows of these keys are taken from it, so that it costs about that share of a whole
                proof; where keys are computed, or rows are grouped by other columns in between, the sources are evaluated as a
                whole.
            checkpoint: prove the contents of a checkpoint that an engine with the same declarations has written; nothing is
                written.

        Raises:
            InputError: the sample is not a share of 1.
            CheckpointError: the checkpoint is of another plan, or damaged.
        """
        prover = self._prover() if checkpoint is None else self._prover_of(checkpoint)
        return prover.proofs(_share(sample))

    def proof_of(self, view: str, sample: float | None = None) -> Proof:
        """Return the proof of one view; see ``View.prove``."""
        return self._prover().proof(view, _share(sample))

    def lineage_of(self, view: str, row: object, limit: int) -> Lineage:
        """Return the rows of sources from which a row of a view comes; see ``View.lineage``."""
        return self._tracer().lineage(view, row, limit)

    def history_of(self, view: str, key: object, since: int | None) -> History:
        """Return the changes of the rows of a key, and what caused them; see ``View.history``."""
        with self._turn:
            tracer, now = self._tracer(), self.published()
        return tracer.history(view, key, since, now)

    def why_row(self, view: str, row: Mapping[str, object], *, if_present: bool = False) -> list[str]:
        """Explain line by line why a row of a view is there or not; see ``View.why``."""
        return self._tracer().why(view, row, self._last_instant() or 0, if_present=if_present)

    def _tracer(self) -> Tracer:
        # Imported here, as only questions about rows need them.
        from ..durability.forked_states import shared_states
        from .tracing import Tracer

        with self._turn:
            if self.is_durable:
                self.ready()
            self._running.require_between_epochs("look into views; look from a subscriber")
            plan, log = self._plan.forked(), self._running.log.now()
            compiled = shared_states(plan, self._running.current())
        self._indexes.forget_all_but({node.identity for node in compiled.circuit.nodes})
        return Tracer(plan, compiled, self._indexes, log)

    def _prover(self) -> Prover:
        from .proving import Earlier, Prover  # Imported here, as only proofs need it.

        with self._turn:
            fork, now = self.fork(), self.published()
            durability = self._running.durability
            epochs = () if durability is None else durability.committed
        earlier = None if durability is None else Earlier(epochs, self._prover_at)
        return Prover(fork._plan, fork._running.current(), fork.views, now, earlier)

    def _prover_of(self, checkpoint: str | Path | Checkpoint) -> Prover:
        from .proving import Earlier, Prover

        opened = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        fork = self.fork(opened)

        def at(epoch: int) -> Prover:
            other = self.fork(opened, epoch=epoch)
            return Prover(other._plan, other._running.current(), other.views, other.published(), None)

        earlier = Earlier(tuple(sorted(CommitLog(opened.store).epochs())), at, has_views=False)
        return Prover(fork._plan, fork._running.current(), fork.views, fork.published(), earlier)

    def _prover_at(self, epoch: int) -> Prover:
        from .proving import Prover

        fork = self.fork(epoch=epoch)
        return Prover(fork._plan, fork._running.current(), fork.views, fork.published(), None)

    def _declarations(self) -> Declarations:
        return Declarations(self, self._plan, self.sources, self.views, self._running, self._retain)


def _share(sample: object) -> float | None:
    """Return a share of keys.

    Raises:
        InputError: it is none.
    """
    if sample is None:
        return None
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 < sample <= 1:
        raise InputError(f"prove: sample={sample!r}; give a share of the keys, more than 0 and at most 1")
    return float(sample)
