"""Reads beside the epochs: of what was published last, or of the states between two commits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import polars as pl

from ..compiler.builder import Compiled
from ..concurrency.giving_way import GivingWay
from ..concurrency.polars_threads import require_polars_threads
from ..concurrency.turns import Turn
from ..connectors.positions import Position
from ..epochs.records import require_epoch
from .published import Published
from .publisher import Publisher

Answer = TypeVar("Answer")

ATTEMPTS = 8
"""The number of attempts of a read that epochs may disturb, before it waits for its turn between two epochs."""


class EpochReads(ABC):
    """The reads of an engine's epochs by any thread, which need no turn unless epochs keep disturbing them."""

    def __init__(self, turn: Turn, publisher: Publisher) -> None:
        self.epoch = 0
        self.positions: dict[str, Position] = {}
        self.turn = turn
        """The lock of the writer."""
        self.giving_way = GivingWay()
        self._publisher = publisher
        self._compiled: Compiled | None = None
        self._is_declaring = False
        self._changes = 0
        """How often a change of states has begun or ended: odd while there is one."""

    @abstractmethod
    def current(self) -> Compiled:
        """Return the circuit of the plan declared so far."""

    @property
    @abstractmethod
    def _is_outdated(self) -> bool:
        """Return whether more was declared since the plan was compiled."""

    def published(self) -> Published:
        """Return what is published. The first call compiles the plan, or opens the checkpoint.

        Raises:
            CheckpointError: the checkpoint cannot be opened; nothing has changed.
        """
        published = self._publisher.last
        if published is None or (published.epoch == 0 and self._is_outdated):
            with self.turn:
                self.current()
                published = self._publisher.last
        assert published is not None, "what is compiled is published"
        return published

    @contextmanager
    def reading(self, view: str) -> Iterator[Published]:
        """Yield what is published, for a reader of this view inside of the block. A reader that polls gives way to epochs.

        A view that another thread declares is waited for.
        """
        with self.giving_way.reading(view):
            published = self.published()
            if view not in published.views:
                with self.turn:
                    published = self.published()
            yield published

    def shown(self) -> tuple[int, Mapping[str, Position]]:
        """Return the last epoch and the positions, without compiling or opening anything."""
        published = self._publisher.last
        return (self.epoch, self.positions) if published is None else (published.epoch, published.positions)

    def steadily(self, read: Callable[[Compiled], Answer]) -> Answer:
        """Return the result of a function that reads the states; if epochs keep disturbing it, it is called between two."""
        require_polars_threads()
        for _ in range(ATTEMPTS):
            begun, compiled = self._changes, self.published().compiled
            if begun % 2 == 0 and not self._is_declaring:
                try:
                    answer = read(compiled)
                except Exception:
                    # What is declared meanwhile is in the plan, and in no circuit yet.
                    is_steady = self._changes == begun and not self._is_declaring
                    if is_steady and compiled is self._compiled and not self._is_outdated:
                        raise
                    continue
                if self._changes == begun:
                    return answer
        with self.turn:
            return read(self.current())

    def contents(self, view: str, epoch: int | None) -> pl.DataFrame:
        """Return all rows of a view now, or after an epoch.

        Raises:
            EpochGoneError: the checkpoint has no commit of that epoch.
            InputError: it is no epoch, or still to come, or there is no checkpoint.
        """
        if epoch is not None:
            require_epoch(f"view {view!r}", "epoch", epoch)
        with self.reading(view) as now:
            if epoch is not None and epoch != now.epoch:
                require_polars_threads()
                return self._publisher.contents_then(now, view, epoch)
            return now.rows(view)
