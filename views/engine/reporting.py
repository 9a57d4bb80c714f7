"""The reports of an engine: refused rows, the plan with its measures, figures, and an event for each epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Literal

import polars as pl

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.tags import tagged

from ..compiler.builder import Compiled
from ..dataframe.source import Source
from ..epochs.refused_rows import ledger_frame, source_ledger_frame
from ..epochs.run_events import WATCH_IN_TASK, Watch, Watcher
from ..epochs.subscriptions import require_plain_function
from ..inspection.circuit_drawing import circuit_mermaid, circuit_text
from ..inspection.explain import explain_mermaid, explain_text
from ..inspection.stats import stats_of
from .fills import FillProgress
from .served_views import ServedViews


class Reporting(ServedViews, ABC):
    """The methods of an engine that report what it holds and does."""

    @abstractmethod
    def _source(self, name: str) -> Source:
        """Return a source by its name."""

    @property
    def filling(self) -> dict[str, FillProgress]:
        """The progress of the views that are being filled and cannot be read yet, by name.

        These are the ones declared with ``background=True``, and those that are new to a checkpoint that is being opened.
        """
        return {**self._running.fills.progress, **self._running.reports}

    @tagged("views.engine:Engine.ledger")
    def ledger(self, source: str | None = None, *, each_window: bool = False) -> pl.DataFrame:
        """Return every refused row and why: of all sources with the row as JSON, or of one source with its own columns.

        The frame of one source can be corrected and pushed again, without ``_epoch`` and ``reason`` (``_reason``, if the
        source has its own column ``reason``) and, into a source of kind "append", without ``_diff``. It has the rows that
        still have all columns of the source; rows that were changed, joined or grouped before they were too late are only
        in the frame of all sources. A row that was too late for two views is in it twice, and counts in views without
        lateness. A row that missed some of its windows and counts in the others is also only in the frame of all sources,
        once for each window that it missed, which ``reason`` names: pushed again, it would count twice in the others. One
        that missed all of its windows is there once, with the last of them, or with ``each_window`` once for each.
        """
        refused = self.published().refused
        if source is None:
            return ledger_frame(refused, each_window=each_window)
        return source_ledger_frame(refused, source, self._source(source).schema, each_window=each_window)

    @tagged("views.engine:Engine.explain")
    def explain(self, format: Literal["text", "mermaid"] = "text", *, circuit: bool = False) -> str:
        """Return the plan with rows, bytes and time of every node, as text or as a Mermaid flowchart.

        With ``circuit`` the circuit that the plan was compiled to: every operator that runs, in its stage, with its inputs,
        the operators whose state it reads, the columns by which its rows are brought together, and its measures. All of it
        is of one epoch; where epochs follow each other faster than this can be written, it waits for the end of one.
        """
        if not isinstance(format, str) or format not in ("text", "mermaid"):
            raise PlanError(f"unknown format {format!r}; there are 'text' and 'mermaid'")
        if format == "text":
            return self._running.steadily(self._circuit_explained if circuit else self._explained)
        drawn = circuit_mermaid if circuit else partial(explain_mermaid, self._plan)
        return self._running.steadily(drawn)

    def _circuit_explained(self, compiled: Compiled) -> str:
        return circuit_text(compiled, self._running.epoch)

    def _explained(self, compiled: Compiled) -> str:
        durability = self._running.durability
        residence = None if durability is None else durability.residence
        text = explain_text(self._plan, compiled, self._running.epoch, self._last_instant(), residence)
        return "\n".join([text, *map(repr, self.filling.values())])

    @tagged("views.engine:Engine.stats")
    def stats(self) -> dict[str, Any]:
        """Return the figures of ``explain`` as a dictionary, for dashboards: cheap enough to be read each second.

        Its keys are ``epoch``, ``processing_time``, ``sources`` and ``views`` by name, ``nodes`` of the plan, ``ledger``,
        ``checkpoint``, ``sinks`` by view and name, and ``filling``, the views that are being filled. ``rows_out``, ``seconds`` and
        ``epochs``, in which rows came out, count from the start of the process; ``entries`` and ``bytes`` are those of states
        now; the ``files`` and ``bytes`` of ``checkpoint`` are those of the states in its last commit.
        A view has the figures of the node that computes it: those that compute the same share them, and the rows with which a
        view is filled, when it is declared or replaced later, are not among them; ``watch`` and the log have these.
        ``ec.prometheus_text`` writes them for Prometheus.

        >>> import evercurrent as ec
        >>> engine = ec.Engine()
        >>> hits = engine.view("hits", engine.source("log", {"ip": pl.String}).group_by("ip").len())
        >>> engine.push("log", {"ip": ["a", "b", "a"]})
        1
        >>> engine.stats()["views"]["hits"]["entries"]
        2
        """
        return self._running.steadily(self._figures)

    def _figures(self, compiled: Compiled) -> dict[str, Any]:
        durability, last = self._running.durability, self._last_instant()
        checkpoint = None if durability is None else durability.figures()
        sinks = {f"{each.view_name}/{each.name}": each.figures() for each in self._deliveries()}
        figures = stats_of(
            self._plan, compiled, self._running.epoch, last, self._running.positions, checkpoint, sinks
        )
        filling = {name: progress.as_dict() for name, progress in self.filling.items()}
        return {**figures, "filling": filling}

    @tagged("views.engine:Engine.watch")
    def watch(self, watcher: Watcher) -> Watch:
        """Call a function with an ``EpochEvent`` after each epoch, before its subscribers: for metrics and traces.

        That includes the epochs in which views are added, replaced or dropped, which have no rows that were pushed.

        It is called by the thread that pushes, and cannot push. If it raises, that is an event of the log and changes nothing.

        Returns:
            The watch: ``close()``, or the end of a ``with`` block, ends the calls.

        Raises:
            PlanError: it is not a function, or one whose coroutines would never be awaited.
            CheckpointError: the engine is closed, so that no epochs will come.
        """
        if not callable(watcher):
            raise PlanError(f"watch: {watcher!r} cannot be called; give a function of one EpochEvent")
        require_plain_function("watch", watcher, WATCH_IN_TASK)
        if self._running.durability is not None:
            self._running.durability.require_not_closed()
        return self._running.events.add(watcher)
