"""Reports of views that are filled in one go: while a checkpoint is opened, or by a driver that runs them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..epochs.run_events import LOG
from .fills import FillProgress, OnProgress


class FillReports(dict[str, FillProgress]):
    """The progress of these views, by name.

    Other threads may read it meanwhile.

    ``callbacks`` are the functions that ``engine.view(..., on_progress=)`` has for views that were declared before there was
    anything to fill them from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: dict[str, OnProgress] = {}
        self._begun = 0.0

    def read(self, views: Sequence[str], read_entries: int, entries: int) -> None:
        """Note how many of the kept rows have been read; see ``OnRead``."""
        if not self:
            self._begun = time.monotonic()
        left = None
        if read_entries:
            left = (time.monotonic() - self._begun) * (entries - read_entries) / read_entries
        for view in views:
            self._report(FillProgress(view, "filling", read_entries, entries, left))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Report at the end of the block that the views are ready, or why they are not."""
        try:
            yield
        except BaseException as error:
            for view, last in list(self.items()):
                self._report(FillProgress(view, "failed", last.rows_done, last.rows_total, error=error))
            raise
        else:
            for view, last in list(self.items()):
                del self[view]  # A callback may read the view, which is no longer being filled.
                self._call(FillProgress(view, "ready", last.rows_total, last.rows_total))
        finally:
            self.clear()

    def _report(self, progress: FillProgress) -> None:
        self[progress.view] = progress
        self._call(progress)

    def _call(self, progress: FillProgress) -> None:
        if (callback := self.callbacks.get(progress.view)) is None:
            return
        try:
            callback(progress)
        except Exception:
            LOG.exception(
                "view %r is being filled, and on_progress= raised",
                progress.view,
                extra={"event": "fill", "view": progress.view},
            )
