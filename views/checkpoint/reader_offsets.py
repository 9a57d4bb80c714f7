"""The offsets of readers after the last commit are kept in a small file beside it, written when an engine is closed.

A commit has the offsets of readers when its epoch was made. They receive the epoch itself after the commit, and without
this note they would receive it again after every restart.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

from evercurrent.core.data.errors import CorruptFileError

from ..store import Store
from ..store.repeated_puts import put_own
from . import new_writer

FOLDER = "readers/"


def write_note(store: Store, epoch: int, offsets: Mapping[str, int]) -> None:
    """Write the offsets of readers after the commit of this epoch, in place of earlier notes.

    Raises:
        CheckpointError: the store fails.
    """
    earlier = [listed.name for listed in store.list(FOLDER)]
    text = json.dumps(dict(offsets), sort_keys=True)
    note = json.dumps({"readers": text, "crc": zlib.crc32(text.encode())})
    # The latest note has the greatest name.
    put_own(store, f"{FOLDER}{epoch:012d}-{len(earlier):06d}-{new_writer()}.json", [note.encode()])
    store.delete_all(earlier)


def read_note(store: Store, epoch: int) -> dict[str, int] | None:
    """Return the offsets of readers when the engine was closed after this epoch; None if it continued or was not closed.

    Raises:
        CorruptFileError: the note is damaged; names it.
    """
    notes = store.list(f"{FOLDER}{epoch:012d}-")
    if not notes:
        return None
    name = notes[-1].name
    try:
        note = json.loads(bytes(store.read(name)))
        text = note["readers"]
        if zlib.crc32(text.encode()) != note["crc"]:
            raise ValueError("its checksum does not fit")
        offsets: dict[str, int] = json.loads(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            f"{store.url}: {name} is damaged ({error}); delete it: named subscriptions then receive the last epoch again"
        ) from error
    return offsets
