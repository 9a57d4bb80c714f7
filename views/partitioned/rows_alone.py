"""The first stage of an epoch without the rows that make it fail even when they are evaluated alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch
from evercurrent.core.data.columns.kernels import gather
from evercurrent.core.data.errors import InputError
from evercurrent.core.data.halving import bad_places
from evercurrent.core.state.ledger import Refused

from ..epochs.refusing import NOT_COMPUTED, is_of_rows
from .stage_runner import StageRunner
from .tasks import Instant, TaskResult

Arrived = Mapping[str, pl.DataFrame]
"""Rows with diffs by source."""


def arrived_apart(
    runner: StageRunner, instant: Instant, place: int, arrived: Arrived, refused: Sequence[Refused] = ()
) -> TaskResult:
    """Return the result of the first stage over the rows with which it does not fail; the others are refused there.

    ``refused`` are rows that did not fit their source.

    Raises:
        InputError: it fails without rows.
    """
    try:
        return runner.arrive(instant, place, arrived, refused)
    except InputError as error:
        if not is_of_rows(error):
            raise
    good, alone = rows_apart(runner, instant, arrived)
    return runner.arrive(instant, place, good, [*refused, *alone])


def rows_apart(
    runner: StageRunner, instant: Instant, arrived: Arrived
) -> tuple[dict[str, pl.DataFrame], list[Refused]]:
    """Return the rows with which the first stage does not fail, and the others."""
    good: dict[str, pl.DataFrame] = {}
    refused: list[Refused] = []
    for name, frame in arrived.items():

        def is_fine(start: int, end: int, name: str = name, frame: pl.DataFrame = frame) -> bool:
            try:
                runner.try_first_stage(instant, {name: frame[start:end]})
            except InputError as error:
                if not is_of_rows(error):
                    raise
                return False
            return True

        places = bad_places(frame.height, is_fine) if frame.height else []
        good[name] = frame
        if places:
            is_good = np.ones(frame.height, np.bool_)
            is_good[places] = False
            good[name] = gather(frame, np.flatnonzero(is_good))
            refused.append(Refused(Epoch(0), name, NOT_COMPUTED, gather(frame, np.array(places))))
    return good, refused
