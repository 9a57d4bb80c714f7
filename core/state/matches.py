"""Where the entries of some keys are, found once for all that is read of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..columns.kernels import Index, Ints, Keys, gather, stack
from .run import Layout, Run


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The entries of some ascending, distinct keys in runs of one entry per key.

    ``parts`` are the runs that have some of them, each with the places of the keys that it has, and the positions of their entries.
    """

    size: int
    parts: list[tuple[Run, Index, Index]]

    @staticmethod
    def of(runs: Iterable[Run], keys: Keys) -> Matches:
        """Find the entries. Cost: a look-up of each key in each run."""
        parts = [(run, *run.match(keys)) for run in runs if run.size]
        return Matches(len(keys.first), [part for part in parts if len(part[1])])

    @property
    def entries(self) -> int:
        """The number of entries."""
        return sum([len(positions) for _, _, positions in self.parts])

    def totals(self) -> dict[str, Ints]:
        """Return the additive columns of the keys; zero where there is no entry."""
        totals: dict[str, Ints] = {}
        for run, hit, positions in self.parts:
            for name, column in run.sums.items():
                if len(hit) == self.size:
                    totals[name] = totals[name] + column[positions] if name in totals else column[positions]
                    continue
                if name not in totals:
                    totals[name] = np.zeros(self.size, np.int64)
                totals[name][hit] += column[positions]
        return totals

    def payload(self, layout: Layout, places: Index | None = None) -> pl.DataFrame:
        """Return the payload of the keys, or of those at these places. A key that has no entry gets nulls; of several, any will do."""
        run_of, position_of = np.full(self.size, -1), np.zeros(self.size, np.intp)
        for number, (_, hit, positions) in enumerate(self.parts):
            run_of[hit], position_of[hit] = number, positions
        if places is not None:
            run_of, position_of = run_of[places], position_of[places]
        size, owners, parts = len(run_of), [], []
        for number, (run, _, _) in enumerate(self.parts):
            if len(own := np.flatnonzero(run_of == number)):
                owners.append(own)
                parts.append(gather(run.payload, position_of[own]))
        if len(parts) == 1 and len(owners[0]) == size:
            return parts[0]
        without = np.flatnonzero(run_of < 0)
        if len(without) or not parts:
            nulls = pl.DataFrame([pl.Series(name, [None], dtype) for name, dtype in layout.payload.items()])
            owners.append(without)
            parts.append(gather(nulls, np.zeros(len(without), np.intp)))
        order = np.empty(size, np.intp)
        order[np.concatenate(owners)] = np.arange(size)
        return gather(stack(parts), order)
