"""The marker file makes a folder a checkpoint, and has its format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS, OURS, KeyHash
from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError, NameTakenError
from evercurrent.core.data.schema import listed

from ..store import LocalStore, Store
from .commits import JsonObject, versions
from .piece_files import unlike
from .record_files import FORMAT, encoded, is_intact

MARKER = "checkpoint.json"

COMMITS, PIECES, DELTAS, EXCHANGE = "commits/", "pieces/", "deltas/", "exchange/"
"""The prefixes of the names of all other files of a checkpoint."""

PROBES = "probes/"
"""The prefix of files by which driver and executors check, before the first commit, that they share the store."""


def put_marker(store: Store) -> None:
    """Write the marker of a checkpoint, with the hash of its keys, if it is not there."""
    try:
        store.put(
            MARKER, [encoded({"evercurrent": versions()["evercurrent"], "hash": OURS.mark}, OURS.format)]
        )
    except NameTakenError:
        is_checkpoint(store)


def is_checkpoint(store: Store) -> bool:
    """Return whether there is a checkpoint; if not, there is room for a new one.

    Raises:
        CheckpointError: the place is used for something else, or by a newer version.
        CorruptFileError, MissingFileError: it was a checkpoint, and is damaged.
    """
    try:
        data = store.read(MARKER).to_pybytes()
    except MissingFileError:
        # There may be a whole disk below a folder that is no checkpoint.
        names = store.list_top() if isinstance(store, LocalStore) else [each.name for each in store.list()]
        if not any(name == MARKER or name.startswith(COMMITS) for name in names):
            _require_room(store, names)
            _require_apart(store)
            return False
        data = _marker_beside_commits(store)
    _body(f"{store.url}: {MARKER}", data)
    return True


def key_hash_of(store: Store) -> KeyHash:
    """Return the hash of a checkpoint's keys, from its first commit to its last; for a new checkpoint the current one.

    Raises:
        CheckpointError: this process cannot compute the hash; or the store holds no checkpoint, or a newer one.
        CorruptFileError: it is damaged.
    """
    try:
        data = store.read(MARKER).to_pybytes()
    except MissingFileError:
        return OURS
    where = f"{store.url}: {MARKER}"
    form, body = _body(where, data)
    key_hash, mark = (OF_POLARS, FIRST_MARK) if form == 1 else (OURS, str(body.get("hash")))
    if key_hash.mark != mark:
        raise CheckpointError(unlike(where, mark, key_hash))
    return key_hash


def _marker_beside_commits(store: Store) -> bytes:
    """Return the marker of a place with commits, where there was none a moment ago: another process may have begun the checkpoint since."""
    try:
        return store.read(MARKER).to_pybytes()
    except MissingFileError:
        raise MissingFileError(
            f"{store.url}: {MARKER} is missing, and there are commits; restore it from a copy of the checkpoint"
        ) from None


def _require_room(store: Store, names: Sequence[str]) -> None:
    others = [name for name in names if not name.startswith((PIECES, DELTAS, EXCHANGE, PROBES))]
    if others:
        shown = listed(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise CheckpointError(
            f"{store.url}: the folder is neither empty nor a checkpoint: it holds {shown}; give the folder of a checkpoint, or a new one"
        )


def _require_apart(store: Store) -> None:
    """Check that the place of a new checkpoint on this machine is not inside another one, which deletes files that are not its own."""
    if "://" in store.url:
        return
    path = Path(store.url)
    parents = (*path.parents, *path.resolve().parents)  # A link may lead into one.
    around = next((folder for folder in parents if (folder / MARKER).is_file()), None)
    if around is not None:
        raise CheckpointError(
            f"{store.url}: the folder is inside the checkpoint {around}; give one elsewhere"
        )


def _body(where: str, data: bytes) -> tuple[int, JsonObject]:
    """Return the format and the body of a marker."""
    try:
        marker = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"{where} is not JSON: it is damaged, or was written by another program; restore it from a copy of the checkpoint, or give "
            "a new folder"
        ) from error
    if not isinstance(marker, dict) or "format" not in marker or "body" not in marker:
        raise CheckpointError(f"{where} was written by another program; give a new folder")
    if not is_intact(data):
        raise CorruptFileError(
            f"{where} is not what was written: its checksum differs; restore it from a copy"
        )
    if not isinstance(marker["body"], dict) or "evercurrent" not in marker["body"]:
        raise CorruptFileError(
            f"{where} is not what was written: another file of a checkpoint is in its place; restore it from a copy"
        )
    if not 1 <= marker["format"] <= FORMAT:
        raise CheckpointError(
            f"{where} has format {marker['format']}, and this version of evercurrent reads formats up to {FORMAT}: "
            f"it was written by evercurrent {marker['body'].get('evercurrent')}; open it with that version or a newer one"
        )
    return marker["format"], marker["body"]
