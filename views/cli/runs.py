"""A run: chunks of input become epochs, deltas are written to files, the screen is updated."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial

import polars as pl

from evercurrent.core.data.clock import END_OF_TIME
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import listed

from ..connectors.delta_files import DeltaFile
from ..connectors.positions import Position
from .applications import Application
from .drivers import Driver, Following
from .feeds import Chunk, Feed
from .guards import Stop
from .input_places import InputPlaces
from .reloading import Reloading
from .screens import Screen, Shown, Tally

TICK_SECONDS = 1.0
"""The seconds between epochs in which only processing time moves, while there is nothing to read."""


class Run:
    """Pushes the chunks of a feed, one epoch each, until the feed ends or ``stop`` is set.

    No epoch is interrupted: ``stop`` is checked between epochs.
    """

    def __init__(
        self,
        application: Application,
        driver: Driver,
        feed: Feed,
        screen: Screen,
        shown: Shown,
        files: Mapping[str, DeltaFile],
        stop: Stop,
        *,
        reloading: Reloading | None = None,
    ) -> None:
        self.tally = Tally()
        self._application = application
        self._driver = driver
        self._feed = feed
        self._screen = screen
        self._shown = shown
        self._files = files
        self._stop = stop
        self._deltas: dict[str, pl.DataFrame] = {}
        """The deltas of the newest epoch."""
        self._at: datetime | None = None
        """The recorded processing time of the newest epoch."""
        self._start = 0.0
        self._idle_since: float | None = None
        self._ticked_at = 0.0
        self._timed = [name for name, source in self._driver.sources.items() if source.event_time is not None]
        self._places = InputPlaces({})
        self.notes: list[str] = []
        self._reloading = reloading
        self._subscribed: set[str] = set()

    def go(self) -> None:
        """Run to the end.

        Raises:
            InputError: a chunk was refused, or a file can no longer be read, or has fewer rows than were taken from it before.
                Earlier epochs are kept.
        """
        with ExitStack() as open_now:
            open_now.callback(self._screen.close)
            self._resume()
            for name, file in self._files.items():
                self._write_earlier(name, file)
            self._subscribe(open_now)
            self._start = time.monotonic()
            for chunk in self._feed.chunks():
                if chunk is None:
                    self._places.require_all_taken()
                    self._wait()
                elif not chunk.is_end:
                    self._epoch(chunk)
                elif self._driver.is_durable:
                    self._places.pass_over(chunk)
                for sentence in self._feed.news():
                    self._screen.note(sentence)
                if self._stop.is_requested:
                    return
                if self._reloading is not None:
                    self._take_up(self._reloading, open_now)
            if not self._stop.is_requested:
                self._places.require_all_taken()
                self._end()

    def _subscribe(self, open_now: ExitStack) -> None:
        """Subscribe to the views whose deltas are needed, as far as it was not done."""
        for name in self._followed_views() - self._subscribed:
            keep = partial(self._deltas.__setitem__, name)
            if self._reloading is None:
                subscription: Following = self._driver.views[name].subscribe(keep)
            else:
                view = self._application.engine.views[name]
                subscription = view.subscribe(keep, on_schema=lambda change: None)
            open_now.callback(subscription.close)
            self._subscribed.add(name)

    def _take_up(self, reloading: Reloading, open_now: ExitStack) -> None:
        """Take up the file of the application, if it was saved, and show what that has changed."""
        self._deltas.clear()
        schemas = {name: self._application.engine.views[name].schema for name in self._files}
        needed = self._subscribed & {self._shown.name, *self._files}
        application, sentence = reloading.taken(needed, schemas, self._feed.sources)
        if not sentence:
            return
        self._screen.note(sentence)
        self.notes.append(sentence)
        if application is not None:
            self._application = application
            self._timed = [
                name for name, source in self._driver.sources.items() if source.event_time is not None
            ]
            self._subscribe(open_now)
            self._report_if_changed()

    def _resume(self) -> None:
        """Go on where an earlier run has ended, if the engine has a checkpoint."""
        epoch, positions = self._driver.epoch_number, self._driver.positions
        if not positions:
            return
        self._places = InputPlaces(positions)
        self.tally.epoch = self.tally.resumed_at = epoch
        if ended := [name for name in self._timed if self._driver.watermarks[name] == END_OF_TIME]:
            self.notes.append(
                f"an earlier run has read {listed(ended)} to the end, where windows emitted their last panes, so rows that "
                "come now are late for them (with --follow a run leaves windows open)"
            )

    def _wait(self) -> None:
        """Run an epoch that advances processing time while there is nothing to read, as triggers may wait for it."""
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if self._timed and now - self._ticked_at >= TICK_SECONDS:
            self._ticked_at = now
            self._deltas.clear()
            self._driver.tick()
            self._report_if_changed()
        self._screen.idle(self.tally)

    def _write_earlier(self, name: str, file: DeltaFile) -> None:
        """Write the earlier deltas of a view: of the application's own pushes, of epoch 0, and of earlier runs."""
        view = self._driver.views[name]
        since = view.earliest
        if since >= 0:
            self.notes.append(
                f"{file.path}: begins after epoch {since}; what came before is no longer retained"
            )
        for delta in view.deltas(since):
            file.write(delta)

    def _followed_views(self) -> set[str]:
        """Return the views whose deltas are shown, written or remarked on."""
        if self._application.remarks is not None:
            return set(self._driver.views)
        return {self._shown.name, *self._files}

    def _epoch(self, chunk: Chunk) -> None:
        if self._idle_since is not None:  # Waiting does not count as working time.
            self._start += time.monotonic() - self._idle_since
            self._idle_since = None
        position, new = self._new_rows(chunk)
        if new is None:
            self._at = chunk.at
            return
        self._deltas.clear()
        try:
            where = {} if position is None else {"position": position}
            self._driver.push(new.source, new.frame, at=new.at, **where)
        except InputError as error:
            raise InputError(f"{new.where}: {error}") from error
        self._count(new)
        self._report()

    def _new_rows(self, chunk: Chunk) -> tuple[Position | None, Chunk | None]:
        """Return the position of a chunk's end, and the rows that no earlier run has taken; None if there are none."""
        if not self._driver.is_durable:
            return None, chunk
        rows = chunk.frame.height
        position, rows_taken = self._places.pass_over(chunk)
        if not rows_taken:
            return (position if rows else None), chunk
        self.tally.skipped += rows_taken
        return position, replace(chunk, frame=chunk.frame[rows_taken:]) if rows_taken < rows else None

    def _end(self) -> None:
        """Move all watermarks to the end of time after the last row, so that all windows emit their last panes."""
        waiting = [name for name in self._timed if self._driver.watermarks[name] != END_OF_TIME]
        if not waiting:
            return
        self._deltas.clear()
        with self._driver.epoch(at=self._at):
            for name in waiting:
                self._driver.advance(name, END_OF_TIME)
        self.tally.seconds = time.monotonic() - self._start
        self._report_if_changed()

    def _report_if_changed(self) -> None:
        """Report an epoch without rows, if it changed anything."""
        if self._deltas:
            self.tally.epoch = self._driver.epoch_number
            self._report()

    def _report(self) -> None:
        """Report the newest epoch: its deltas to files, its changes to the screen."""
        for name, file in self._files.items():
            if name in self._deltas:
                file.write(self._deltas[name])
        self._screen.epoch(self.tally, self._deltas.get(self._shown.name), self._remarks)

    def _remarks(self) -> Sequence[str]:
        """Return the application's remarks on the newest epoch."""
        remarks = self._application.remarks
        return [] if remarks is None else list(remarks(self._deltas))

    def _count(self, chunk: Chunk) -> None:
        self._at = chunk.at
        tally, rows = self.tally, chunk.frame.height
        tally.epochs += 1
        tally.epoch = self._driver.epoch_number
        tally.rows += rows
        tally.rows_of[chunk.source] = tally.rows_of.get(chunk.source, 0) + rows
        tally.seconds = time.monotonic() - self._start
        tally.share = self._feed.share
        column = self._driver.sources[chunk.source].event_time
        if column is not None and column in chunk.frame:
            tally.see(chunk.frame[column])
