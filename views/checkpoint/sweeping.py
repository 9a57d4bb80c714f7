"""Files that no commit names are deleted by sweeps."""

from __future__ import annotations

import time
from collections.abc import Set
from dataclasses import dataclass

from ..store import Store
from .marker import DELTAS, EXCHANGE, PIECES, PROBES


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of a sweep: the numbers of deleted commits and of files no longer named, and their bytes."""

    commits: int
    files: int
    bytes: int


UNCOMMITTED_SECONDS = 600.0
"""Where other writers may be at work, files stay so long at least: their next commits may name them."""


def least_age(store: Store, grace: float) -> float:
    """Return the seconds after which a file that no commit names is deleted, of at least ``grace``."""
    return grace if store.excludes_writers else max(grace, UNCOMMITTED_SECONDS)


def sweep_files(store: Store, named: Set[str], grace: float, commits: int) -> Swept:
    """Delete files of pieces, deltas, exchanges and probes that are not named and of the ``least_age``."""
    latest = time.time() - least_age(store, grace)
    unneeded = [
        each
        for folder in (PIECES, DELTAS, EXCHANGE, PROBES)
        for each in store.list(folder)
        if each.name not in named and each.modified <= latest
    ]
    if unneeded:
        store.delete_all([each.name for each in unneeded])
    return Swept(commits, len(unneeded), sum(each.size for each in unneeded))
