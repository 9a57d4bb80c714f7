"""The histogram put together from the changes that an engine emits. Standard library only.

An engine that retracts wrongly, or not at all, ends with a histogram that differs from the truth.
"""

from __future__ import annotations

from collections import Counter

from bench.reply import Histogram


class Changes:
    """The sum of all changes so far, and how many there were."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[int, int, int]] = Counter()
        self.count = 0

    def add(self, n: int, keys: int, total: int, diff: int) -> None:
        self.count += 1
        row = (int(n), int(keys), int(total))
        self.rows[row] += diff
        if not self.rows[row]:
            del self.rows[row]

    def histogram(self) -> Histogram:
        """The rows that stand. A row that does not stand exactly once is shown as often, and so as wrong."""
        return sorted(list(row) for row, diff in self.rows.items() for _ in range(abs(diff)))
