"""The publisher makes what readers see of each epoch: it adds to histories and log, and replaces one object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from evercurrent.core.data.clock import Now
from evercurrent.core.data.errors import InputError

from ..compiler.builder import Compiled
from ..durability.durability import Durability
from ..epochs.history import Retained
from ..epochs.run_log import RunRecorder
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

    def publish_epoch(
        self, compiled: Compiled | None, now: Now, positions: Mapping[str, Any], evaluated: EpochResult
    ) -> None:
        """Record a committed epoch, and publish it. Only the views that it has touched are visited."""
        epoch = evaluated.epoch
        retained = {
            name: self._views[name]._history.append(delta) for name, delta in epoch.deltas.unread.items()
        }
        if now.epoch:
            self._recorder.note(
                now.epoch, now.processing_time, epoch.watermarks, evaluated.rows, evaluated.untimed
            )
        if compiled is None or self.is_held:
            return
        last = self.last
        touched = evaluated.touched if last is not None and last.compiled is compiled else self._views
        self._publish(compiled, now.epoch, positions, epoch.watermarks, touched, retained)

    def publish(self, compiled: Compiled, epoch: int, positions: Mapping[str, Any]) -> None:
        """Publish the contents as of the last epoch."""
        if self.is_held:
            return
        watermarks = {name: clock.before for name, clock in compiled.clocks.items()}
        self._publish(compiled, epoch, positions, watermarks, self._views, {})

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

    def _publish(
        self,
        compiled: Compiled,
        epoch: int,
        positions: Mapping[str, Any],
        watermarks: Mapping[str, int],
        touched: Iterable[str],
        retained: Mapping[str, Retained],
    ) -> None:
        """Replace what is published: the views that are ``touched``, with the deltas that are retained if these are others now."""
        last = self.last
        views = {} if last is None or last.compiled is not compiled else dict(last.views)
        for name in touched:
            before = views.get(name)
            if before is None or name in retained:
                history = retained.get(name) or self._views[name]._history.now()
                views[name] = PublishedView.of(compiled.contents[name], history)
            elif not before.is_current:
                views[name] = PublishedView.of(compiled.contents[name], before.history, before)
        waiting = () if self._durability is None else self._durability.waiting
        refused = compiled.ledger.refused.present
        self.last = Published(
            compiled, epoch, positions, watermarks, views, refused, self._recorder.now(), waiting
        )
