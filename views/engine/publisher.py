"""The publisher makes what readers see of each epoch: it adds to histories and log, and replaces one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError

from ..compiler.builder import Compiled
from ..durability.durability import Durability
from ..epochs.history import Retained
from ..epochs.run_log import RunRecorder
from ..epochs.view_deltas import ViewDelta
from .published import Published, PublishedView
from .roles import EpochResult
from .view import View


class Publisher:
    """Publishes the contents of an engine's views: after each epoch, and when the circuit or its declarations change.

    ``last`` is what is published. While ``is_held``, as when a checkpoint is being opened, nothing is published.
    """

    def __init__(
        self, views: Mapping[str, View], recorder: RunRecorder, durability: Durability | None
    ) -> None:
        self.last: Published | None = None
        self.is_held = False
        self._views = views
        self._recorder = recorder
        self._durability = durability

    def publish(
        self,
        compiled: Compiled | None,
        epoch: int,
        positions: Mapping[str, Any],
        evaluated: EpochResult | None = None,
    ) -> None:
        """Publish the contents after an epoch.

        An epoch that was just committed is given as ``evaluated``: it is recorded, and only the views that it has touched are visited.
        """
        deltas: Mapping[str, ViewDelta] = {}
        if evaluated is not None:
            deltas = evaluated.epoch.deltas.unread
            if epoch:
                self._recorder.note(evaluated.epoch, evaluated.rows, evaluated.untimed)
            for name, delta in deltas.items():
                self._views[name]._history.append(delta)
        if compiled is None or self.is_held:
            return
        last = self.last
        is_same = last is not None and last.compiled is compiled
        views = {} if last is None or not is_same else dict(last.views)
        touched = self._views if evaluated is None or not is_same else evaluated.touched
        histories: dict[str, Retained] = {}
        for name in touched:
            if name in deltas or name not in views:
                histories[name] = self._views[name]._history.now()
            elif not (before := views[name]).is_current:
                views[name] = PublishedView.of(compiled.contents[name], before.history, before)
        for name, history in histories.items():
            views[name] = PublishedView.of(compiled.contents[name], history)
        if evaluated is None:
            watermarks: Mapping[str, int] = {name: clock.before for name, clock in compiled.clocks.items()}
        else:
            watermarks = evaluated.epoch.watermarks
        waiting = () if self._durability is None else self._durability.waiting
        refused = compiled.ledger.refused.present
        self.last = Published(
            compiled, epoch, positions, watermarks, views, refused, self._recorder.now(), waiting
        )

    def contents_then(self, now: Published, view: str, epoch: int) -> pl.DataFrame:
        """Return all rows of a view after an epoch before this one.

        Raises:
            EpochGoneError: the checkpoint has no commit of that epoch.
            InputError: the epoch is still to come, or there is no checkpoint.
        """
        if epoch > now.epoch:
            raise InputError(
                f"view {view!r}: epoch {epoch} is still to come, the engine is at epoch {now.epoch}"
            )
        if self._durability is None:
            raise InputError(
                f"view {view!r}: without a checkpoint only the present contents can be read, after epoch {now.epoch}; "
                "make the engine with Engine(checkpoint=PATH), or keep view.snapshot() where it will be needed"
            )
        return self._durability.past.contents(view, epoch, now.waiting)
