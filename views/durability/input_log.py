"""The log of the input of epochs that are done and not committed yet, so that a crash cannot lose them.

An epoch's deltas follow from the states before it and its input alone. So an epoch is durable as soon as its input is:
opening the checkpoint after a crash evaluates it again. The input is written while the epoch is evaluated, which hides most
of the wait, and one commit then serves many epochs.

An entry: the length of a JSON text, the text, an Arrow stream for each source that has rows in the epoch, and one for all rows
that were refused of a source for one reason.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import polars as pl

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.state.ledger import Refused

from ..checkpoint.pending import LENGTH, head_of
from ..checkpoint.records import BEFORE_CRC
from ..epochs.records import EpochInput, Logged
from ..store import Store
from ..store.protocol import Log

MOST_BYTES = 1 << 20
"""An epoch with more input than this is committed at once, as its states are not much larger."""

FULL = 8 << 20
"""Bytes in the log after which all of its epochs are committed."""


def logged(entry: memoryview) -> Logged:
    """Return the epoch of an entry of the log."""
    head, at = head_of(entry)
    refuses_rows = bool(head.get("refuses_rows"))
    epoch_input = EpochInput(
        watermarks=head["watermarks"], positions=head["positions"], refuses_rows=refuses_rows
    )
    for source, size, is_consolidated in head["sources"]:
        frame = pl.read_ipc_stream(bytes(entry[at : at + size]))
        epoch_input.deltas[source] = [Delta(frame, is_consolidated)]
        at += size
    for source, reason, size in head.get("refused", ()):
        frame = pl.read_ipc_stream(bytes(entry[at : at + size]))
        epoch_input.refused.append(Refused(Epoch(head["epoch"]), source, reason, frame))
        at += size
    return Logged(head["epoch"], head["instant"], epoch_input, head["heard"])


def entered_log(store: Store, stack: ExitStack) -> InputLog | None:
    """Return the log of a store, which is closed with the stack; None if the store has none."""
    log = store.input_log()
    return None if log is None else InputLog(stack.enter_context(log))


class InputLog:
    """Writes the entries that ``logged`` reads, epoch by epoch; ``restart`` empties it when all epochs are committed."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def begin(
        self,
        now: Now,
        epoch_input: EpochInput,
        arrived: Mapping[str, Delta],
        delivered: Mapping[str, int],
        before_crc: str | None,
        *,
        patience: int = 1,
    ) -> bool:
        """Begin to write the input of an epoch, for which ``wait`` waits; return False if it should be committed instead.

        So is one for which the log is ``FULL``, ``patience`` times. ``before_crc`` is the checksum of the last commit's record.
        """
        if not self._log.is_ours:
            return False
        frames = [*(delta.frame for delta in arrived.values()), *(each.frame for each in epoch_input.refused)]
        nbytes = sum(frame.estimated_size() for frame in frames)
        if epoch_input.fires or nbytes > MOST_BYTES or self._log.size > patience * FULL:
            return False
        try:
            streams = [_as_stream(delta.frame) for delta in arrived.values()]
            refused_streams = [_as_stream(refused.frame) for refused in epoch_input.refused]
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return False  # A type that Arrow does not have.
        sources = [
            (source, len(stream), delta.is_consolidated)
            for (source, delta), stream in zip(arrived.items(), streams, strict=True)
        ]
        head: dict[str, Any] = {
            "epoch": now.epoch, "instant": now.instant, "watermarks": epoch_input.watermarks, "positions": epoch_input.positions,
            "heard": dict(delivered), "sources": sources, BEFORE_CRC: before_crc,
        }  # fmt: skip
        if epoch_input.refuses_rows:
            head["refuses_rows"] = True
            head["refused"] = [
                (refused.source, refused.reason, len(stream))
                for refused, stream in zip(epoch_input.refused, refused_streams, strict=True)
            ]
        text = json.dumps(head).encode()
        self._log.begin(now.epoch, [len(text).to_bytes(LENGTH, "little"), text, *streams, *refused_streams])
        return True

    def wait(self) -> None:
        """Return when the input is on the disk.

        Raises:
            OSError: it is unknown whether it is.
            CheckpointError: it is where no reopening would find it.
        """
        self._log.wait()

    def take_back(self) -> None:
        """Remove the input of an epoch that was discarded, so that it is not evaluated again.

        Raises:
            OSError: the removal failed, so the entry may still be on disk.
        """
        self._log.take_back()

    def restart(self) -> None:
        """Empty the log when all epochs are committed."""
        self._log.restart()

    def remove(self) -> None:
        """Remove the log when all epochs are committed and this engine writes no more."""
        self._log.remove()


def _as_stream(frame: pl.DataFrame) -> memoryview:
    stream = io.BytesIO()
    # Views of text would carry along all the text from which a few rows were cut.
    frame.write_ipc_stream(stream, compat_level=pl.CompatLevel.oldest())
    return stream.getbuffer()
