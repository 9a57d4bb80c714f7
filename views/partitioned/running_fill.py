"""A view of a plan in buckets is filled while epochs go on: from commits, which never change, and what later ones have changed.

    rounds       the states are computed from the last commit, and then from what was committed meanwhile, until that is little
    appear       the change of the plan, between two epochs, computes the rest from the commit before it

Nothing here waits for an epoch, and no epoch for this. The states are in files that no commit names before the view appears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from evercurrent.core.data.delta import Delta

from .bucket_states import BucketStates, ComputedStates

MOST_ROUNDS, FEW_COMMITS = 8, 1
"""After this many rounds, or with at most this many commits left, the rest is computed in the turn in which the view
appears."""


class RunningFill:
    """Computes states of new views as of the last commit. One thread at a time calls its methods.

    ``prepare`` returns what is to be computed from the last commit on, after the states that are given to it; None if the plan has
    changed since. ``on_end`` is called once, when it is not needed any more.
    """

    inputs: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    """No node has to leave here what it emits: that is read from the commits."""

    def __init__(
        self,
        prepare: Callable[[ComputedStates | None], BucketStates | None],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._prepare, self._on_end = prepare, on_end
        self._first = prepare(None)
        self.entries: int = 0 if self._first is None else self._first.entries
        """How many entries are read, those that changed since included as far as they are known."""
        self.computed: ComputedStates | None = None
        self.is_needed: bool = True

    def pieces(self, most: int) -> Iterator[int]:
        """Compute the states, and yield after each piece how many entries were read so far. Called again, it begins anew.

        A piece is a bucket of a stage: ``most`` is for those who can choose.

        Raises:
            InputError: a value cannot be computed.
        """
        del most
        self.computed, read_before = None, 0
        for _ in range(MOST_ROUNDS):
            filling, self._first = self._first or self._prepare(self.computed), None
            if filling is None:
                return
            if self.computed is not None and filling.last.epoch <= self.computed.last.epoch + FEW_COMMITS:
                return
            self.entries = read_before + filling.entries
            for read_entries in filling.pieces():
                yield read_before + read_entries
            read_before, self.computed = self.entries, filling.computed()

    def catch_up(self, changes: Mapping[str, Delta]) -> NoReturn:
        """Raise: nodes leave nothing here."""
        raise AssertionError(f"changes of {list(changes)} are read from commits")

    def end(self) -> None:
        """Note that the states are not needed any more, or that a commit names them."""
        self.is_needed = False
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()
