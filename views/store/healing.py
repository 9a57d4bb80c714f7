"""The files of a folder are restored from its journal after the process that wrote it has ended in any way."""

import os
from collections import Counter
from contextlib import closing, suppress

import pyarrow as pa

from evercurrent.core.data.errors import CorruptFileError, MissingFileError

from .acknowledged_file import NO_ENDS, AcknowledgedFile, read_journal_ends
from .journal import WITHOUT_JOURNAL, Entry, entries_of
from .protocol import ACKNOWLEDGED, JOURNALS, checked
from .refusals import refusing
from .syncing import sync_folder, sync_together
from .unfinished import create, unfinished_in, write_all


def heal(folder: str) -> None:
    """Restore the files from the journal, and remove it. It can be repeated wherever it was interrupted.

    After the death of a process the files are complete and are only synced; after a power failure those that are missing,
    cut off or different are written again.

    Raises:
        CorruptFileError, MissingFileError: a journal lacks acknowledged entries; names it.
        OSError: a file could not be written; the journal is as it was.
    """
    journals = [path for path in (f"{folder}/{name}" for name in JOURNALS) if os.path.exists(path)]
    if not journals:
        return
    entries = sorted(journal_entries(folder), key=lambda entry: entry.at)
    # The last entry of a name counts.
    files = {name: content for entry in entries for name, content in entry.files.items()}
    paths = {f"{folder}/{checked(name, folder)}": content for name, content in files.items()}
    for path, content in paths.items():
        with refusing(folder, path.removeprefix(f"{folder}/"), "written again"):
            if content is None:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            elif not _is(path, content):
                _write(path, content)
    sync_together(paths)
    with refusing(folder, ACKNOWLEDGED, "written"), closing(AcknowledgedFile(folder)) as acknowledged:
        acknowledged.forget_journals()
    for path in journals:
        os.unlink(path)
    sync_folder(folder)


def journal_entries(folder: str) -> list[Entry]:
    """Return the entries of both journal files of a folder, all acknowledged ones included.

    Raises:
        CorruptFileError, MissingFileError: acknowledged entries are not there; names the file.
        OSError: a file cannot be read.
    """
    paths = [f"{folder}/{name}" for name in JOURNALS]
    if not any(map(os.path.lexists, paths)):
        return []
    with refusing(folder, ACKNOWLEDGED, "read"):
        ends = read_journal_ends(folder) or NO_ENDS
    entries: list[Entry] = []
    for path in paths:
        with refusing(folder, os.path.basename(path), "read"):
            entries += entries_of(path)
    entry_counts = Counter(entry.token for entry in entries)
    for path, (token, count) in zip(paths, ends, strict=True):
        if entry_counts[token] < count:
            if not os.path.lexists(path):
                raise MissingFileError(
                    f"{path} is missing, and the other journal file is there; {WITHOUT_JOURNAL}"
                )
            raise CorruptFileError(
                f"{path} is damaged: of {count} entries that were acknowledged {entry_counts[token]} are as they were written; "
                f"{WITHOUT_JOURNAL}"
            )
    return entries


def _is(path: str, content: memoryview) -> bool:
    """Return whether this is what the file holds."""
    try:
        if os.path.getsize(path) != len(content):
            return False
        with pa.OSFile(path) as file:
            return bool(file.read_buffer().equals(pa.py_buffer(content)))
    except FileNotFoundError:
        return False


def _write(path: str, content: memoryview) -> None:
    """Write a file in place of the one that is there."""
    unfinished = unfinished_in(os.path.dirname(path))
    descriptor = create(unfinished)
    try:
        write_all(descriptor, [content])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
