"""Requests to a query and records of its micro-batches are JSON files of the checkpoint, so that reading them runs no code."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evercurrent.core.data.columns.plain_values import NotPlainError, decoded, encoded
from evercurrent.core.data.errors import CheckpointError, CheckpointWarning, CorruptFileError, InputError
from evercurrent.core.state.ledger import Ledger
from evercurrent.views.checkpoint.begun import next_batch
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.epochs.refused_rows import LEDGER_ROWS
from evercurrent.views.inspection.questions import WindowQueries
from evercurrent.views.partitioned.tasks import FireRequest
from evercurrent.views.plan.plan import Plan

T = TypeVar("T")

FORMAT = 1
"""The format of these files."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The record of a micro-batch: its processing time in microseconds, and the requested windows that fire.

    ``requests`` are the files of the requests. ``epoch`` is what the micro-batch was to become; None where an earlier version has
    written the record.
    """

    at: int
    fires: tuple[FireRequest, ...]
    requests: tuple[str, ...]
    epoch: int | None = None


def fire_as_bytes(fire: FireRequest) -> bytes:
    """Return a request that windows fire, as bytes.

    Raises:
        InputError: its key or window is not a plain value.
    """
    return _as_bytes({"fire": _as_json(fire)})


def fire_from(where: str, data: bytes) -> FireRequest:
    """Return the request of these bytes; ``where`` names it in messages.

    Raises:
        CorruptFileError: it is not a request.
    """
    return _read(where, data, lambda record: _fire(record["fire"]))


def attempt_as_bytes(attempt: Attempt) -> bytes:
    """Return the record of a micro-batch as bytes."""
    fires = [_as_json(fire) for fire in attempt.fires]
    return _as_bytes(
        {"at": attempt.at, "fires": fires, "asked": list(attempt.requests), "epoch": attempt.epoch}
    )


def attempt_from(where: str, data: bytes) -> Attempt:
    """Return the record of these bytes; ``where`` names it in messages.

    Raises:
        CorruptFileError: it is not a record.
    """

    def made(record: Mapping[str, Any]) -> Attempt:
        epoch = record.get("epoch")
        return Attempt(
            int(record["at"]),
            tuple(map(_fire, record["fires"])),
            tuple(map(str, record["asked"])),
            None if epoch is None else int(epoch),
        )

    return _read(where, data, made)


def _as_json(fire: FireRequest) -> dict[str, str]:
    try:
        return {
            "view": fire.view,
            "key": encoded(fire.key).decode(),
            "window": encoded(fire.window).decode(),
        }
    except NotPlainError as error:
        raise InputError(
            f"view {fire.view!r}: key {fire.key!r} or window {fire.window!r} is or holds {error.found}; give values "
            "of the types that the columns have"
        ) from error


def _fire(record: Mapping[str, str]) -> FireRequest:
    return FireRequest(
        str(record["view"]), decoded(record["key"].encode()), decoded(record["window"].encode())
    )


def _as_bytes(record: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **record}).encode()


def _read(where: str, data: bytes, from_record: Callable[[Any], T]) -> T:
    try:
        record = json.loads(data)
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}")
        return from_record(record)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        complaint = (
            "is a pickle, as earlier versions wrote, which is not loaded" if data[:1] == b"\x80" else ""
        )
        raise CorruptFileError(
            f"{where} {complaint or f'is not a record of this version ({type(error).__name__}: {error})'}"
        ) from error


def require_next(last: int | None, batch: int) -> bool:
    """Return whether a batch has to be run: not if it was committed already.

    Raises:
        CheckpointError: batches are missing between the last committed one and this one.
    """
    if last is not None and batch <= last:
        return False
    if batch != next_batch(last):
        raise CheckpointError(
            f"micro-batch {batch} comes after {'nothing' if last is None else last} in the checkpoint: the batches between "
            "were never committed here. Spark's own checkpoint and this one belong together: start with both, or with neither"
        )
    return True


def require_fitting(plan: Plan, fire: FireRequest) -> None:
    """Check that windows of a plan can fire by a request.

    It is checked without open windows, as a request that cannot be met would make every micro-batch fail.

    Raises:
        InputError: the view has no windows that wait, or the key does not fit.
    """
    WindowQueries(plan, compile_plan(plan, Ledger(LEDGER_ROWS)), fire.view).windows(fire.key, fire.window)


def fires_of(plan: Plan, fires: Sequence[FireRequest]) -> list[FireRequest]:
    """Return the requests that fit a plan: a view that was to fire may have been dropped or replaced since.

    A warning names each view that was replaced.
    """
    fitting = []
    for fire in fires:
        if fire.view not in plan.views:
            continue
        try:
            require_fitting(plan, fire)
        except InputError as error:
            warnings.warn(
                f"nothing fires in view {fire.view!r}, which was replaced after query.fire(...): {error}",
                CheckpointWarning,
                stacklevel=2,
            )
        else:
            fitting.append(fire)
    return fitting
