"""Views that are being filled in the background: a thread computes them piece by piece, while epochs and readers continue.

The thread reads immutable runs, as they were when the view was declared, and computes states that are not visible to others.
Meanwhile each epoch adds to a queue here what the nodes that it reads have emitted. The thread catches up with that, and
finally takes the turn for one epoch, in which the view appears. So no part of it is in any earlier epoch or commit: after a
crash the view is there as a whole, or is filled again.

A thread was chosen, and not a share of the fill in each push: a fill ends even without pushes, and pushes are not slowed down,
as polars and numpy compute without the interpreter's lock.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import ArithmeticRefusedError, EvercurrentError, NotFilledError, PlanError
from evercurrent.core.data.instants import spelled_briefly
from evercurrent.core.data.tags import tagged

from ..compiler.builder import Compiled
from ..concurrency.turns import Guard, Turn
from ..durability.piecewise_fill import PIECE_ROWS, summed
from ..epochs.run_events import LOG
from .view_driver import StatesFill

FEW_CHANGES, MOST_ROUNDS = 1 << 14, 8
"""With at most this many changes left, or after this many rounds, the rest is computed in the turn in which the view
appears."""

IN_A_FILL = "a view is being filled: a function that it uses, or the iterator of its backfill=, cannot push; push from a subscriber"

FillState = Literal["filling", "ready", "failed", "dropped"]


@tagged("views.engine:FillProgress")
@dataclass(frozen=True, slots=True)
class FillProgress:
    """The progress of a view that is filled with ``background=True``; its rows are those that are read to fill it.

    ``seconds_left`` is None until the first rows are read. ``error`` is why it failed, if it did. Once it is "ready", the view can be read.

    >>> FillProgress("sizes", "filling", 3_000_000, 10_000_000, 4.2)
    view 'sizes' is being filled: 3,000,000 of 10,000,000 rows (30 %), about 4s200ms left
    """

    view: str
    state: FillState
    rows_done: int
    rows_total: int
    seconds_left: float | None = None
    error: BaseException | None = None

    @property
    def share(self) -> float:
        """The share of the rows that have been read, from 0 to 1."""
        if self.state == "ready":
            return 1.0
        return self.rows_done / self.rows_total if self.rows_total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, as ``engine.stats()`` has them."""
        return {
            "state": self.state,
            "rows_done": self.rows_done,
            "rows_total": self.rows_total,
            "share": self.share,
            "seconds_left": self.seconds_left,
            "error": None if self.error is None else self._reason,
        }

    @property
    def _reason(self) -> str:
        """The error in words: errors of this package are sentences, others may mean nothing without their type."""
        if isinstance(self.error, EvercurrentError):
            return str(self.error)
        return ": ".join(filter(None, (type(self.error).__name__, str(self.error))))

    def __repr__(self) -> str:
        """All of it in one line."""
        if self.state == "failed":
            return f"view {self.view!r} could not be filled: {self._reason}"
        if self.state != "filling":
            return f"view {self.view!r} is {self.state}"
        left = self.seconds_left
        when = "" if left is None else f", about {spelled_briefly(round(left * 1e6))} left"
        return (
            f"view {self.view!r} is being filled: {self.rows_done:,} of {self.rows_total:,} rows ({self.share:.0%})".replace(
                "%)", " %)"
            )
            + when
        )


OnProgress = Callable[[FillProgress], object]


class Filling:
    """One view that is being filled.

    ``advance`` computes a piece; ``adopt`` is called with the turn when all is computed. Any
    thread may advance it, one at a time. The output of epochs meanwhile is passed to ``took``.
    """

    def __init__(
        self,
        view: Any,
        collection: Any,
        fill: StatesFill,
        turn: Turn,
        adopt: Callable[[Filling], None],
        on_progress: OnProgress | None,
    ) -> None:
        self.name: str = view.name
        self.view, self.collection = view, collection
        """The view, and what it was declared as."""
        self.fill = fill
        self.state: FillState = "filling"
        self.error: BaseException | None = None
        self.is_caught_up: bool = False
        """Whether it has all that its inputs have emitted, and its caller has the turn: it needs them no more."""
        self._turn = turn
        self._adopt = adopt
        self._on_progress = on_progress
        self._most: int | None = PIECE_ROWS
        self._pieces: Iterator[int] | None = fill.pieces(PIECE_ROWS)
        self._done = self._rounds = 0
        self._begun = time.monotonic()
        self._changes: dict[str, list[Delta]] = {}
        self._places: tuple[Compiled | None, dict[str, NodeId]] = (None, {})
        self._stepping, self._noting = Guard(), Guard()
        self._ended = threading.Event()
        self._process = os.getpid()
        self._runs_in: int | None = None
        """The thread that fills it, in which ``on_progress`` is called."""
        self._computes_in: int | None = None
        """The thread that computes a piece, in which functions of the view are called."""

    # What epochs leave

    def places_in(self, compiled: Compiled) -> dict[str, NodeId]:
        """Return the nodes of a circuit whose deltas are needed, by their identities; some may not be there."""
        if self._places[0] is not compiled:
            inputs = self.fill.inputs
            places = {
                node.identity: NodeId(place)
                for place, node in enumerate(compiled.circuit.nodes)
                if node.identity in inputs
            }
            self._places = compiled, places
        return self._places[1]

    def took(self, compiled: Compiled, deltas: Mapping[NodeId, Delta]) -> None:
        """Note what a committed epoch has emitted. Cost: the nodes that the fill reads."""
        for identity, place in self.places_in(compiled).items():
            if place in deltas and (delta := deltas[place]).height:
                # An object of this thread's own: columns are made when they are first needed.
                own = Delta(delta.frame, delta.is_consolidated)
                with self._noting.lock:
                    self._changes.setdefault(identity, []).append(own)

    def _taken(self) -> dict[str, list[Delta]]:
        with self._noting.lock:
            changes, self._changes = self._changes, {}
            return changes

    # Its course

    def start(self) -> None:
        """Start the thread that fills the view; where none can be started, at the end of a process, fill it at once."""
        context = copy_context()
        thread = threading.Thread(
            target=lambda: context.run(self.run), name=f"evercurrent fill {self.name}", daemon=True
        )
        _at_exit.add(self)
        try:
            thread.start()
        except RuntimeError:
            self.run()

    def run(self) -> None:
        """Fill the view; if that fails, ``progress`` and all threads that wait for the view get the error."""
        self._runs_in = threading.get_ident()
        try:
            while self.advance():
                pass
            with self._turn:
                self.complete()
        except BaseException as error:
            if self.state == "filling":
                self.fail(error)
            LOG.exception(
                "view %r: its fill, or a subscriber to the view that it replaces, raised",
                self.name,
                extra={"event": "fill", "view": self.name},
            )

    def advance(self) -> bool:
        """Compute one piece; return whether there is more to do before the view can appear.

        Raises:
            InputError: a value cannot be computed.
        """
        with self._computing():
            if self.state != "filling":
                return False
            if (pieces := self._pieces) is not None:
                read_entries = self._next(pieces)
                if read_entries is None:
                    self._pieces = None
                else:
                    self._done = read_entries
            else:
                if self._waiting() <= FEW_CHANGES or self._rounds == MOST_ROUNDS:
                    return False
                self._rounds += 1
                self._catch_up()
        self._report()
        return True

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute in this thread inside the block: others, one of which may have the turn, wait for its end."""
        with self._stepping.lock, self._turn.helped(IN_A_FILL):
            self._computes_in = threading.get_ident()
            try:
                yield
            finally:
                self._computes_in = None

    def _waiting(self) -> int:
        """Return how many changes are not computed yet."""
        with self._noting.lock:
            return sum(len(delta) for deltas in self._changes.values() for delta in deltas)

    def _next(self, pieces: Iterator[int]) -> int | None:
        try:
            return next(pieces, None)
        except ArithmeticRefusedError:
            if self._most is None:
                raise
            # A sum that does not fit may fit with the rows of other pieces.
            self._most = None
            self._pieces = self.fill.pieces(sys.maxsize)
            return 0

    def complete(self) -> None:
        """Compute the rest, and let the view appear.

        The caller has the turn, so that no epoch runs in between.

        Raises:
            InputError, PlanError, CheckpointError: it failed; nothing of the view is there.
            SubscriberError: the view is there, and a callback raised.
        """
        try:
            while self.advance():
                pass
            if self.state == "filling":
                with self._computing():
                    self._catch_up()
                self.is_caught_up = True
                self._appear()
        except BaseException as error:
            self.is_caught_up = False
            if self.state == "filling":
                self.fail(error)
            raise
        finally:
            self._ended.set()  # After the subscribers of a view that is replaced.

    def _appear(self) -> None:
        """Let the view appear, and report that after its subscribers have the epoch, no matter what they or ``on_progress``
        raise."""
        try:
            self._adopt(self)
        finally:
            if self.state == "ready":
                self._report()

    def _catch_up(self) -> None:
        if changes := self._taken():
            self.fill.catch_up({identity: summed(deltas) for identity, deltas in changes.items()})

    def end(self, state: FillState) -> None:
        """Note that the view is ready, or is not needed any more."""
        self.state, self._pieces, self._changes = state, None, {}
        self.fill.end()
        _at_exit.discard(self)
        if state != "ready":
            self._ended.set()

    def stop(self, why: str | None = None) -> None:
        """End it before the view is ready, for a reason that those who read the view get.

        One that has failed stays so if there is no reason.
        """
        if self.state == "filling" or (self.state == "failed" and why is not None):
            self.error = None
            self.end("dropped")
            self.view._gone = None if why is None else f"view {self.name!r} {why}"

    def fail(self, error: BaseException) -> None:
        """Note why it failed."""
        self.error = error
        self.end("failed")

    def _report(self) -> None:
        if self._on_progress is None:
            return
        try:
            self._on_progress(self.progress)
        except Exception:
            LOG.exception(
                "view %r is being filled, and on_progress= raised",
                self.name,
                extra={"event": "fill", "view": self.name},
            )

    # For its readers

    @property
    def progress(self) -> FillProgress:
        """The progress of the fill."""
        total, left = max(self.fill.entries, self._done), None
        if self.state == "filling" and self._done:
            left = (time.monotonic() - self._begun) * (total - self._done) / self._done
        return FillProgress(self.name, self.state, self._done, total, left, self.error)

    def wait(self, timeout: float | None) -> None:
        """Wait until the view is ready. A caller that has the turn, such as a subscriber, computes the rest itself.

        Raises:
            NotFilledError: it failed, or was dropped; or it is not ready after ``timeout`` seconds; or the caller is a function
                that the fill itself calls.
        """
        if self.state == "filling" and threading.get_ident() in (self._runs_in, self._computes_in):
            raise NotFilledError(f"{self.progress!r}; a function that it calls cannot wait for it")
        if self.state == "filling" and self._turn.is_ours:
            self.complete()
        elif self._process != os.getpid():
            raise NotFilledError(
                f"{self.progress!r}, in process {self._process}, from which this one was forked; declare it here again"
            )
        else:
            self._ended.wait(timeout)
        if self.state != "ready":
            raise self.refusal()

    def refusal(self) -> NotFilledError:
        """Return the error for readers of the view before it is ready."""
        way_out = {
            "filling": "; wait for it with view.wait(), or look at view.filling for its progress",
            "failed": "; declare it again",
            "dropped": ", before it was ready; declare it again",
        }
        refused = NotFilledError(f"{self.progress!r}{way_out.get(self.state, '')}")
        refused.__cause__ = self.error
        return refused


class Fills(dict[str, Filling]):
    """The views of an engine that are being filled, by name, and those whose fill has failed."""

    def took(self, compiled: Compiled, deltas: Mapping[NodeId, Delta]) -> None:
        """Pass the output of an epoch to all fills."""
        for filling in self._pending():
            filling.took(compiled, deltas)

    def places_in(self, compiled: Compiled) -> frozenset[NodeId]:
        """Return the nodes of a circuit whose output the fills need."""
        return frozenset(place for each in self._pending() for place in each.places_in(compiled).values())

    def _pending(self) -> Iterator[Filling]:
        return (filling for filling in self.values() if filling.state == "filling")

    def require_kept(
        self, where: str, compiled: Compiled, moved: Container[str] = (), but: Container[str] = ()
    ) -> None:
        """Check that a circuit has all nodes that are read, under the same identities, ``but`` for these views.

        ``moved`` are identities that other nodes have now.

        Raises:
            PlanError: one is not there; names the view that is being filled from it.
        """
        for filling in self._pending():
            if filling.name in but or filling.is_caught_up:
                continue
            places = filling.places_in(compiled)
            labels = filling.fill.labels.items()
            missing = [label for identity, label in labels if identity not in places or identity in moved]
            if missing:
                raise PlanError(
                    f"{where}: view {filling.name!r} is being filled from it ({missing[0]}); wait until that is ready "
                    f"(engine.filling), or drop it first with engine.drop_view({filling.name!r})"
                )

    def complete_others(self, than: Filling) -> None:
        """Complete all fills but one, and those for which this is being done: they may read what that is about to replace.

        The caller has the turn.
        """
        for filling in list(self._pending()):
            if filling is not than and not filling.is_caught_up and filling.fill.labels:
                filling.complete()

    def stop(self, name: str, why: str | None = None) -> None:
        """End the fill of a view, if there is one; those who read the view from then on get the reason."""
        filling = self.pop(name, None)
        if filling is not None:
            filling.stop(why)

    def stop_all(self) -> None:
        """End all fills."""
        for name in list(self):
            self.stop(name)

    @property
    def progress(self) -> Mapping[str, FillProgress]:
        """The progress of all fills."""
        return {name: filling.progress for name, filling in list(self.items())}


_at_exit: WeakSet[Filling] = WeakSet()


def _stop_before_exit() -> None:
    """End all fills before the interpreter does, after the pieces that are being computed."""
    for filling in list(_at_exit):
        filling.end("dropped")
        with filling._stepping.lock:
            pass


atexit.register(_stop_before_exit)
