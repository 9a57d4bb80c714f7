"""Acknowledged epochs are in a commit, or their input is in the log; otherwise a file is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError

from ..store import Acknowledged, LogGapError, Store
from ..store.protocol import ACKNOWLEDGED, INPUTS
from .commits import Commit, JsonObject
from .records import BEFORE_CRC, record_name

LENGTH = 8
"""The bytes of the number with which an entry of the log of inputs begins: the size of its facts."""


def require_acknowledged(store: Store, acknowledged: Acknowledged | None, last: int | None) -> None:
    """Check that the last commit, of epoch ``last``, is not before the last acknowledged one.

    Raises:
        MissingFileError: it is; names the lost record.
    """
    if acknowledged is not None and (last is None or last < acknowledged.committed):
        there = "there is no commit" if last is None else f"the last commit that is there is of epoch {last}"
        raise MissingFileError(
            f"{store.url}: {record_name(acknowledged.first)} is missing: epoch {acknowledged.committed} was committed and acknowledged, and "
            f"{there}; restore it from a copy of the checkpoint. After a power failure, open the checkpoint with its "
            "application, which restores it. To go on without it (as with a copy that was made while somebody wrote), move "
            "writer.acknowledged away"
        )


def lost_oldest(acknowledged: Acknowledged | None, first: int) -> str:
    """Return which of the oldest records are missing before the one that begins with this epoch; "" if none are."""
    if acknowledged is None or acknowledged.oldest is None or acknowledged.oldest >= first:
        return ""
    return f"{record_name(acknowledged.oldest)} and all others before {record_name(first)} are missing"


def head_of(entry: memoryview) -> tuple[JsonObject, int]:
    """Return the facts with which an entry of the log of inputs begins, and where they end."""
    end = LENGTH + int.from_bytes(entry[:LENGTH], "little")
    head: JsonObject = json.loads(bytes(entry[LENGTH:end]))
    return head, end


def pending_inputs(store: Store, last: int | None, crc: str | None = None) -> Sequence[memoryview]:
    """Return the input of all acknowledged epochs after the last commit, of epoch ``last``, whose record has this checksum.

    If another process has made a later commit by now, there is no input after this one.

    Raises:
        MissingFileError, CorruptFileError: some are lost, or came after another commit of this epoch; names the file.
    """
    epoch = -1 if last is None else last
    try:
        entries = store.inputs_after(epoch)
        if entries and crc is not None:
            _require_after(store, head_of(entries[0])[0], epoch, crc)
        return entries
    except CheckpointError as error:
        if _is_there(store, record_name(epoch + 1)):
            return ()
        if not isinstance(error, LogGapError):
            raise
        gap = error
        raise MissingFileError(
            f"{store.url}: {record_name(epoch + 1)} is missing: there is input of epoch {gap.first}, so epoch "
            f"{gap.first - 1} was committed; restore it from a copy of the checkpoint"
        ) from gap


def _require_after(store: Store, head: JsonObject, epoch: int, crc: str) -> None:
    """Check that the input of an entry came after the commit whose record has this checksum; earlier versions do not note that."""
    if head.get(BEFORE_CRC, crc) != crc:
        raise CorruptFileError(
            f"{store.url}: {INPUTS} has the input of epoch {epoch + 1} after another record of epoch {epoch} than the one that is there: "
            "the folder has files of two histories, as when a copy is written over another one without deleting its files; restore "
            f"one copy of the checkpoint into an empty folder. To go on from epoch {epoch}, move {INPUTS} and {ACKNOWLEDGED} away"
        )


def _is_there(store: Store, name: str) -> bool:
    try:
        store.read(name)
    except CheckpointError:
        return False
    return True


def require_committed(store: Store, last: Commit | None, crc: str | None) -> None:
    """Check that there is no epoch after the last commit, with this checksum of its record, of which only the input is on disk.

    Raises:
        CheckpointError: there are such epochs, as their process was killed; the message has the remedy.
    """
    count = len(pending_inputs(store, None if last is None else last.epoch, crc))
    if count:
        raise CheckpointError(
            f"{store.url}: {count} epochs after epoch {last.epoch if last else 0} were finished and not committed, because their "
            "process was killed; their input is on disk. Open the checkpoint with its application first (evercurrent run "
            f"APP --checkpoint {store.url}, or an engine with the same views, read once and closed): that commits them"
        )
