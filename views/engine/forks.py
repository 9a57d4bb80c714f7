"""Forks: engines in memory that start with the states of another one, or of a checkpoint, and are independent of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, listed

from ..checkpoint import Checkpoint
from ..dataframe.source import Source
from ..durability.forked_states import ForkedStates, committed_states, shared_states
from ..durability.redeclared import difference
from ..epochs.history import Retain
from ..epochs.records import require_epoch
from ..epochs.refused_rows import LEDGER_ROWS
from ..plan.forked_calls import note_forked
from ..plan.plan import Plan
from .epoch_runner import Running
from .published import Published
from .view import View
from .view_keeper import ViewKeeper


@dataclass(frozen=True, slots=True)
class Origin:
    """An engine that is forked, as its parts."""

    plan: Plan
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    running: Running
    retain: Retain


def fork(origin: Origin, engine: ViewKeeper, checkpoint: Checkpoint | None, epoch: int | None) -> Running:
    """Return what runs a fork, whose sources and views are entered into those of the ``engine``. The caller holds the turn.

    Raises:
        InputError: an epoch is being evaluated.
        CheckpointError, EpochGoneError: there is no such commit, or it is of another plan.
    """
    # The calls first: what other threads declare from here on stands on nodes that are not in the fork.
    calls = list(origin.plan.calls)
    plan, running = origin.plan.forked(), origin.running
    log = running.log.forked()
    if checkpoint is None:
        running.require_between_epochs()
        was = running.current()
        states = ForkedStates(shared_states(plan, was), running.epoch, running.positions, {}, None)
    else:
        states = committed_states(plan, checkpoint, epoch, LEDGER_ROWS)
        log.go_on(states.last or (0, 0, {}), states.rows, tuple)
    sources = {name: source.forked(plan) for name, source in origin.sources.items()}
    views = {name: view.forked(engine, plan, origin.retain) for name, view in origin.views.items()}
    plan.sources.update(sources)
    stand_ins = _StandIns(origin, engine, plan, sources, views)
    note_forked(plan.calls, calls, origin.plan, plan, stand_ins)
    for name, view in views.items():
        if checkpoint is None:
            view._history = origin.views[name]._history.forked()
        else:
            view._history.begin_fork(states.epoch)
    forked = Running(plan, sources, views, log, engine.turn)
    untouched = running.untouched if checkpoint is None else ()
    forked.begin_with(states.compiled, states.epoch, states.positions, untouched)
    return forked


class _StandIns:
    """The sources and views of a fork that replace those of its origin; dropped ones are missing in the fork too."""

    def __init__(
        self,
        origin: Origin,
        engine: ViewKeeper,
        plan: Plan,
        sources: Mapping[str, Source],
        views: Mapping[str, View],
    ) -> None:
        self._origin, self._engine, self._plan = origin, engine, plan
        self._sources, self._views = sources, views

    def __call__(self, value: object) -> Source | View | None:
        """Return the source or view of the fork; None if it is any other collection."""
        if isinstance(value, Source):
            is_declared = self._origin.sources.get(value.name) is value
            return self._sources[value.name] if is_declared else value.forked(self._plan)
        if isinstance(value, View):
            if self._origin.views.get(value.name) is value:
                return self._views[value.name]
            gone = value.forked(self._engine, self._plan, self._origin.retain)
            gone._gone = value._gone or f"view {value.name!r} is not in the fork"
            return gone
        return None


def compared(
    fork: Published, other: Published, views: Mapping[str, View], others: Mapping[str, View]
) -> dict[str, pl.DataFrame]:
    """Return, for each view of both that differs, the rows to add to and to take from the other one's to get the fork's.

    Raises:
        PlanError: views with one name have different columns; names them.
    """
    common = [name for name in views if name in others]
    reshaped = [
        name for name in common if list(views[name].schema.items()) != list(others[name].schema.items())
    ]
    if reshaped:
        raise PlanError(
            f"compare: view {listed(reshaped)} has other columns in the other engine; rename or drop it in the fork"
        )
    differences: dict[str, pl.DataFrame] = {}
    for name in common:
        ours, theirs = fork.views[name], other.views[name]
        if ours.shares_all(theirs):
            continue
        changed = difference(_counted(ours.rows()), _counted(theirs.rows())).consolidate()
        if len(changed):
            differences[name] = changed.frame.select(*views[name].columns, DIFF)
    return differences


def _counted(rows: pl.DataFrame) -> Delta:
    return Delta.of(rows, np.ones(rows.height, np.int64))


def checkpoint_of(running: Running, checkpoint: object, epoch: object) -> Checkpoint | None:
    """Return the checkpoint from which an engine is forked; None if it is forked as it is now.

    Raises:
        InputError: the epoch is none, or there is no checkpoint that has it.
    """
    if epoch is not None:
        require_epoch("fork", "epoch", epoch)
    if checkpoint is not None:
        return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)  # type: ignore[arg-type]
    if epoch is None or epoch == running.shown()[0]:
        return None
    if running.durability is None:
        raise InputError(
            f"fork: epoch={epoch}, but an engine without a checkpoint can be forked only as it is now; make it with "
            "Engine(checkpoint=PATH), or give the checkpoint that has the epoch: fork(checkpoint=PATH, epoch=...)"
        )
    return running.durability.checkpoint
