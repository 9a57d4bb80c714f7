"""Timers: instants at which keys are visited again, set once and taken out when they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..data.columns.grouping import group
from ..data.columns.kernels import Index, Ints, Keys
from ..data.columns.sorting import SIGN, sorted_by
from .merge_policy import to_merge
from .partitioning import WORDS, Route
from .snapshot import INSTANT, KEY, SECOND, SPENT, Saved
from .staged import StagedValue

NOTHING = Keys(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Instants:
    """A piece: instants in ascending order, and the key of each."""

    instants: Ints
    keys: Keys


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """The remaining timers of a piece: all but its first ``spent``, which were taken out."""

    piece: Instants
    spent: int = 0

    def __len__(self) -> int:
        return len(self.piece.instants) - self.spent

    @property
    def instants(self) -> Ints:
        return self.piece.instants[self.spent :]

    def before(self, end: int) -> Keys:
        """Return the keys of the first timers that are left, by reference."""
        return self.piece.keys.cut(self.spent, self.spent + end)

    def after(self, end: int) -> _Run:
        """Return the run without its first timers; copied as soon as fewer are left than are spent."""
        spent = self.spent + end
        if not end or spent <= len(self.piece.instants) - spent:
            return _Run(self.piece, spent)
        left = Keys(*(word[spent:].copy() for word in self.piece.keys.words()))
        return _Run(Instants(self.piece.instants[spent:].copy(), left))


class Timers(StagedValue[tuple[_Run, ...]]):
    """Keys by the instant at which they are due.

    It is not a spine, which is sorted by key: due timers are a beginning of runs that are sorted by instant. A timer cannot be cancelled: the operator that gets a key checks whether there is still something to do. Setting
    timers and taking them out are staged and become the state with the commit. Cost: the timers set and due, each taking
    part in a logarithmic number of merges; timers that are not due are not visited.
    """

    def __init__(self, route: Route | None = WORDS) -> None:
        super().__init__((), route)

    def set(self, instants: Ints, keys: Keys) -> None:
        """Stage timers for these keys at these instants."""
        if not len(instants):
            return
        order = _ascending(instants)
        self._staged = _piled((*self._latest, _Run(Instants(instants[order], keys.take(order)))))

    def due(self, until: int) -> Keys:
        """Return the keys whose instants are not after ``until``, ascending and each once; each timer is returned once."""
        ends = [int(np.searchsorted(run.instants, until, side="right")) for run in self._latest]
        if not any(ends):
            return NOTHING
        due = [run.before(end) for run, end in zip(self._latest, ends, strict=True) if end]
        left = [run.after(end) for run, end in zip(self._latest, ends, strict=True) if end < len(run)]
        self._staged = tuple(left)
        return group(Keys.concat(due)).keys

    def heads(self, before: int) -> list[tuple[Ints, Keys]]:
        """Return the timers that are due before an instant, run by run, ascending in each; they remain set."""
        ends = [int(np.searchsorted(run.instants, before)) for run in self._latest]
        return [
            (run.instants[:end], run.before(end)) for run, end in zip(self._latest, ends, strict=True) if end
        ]

    @property
    def first(self) -> int | None:
        """Return the earliest instant of a timer, as of the last commit."""
        return min((int(run.instants[0]) for run in self._committed), default=None)

    def is_due(self, until: int) -> bool:
        """Return whether a timer is for this instant or an earlier one, as of the last commit."""
        first = self.first
        return first is not None and first <= until

    @property
    def entries(self) -> int:
        """Return the number of timers."""
        return sum(map(len, self._committed))

    @property
    def nbytes(self) -> int:
        """Return bytes held."""
        return sum(run.piece.instants.nbytes + run.piece.keys.nbytes for run in self._committed)

    # Saving and restoring

    def saved(self) -> Saved:
        """See ``State``."""
        runs = self._latest
        return Saved(tuple(run.piece for run in runs), {SPENT: [run.spent for run in runs]})

    def restore(self, saved: Saved) -> None:
        """See ``State``."""
        spent: Sequence[int] = saved.facts.get(SPENT) or [0] * len(saved.pieces)
        self._committed = tuple(map(_Run, saved.pieces, spent))
        self._staged = None

    def columns_of(self, piece: Instants) -> pl.DataFrame:
        """See ``State``."""
        words = dict(zip((KEY, SECOND), piece.keys.words(), strict=False))
        return pl.DataFrame({INSTANT: piece.instants, **words})

    def piece_of(self, columns: pl.DataFrame) -> Instants:
        """See ``State``."""
        words = [columns.get_column(name).to_numpy() for name in (KEY, SECOND) if name in columns.columns]
        return Instants(columns.get_column(INSTANT).to_numpy(), Keys(*words))


def _piled(runs: tuple[_Run, ...]) -> tuple[_Run, ...]:
    while (first := to_merge([len(run) for run in runs])) is not None:
        runs = (*runs[:first], _merged(runs[first:]))
    return runs


def _merged(runs: tuple[_Run, ...]) -> _Run:
    instants = np.concatenate([run.instants for run in runs])
    keys = Keys.concat([run.before(len(run)) for run in runs])
    order = _ascending(instants)
    return _Run(Instants(instants[order], keys.take(order)))


def _ascending(instants: Ints) -> Index:
    """Return the order of instants, equal ones as they are. Cost: a sort of packed words, half of that of positions."""
    return sorted_by([instants.view(np.uint64) ^ SIGN])
