"""Rows that do not fit their source are set apart from those that do, with the reason for the ledger.

The reasons are kept in checkpoints, so their texts never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from evercurrent.core.data.clock import Epoch
from evercurrent.core.data.columns.kernels import Mask
from evercurrent.core.data.columns.lossless import LossyValueError, exactly, may_hold
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.halving import bad_places
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.ledger import Refused

from ..connectors.pushed_frames import PushedFrame, pushed_frame
from ..connectors.text_bytes import require_utf8
from ..connectors.unfit_rows import odd_rows_apart, unfit, unfit_rows_apart
from .accepted_rows import DIFF_LIMIT, delta_of
from .source import Source

OnBadRows = Literal["fail", "ledger"]
"""What a row does that does not fit, or with which a view cannot be computed: it fails its epoch, or goes to the ledger."""

Apart = tuple[Delta, tuple[Refused, ...]]
"""The rows that fit, and the others, as refused in an epoch without a number."""


def require_on_bad_rows(on_bad_rows: object) -> None:
    """Check the argument of this name.

    Raises:
        PlanError: it is something else.
    """
    if not isinstance(on_bad_rows, str) or on_bad_rows not in ("fail", "ledger"):
        raise PlanError(f"on_bad_rows={on_bad_rows!r}; give 'fail' or 'ledger'")


def accepted_apart(source: Source, data: Any) -> Apart:
    """Return the rows of a pushed frame that fit the source, as ``accepted`` does, and the others.

    Cost: that of ``accepted`` where all rows fit.

    Raises:
        InputError: it is not a question of single rows: a column is missing, not declared, or of a type that holds no value of
            the declared one.
    """
    where, schema = f"source {source.name!r}", source.read_as
    data = list(data) if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__") else data
    refused: list[Refused] = []
    try:
        pushed = pushed_frame(where, schema, data)
    except InputError:
        apart = unfit_rows_apart(where, schema, data)
        if apart is None:
            raise
        good, others = apart
        refused += [_refused(source, reason, frame) for reason, frame in others.items()]
        pushed = pushed_frame(where, schema, good)
    if source.format is not None:
        decoded = source.decoded(pushed)
        refused += [Refused(Epoch(0), source.name, reason, messages) for reason, messages in decoded.refused]
        pushed = PushedFrame(decoded.rows, "polars", {})
    try:
        return delta_of(source, pushed), tuple(refused)
    except InputError:
        good, odd = odd_rows_apart(schema, data)
        if odd:
            delta, others_refused = accepted_apart(source, good)
            return delta, (
                *(_refused(source, reason, frame) for reason, frame in odd.items()),
                *others_refused,
            )
        if not _may_fit(source, pushed):
            raise
    delta, others_refused = _apart(source, pushed)
    return delta, (*refused, *others_refused)


def _may_fit(source: Source, pushed: PushedFrame) -> bool:
    """Return whether it is a question of single rows whether the frame fits.

    Raises:
        InputError: no row of such a frame does.
    """
    delta_of(source, replace(pushed, frame=pushed.frame.clear()))
    columns = [column for column in pushed.frame.get_columns() if column.name in source.schema]
    return all(
        column.null_count() == len(column) or may_hold(source.schema[column.name], column.dtype)
        for column in columns
    )


def _apart(source: Source, pushed: PushedFrame) -> Apart:
    frame = pushed.frame
    remaining = np.ones(frame.height, np.bool_)
    refused = []
    for reason, bad in _faults(source, frame):
        bad &= remaining
        if bad.any():
            refused.append(_refused(source, reason, frame.filter(pl.Series(bad))))
            remaining &= ~bad
    return delta_of(source, replace(pushed, frame=frame.filter(pl.Series(remaining)))), tuple(refused)


def _refused(source: Source, reason: str, rows: pl.DataFrame) -> Refused:
    """Return rows as refused, with diffs."""
    diffs = rows.get_column(DIFF) if DIFF in rows.columns else pl.Series(DIFF, np.ones(rows.height, np.int64))
    if diffs.dtype != pl.Int64:
        diffs = diffs.cast(pl.Int64, strict=False)
    columns = [column for column in rows.get_columns() if column.name != DIFF]
    return Refused(Epoch(0), source.name, reason, pl.DataFrame([*columns, diffs]))


def _faults(source: Source, frame: pl.DataFrame) -> Iterator[tuple[str, Mask]]:
    """Yield, for each thing that may be wrong with a row, the reason and the rows of which it holds."""
    if DIFF in frame.columns:
        diffs = frame.get_column(DIFF)
        yield f"{DIFF} is null; give the row +1 or -1, and push it again", diffs.is_null().to_numpy().copy()
        whole = diffs.cast(pl.Int64, strict=False).fill_null(DIFF_LIMIT).to_numpy()
        odd = (whole >= DIFF_LIMIT) | (whole <= -DIFF_LIMIT)
        if source.kind == "upsert":
            odd = np.abs(whole) != 1
        yield f"{DIFF} is not one that the source takes; give +1 or -1, and push the row again", odd
    for name in source.key:
        nulls = frame.get_column(name).is_null().to_numpy().copy()
        yield f"primary key {name!r} is null; give the row its key, and push it again", nulls
    for name in source.sequence_by:
        column = frame.get_column(name)
        bad = column.is_null()
        if column.dtype.is_float():
            bad |= column.is_nan().fill_null(True)
        yield (
            f"sequence {name!r} is null or NaN; give the row its sequence, and push it again",
            bad.to_numpy().copy(),
        )
    for name, dtype in source.schema.items():
        if name in frame.columns:
            places = bad_places(frame.height, _fits(frame.get_column(name), dtype))
            is_bad = np.zeros(frame.height, np.bool_)
            is_bad[places] = True
            yield unfit(name), is_bad


def _fits(column: pl.Series, dtype: pl.DataType) -> Callable[[int, int], bool]:
    """Return whether the values of a part of the column are values of the type."""

    def fits(start: int, end: int) -> bool:
        part = column[start:end]
        try:
            require_utf8("", part.to_frame())
            exactly(part, dtype)
        except (LossyValueError, InputError):
            return False
        return True

    return fits
