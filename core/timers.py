"""Instants at which keys are to be looked at again: set once, handed out when they have come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .grouping import group
from .kernels import Index, Ints, Keys
from .levels import to_merge

NOTHING = Keys(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True)
class _Run:
    """Instants in ascending order, and the key of each."""

    instants: Ints
    keys: Keys

    def __len__(self) -> int:
        return len(self.instants)

    def between(self, start: int, end: int) -> _Run:
        """The entries from one position to another, by reference."""
        second = self.keys.second
        keys = Keys(self.keys.first[start:end], None if second is None else second[start:end])
        return _Run(self.instants[start:end], keys)


class Timers:
    """Keys by the instant at which they fall due.

    A timer is not taken back: whoever is handed a key looks whether there is still something to do. Setting
    and handing out are staged and become the state with the commit. Cost: the timers set and due, each taking
    part in a logarithmic number of merges; those that are not due are not looked at.
    """

    def __init__(self) -> None:
        self._committed: tuple[_Run, ...] = ()
        self._staged: tuple[_Run, ...] | None = None

    def set(self, instants: Ints, keys: Keys) -> None:
        """Make ready to hand out these keys when their instants have come."""
        if not len(instants):
            return
        order = np.argsort(instants, kind="stable")
        self._staged = _piled((*self._runs, _Run(instants[order], keys.take(order))))

    def due(self, until: int) -> Keys:
        """The keys whose instants are not after ``until``, ascending and each once; they are handed out only now."""
        ends = [int(np.searchsorted(run.instants, until, side="right")) for run in self._runs]
        if not any(ends):
            return NOTHING
        due = [run.between(0, end).keys for run, end in zip(self._runs, ends, strict=True) if end]
        left = [run.between(end, len(run)) for run, end in zip(self._runs, ends, strict=True)]
        self._staged = tuple(run for run in left if len(run))
        return group(Keys.concat(due)).keys

    def heads(self, before: int) -> list[tuple[Ints, Keys]]:
        """The timers that fall due before an instant, run by run, ascending in each; nothing is handed out."""
        ends = [int(np.searchsorted(run.instants, before)) for run in self._runs]
        heads = [run.between(0, end) for run, end in zip(self._runs, ends, strict=True) if end]
        return [(run.instants, run.keys) for run in heads]

    def commit(self) -> None:
        """Make what was staged the state."""
        if self._staged is not None:
            self._committed, self._staged = self._staged, None

    def discard(self) -> None:
        """Forget what was staged."""
        self._staged = None

    @property
    def entries(self) -> int:
        """How many timers are set."""
        return sum(map(len, self._committed))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(run.instants.nbytes + run.keys.nbytes for run in self._committed)

    @property
    def _runs(self) -> tuple[_Run, ...]:
        return self._committed if self._staged is None else self._staged


def _piled(runs: tuple[_Run, ...]) -> tuple[_Run, ...]:
    while (first := to_merge([len(run) for run in runs])) is not None:
        runs = (*runs[:first], _merged(runs[first:]))
    return runs


def _merged(runs: tuple[_Run, ...]) -> _Run:
    instants = np.concatenate([run.instants for run in runs])
    keys = Keys.concat([run.keys for run in runs])
    order: Index = np.argsort(instants, kind="stable")
    return _Run(instants[order], keys.take(order))
