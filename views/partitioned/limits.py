"""The limits on the work in the driver process, and on the results that it gets from tasks."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20

DRIVER_BYTES = 64 * MEBIBYTE
"""The bytes that a stage may have to run in the driver process, unless other limits are given."""


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """The limits of work in the driver process: a stage runs there if neither its rows nor their bytes exceed them.

    ``rows`` is the limit where two tasks run at the same time. A stage in tasks costs a job, some 0.15 s, and saves all but
    one of as many parts as there are tasks: so with many tasks half as many rows are worth a job.

    >>> [DriverLimits(200_000, 1 << 26).rows_beside(tasks) for tasks in (1, 2, 4, 64)]
    [200000, 200000, 133333, 101587]
    """

    rows: int
    bytes: int

    def rows_beside(self, tasks: int) -> int:
        """Return how many rows are run in the driver process where so many tasks could run at the same time."""
        return self.rows if tasks < 2 or self.rows < 0 else self.rows * tasks // (2 * (tasks - 1))

    def allow(self, rows: int, size: int, tasks: int) -> bool:
        """Return whether a stage with so many rows and bytes runs in the driver process."""
        return rows <= self.rows_beside(tasks) and size <= self.bytes


TASK_BYTES = 8 * MEBIBYTE
"""The most bytes that a task of a job passes on in memory, in all its chunks and parts together."""


def passed_on(tasks: int) -> int:
    """Return how many bytes each of the tasks of a job may pass on in memory, so that the driver can hold those of all.

    >>> passed_on(2) // MEBIBYTE, passed_on(64) // MEBIBYTE, passed_on(4_096)
    (8, 1, 16384)
    """
    return min(TASK_BYTES, DRIVER_BYTES // max(1, tasks))


@dataclass(frozen=True, slots=True)
class InlineLimits:
    """The limits of what a task passes on in memory; what exceeds one of them is written to files.

    All that tasks return passes through the driver, so the limit is in bytes, too: 50,000 rows of any width may be gigabytes.
    """

    rows: int
    bytes: int = 4 * MEBIBYTE

    def allow(self, rows: int, size: int) -> bool:
        """Return whether so many rows with so many bytes are passed on in memory."""
        return rows <= self.rows and size <= self.bytes
