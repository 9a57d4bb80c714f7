"""All that can be seen of an engine, as bytes: two engines that have come to the same place show the same."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import polars as pl

import evercurrent as ec
from driven import value_bytes


def frame_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as an Arrow stream."""
    stream = io.BytesIO()
    frame.rechunk().write_ipc_stream(stream)
    return stream.getvalue()


def deltas_of(engine: ec.Engine, since: int | None = None) -> dict[str, list[bytes]]:
    """The deltas of every view: those in memory and those mapped from files have the same values, and other buffers of lists."""
    return {name: [value_bytes(delta) for delta in view.deltas(since)] for name, view in engine.views.items()}


def held(engine: ec.Engine) -> dict[str, bytes]:
    """The contents of every view."""
    return {name: value_bytes(view.read()) for name, view in engine.views.items()}


def why(view: Any) -> str:
    """Why its windows wait, or why that has no answer."""
    try:
        return str(view.why())
    except ec.InputError as error:
        return str(error)


def state(engine: ec.Engine) -> dict[str, Any]:
    """Everything but the deltas of long ago."""
    return {
        "epoch": engine.epoch_number,
        "held": held(engine),
        "ledger": engine.ledger().rows(),
        "watermarks": engine.watermarks,
        "view watermarks": {name: view.watermark for name, view in engine.views.items()},
        "why": {name: why(view) for name, view in engine.views.items()},
        "epochs": engine.run_log.epochs().rows(),
        "marks": frame_bytes(engine.run_log.watermarks()),
    }


def all_of(engine: ec.Engine) -> dict[str, Any]:
    """Everything."""
    return {**state(engine), "deltas": deltas_of(engine)}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The parts in which two engines differ; empty if they show the same."""
    return [part for part in one if one[part] != other[part]]


def delta_epochs(frames: Iterable[pl.DataFrame]) -> list[int]:
    """The epochs of deltas, in order."""
    return [int(frame["_epoch"][0]) for frame in frames]
