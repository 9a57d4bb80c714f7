"""A local store keeps files in a folder of this machine."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from evercurrent.core.data.errors import CheckpointError, CorruptFileError, MissingFileError

from .acknowledged import Acknowledged
from .acknowledged_file import AcknowledgedFile, read_acknowledged
from .append_log import AppendLog, entries_after
from .healing import heal, journal_entries
from .journal import FULL, Journal
from .locks import writer_lock
from .protocol import (
    ACKNOWLEDGED,
    INPUTS,
    LOCK,
    OWN,
    Abandoned,
    Buffer,
    FileBytes,
    Item,
    Listed,
    checked,
    checked_prefix,
    is_own,
    size_of,
)
from .refusals import gone, missing, not_noted, refusal, refusing, taken
from .syncing import all_at_once, make_folders, sync_folder
from .unfinished import UNFINISHED, Unfinished

STALE = 3600.0
"""Seconds after which an untouched unfinished file is taken to be of a process that is gone."""

AT_ONCE = 64
"""How many files are open at a time."""

MAPPED = 1 << 14
"""Files from this many bytes on are mapped; reading a smaller one costs less."""

JOURNALED = 1 << 20
"""Files from this many bytes on are not written to the journal first, as that would write them twice."""


class LocalStore:
    """A store in a folder, which is created with the first file.

    A file is written under a name that starts with a dot, synced, linked to its own name (no link is made over a
    name that is there), and its folder synced: two waits for the disk, which several files share. Durable means
    what ``fsync`` means on the system. Unfinished files of a killed process are removed by a later ``lock``.

    The holder of the lock commits through a journal: all files of a commit are one write to it and one wait. The files
    themselves are there when ``commit`` returns, for all to read, and are synced later, in the background. After a
    power failure the next ``lock`` restores them all; until then readers may find the last ones missing.

    Raises:
        CheckpointError: the path exists and is not a folder.
    """

    excludes_writers = True

    def __init__(self, folder: str | Path) -> None:
        self.url: str = os.path.abspath(folder)
        self._journal: Journal | None = None
        self._acknowledged: AcknowledgedFile | None = None
        """The journal, while this store has the lock."""
        if os.path.lexists(self.url) and not os.path.isdir(self.url):
            raise CheckpointError(f"{self.url}: is not a folder; a checkpoint needs one of its own")

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_journal": None, "_acknowledged": None}

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        """See ``Store.put``."""
        self.put_all([(name, data)])

    def put_all(self, items: Sequence[Item]) -> None:
        """See ``Store.put_all``."""
        taken_names: list[str] = []
        if self._own_journal() is not None:
            self._require_folder()
        for start in range(0, len(items), AT_ONCE):
            taken_names += self._put_some(items[start : start + AT_ONCE])
        if taken_names:
            raise taken(self.url, taken_names)

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        """See ``Store.put_ahead``: large files are written, and all if there is no journal."""
        small = [item for item in items if size_of(item[1]) < JOURNALED]
        if self._own_journal() is None or sum(size_of(data) for _, data in small) > FULL // 2:
            small = []
        self.put_all(items if not small else [item for item in items if size_of(item[1]) >= JOURNALED])
        return small

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        """See ``Store.commit``: one wait for the disk if this store has the lock, during which the files are written."""
        journal = self._own_journal()
        if journal is None:
            self.put_all(items)
            self.put(name, data)
            return
        self._require_folder()
        files = [
            Unfinished(each, self._path(each), content, journal.spares.take())
            for each, content in (*items, (name, data))
        ]
        with refusing(self.url, name, "written", sum(file.size for file in files)), journal.guard:
            self._commit(journal, files, [*items, (name, data)])

    def read(self, name: str) -> FileBytes:
        """See ``Store.read``. Mapped, unless it is small: pages come from the file when they are touched."""
        path = self._path(name)
        self._own_journal()
        with refusing(self.url, name, "read"):
            try:
                return _content_of(path)
            except (FileNotFoundError, NotADirectoryError):
                raise missing(self.url, name) from None

    def list(self, prefix: str = "") -> list[Listed]:
        """See ``Store.list``. Costs the files below the folder that the prefix names."""
        folder, slash, _ = checked_prefix(prefix, self.url).rpartition("/")
        with refusing(self.url, prefix, "listed"):
            files = _below(f"{self.url}/{folder}", folder + slash)
            return sorted(
                (each for each in files if each.name.startswith(prefix)), key=lambda each: each.name
            )

    def list_top(self) -> Sequence[str]:
        """Return the names of the files at the top, and those of the folders there that hold a file somewhere, with a slash.

        Cost: that of the top and of empty folders; of a folder only the first file is looked for.
        """
        with refusing(self.url, "", "listed"):
            try:
                entries = os.scandir(self.url)
            except (FileNotFoundError, NotADirectoryError):
                return []
            with entries:
                names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries]
            return sorted(name for name in names if not is_own(name) and self._holds_any(name))

    def _holds_any(self, name: str) -> bool:
        """Return whether this is a file, or a folder that holds one, or one that cannot be looked into."""
        try:
            return not name.endswith("/") or next(_below(f"{self.url}/{name}", name), None) is not None
        except OSError:
            return True

    def delete(self, name: str) -> None:
        """See ``Store.delete``."""
        self.delete_all([name])

    def delete_all(self, names: Sequence[str]) -> None:
        """See ``Store.delete_all``: one wait for the disk per folder, or one in all with a journal."""
        paths = [self._path(name) for name in names]
        is_noted = self._note_deleted(names)
        for path, name in zip(paths, names, strict=True):
            with refusing(self.url, name, "deleted"), suppress(FileNotFoundError):
                os.unlink(path)
        if is_noted:
            return
        for folder in {os.path.dirname(path) for path in paths}:
            with refusing(self.url, _shown(names), "deleted"), suppress(FileNotFoundError):
                sync_folder(folder)

    def input_log(self) -> AppendLog | None:
        """See ``Store.input_log``."""
        if self._own_journal() is None:
            return None
        with refusing(self.url, INPUTS, "opened"):
            return AppendLog(f"{self.url}/{INPUTS}", self._acknowledged)

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        """See ``Store.inputs_after``. Costs the log."""
        note = self.acknowledged()
        with refusing(self.url, INPUTS, "read"):
            return entries_after(f"{self.url}/{INPUTS}", epoch, note)

    def acknowledge(self, first: int, epoch: int) -> None:
        """See ``Store.acknowledge``."""
        try:
            if self._own_journal() is not None and self._acknowledged is not None:
                self._acknowledged.committed(first, epoch)
                return
            with closing(AcknowledgedFile(self.url)) as acknowledged:
                acknowledged.committed(first, epoch)
        except OSError as error:
            not_noted(self.url, error)

    def retain_from(self, oldest: int) -> None:
        """See ``Store.retain_from``."""
        with refusing(self.url, ACKNOWLEDGED, "written"):
            if self._own_journal() is not None and self._acknowledged is not None:
                self._acknowledged.retained_from(oldest)
                return
            with closing(AcknowledgedFile(self.url)) as acknowledged:
                acknowledged.retained_from(oldest)

    def acknowledged(self) -> Acknowledged | None:
        """See ``Store.acknowledged``."""
        with refusing(self.url, ACKNOWLEDGED, "read"):
            return read_acknowledged(self.url)

    def own_faults(self) -> Sequence[tuple[str, str]]:
        """See ``Store.own_faults``: folders in place of files, and a journal without all that was committed through it."""
        folders = [(name, "is a folder") for name in OWN if os.path.isdir(f"{self.url}/{name}")]
        if folders:
            return folders
        for is_last in (False, True):  # The journal may have been emptied during the first read.
            try:
                journal_entries(self.url)
                break
            except (CorruptFileError, MissingFileError) as error:
                name, _, what = str(error).removeprefix(f"{self.url}/").partition(" ")
                if is_last:
                    return [(name, what.partition(";")[0])]
        return []

    @contextmanager
    def lock(self) -> Iterator[None]:
        """See ``Store.lock``. It excludes other processes and this one, until the holder ends, even by ``kill -9``.

        Committed files that a power failure lost are written again, and unfinished files are removed.
        """
        with ExitStack() as stack:
            with refusing(self.url, LOCK, "locked"):
                make_folders(self.url)
                is_ours = stack.enter_context(writer_lock(Path(self.url, LOCK), self.url))
            with refusing(self.url, "what was committed last", "written again"):
                heal(self.url)
            with refusing(self.url, "what was left unfinished", "deleted"):
                self._sweep()
            with refusing(self.url, ACKNOWLEDGED, "read"):
                acknowledged = AcknowledgedFile(self.url)
            if is_ours:
                self._journal, self._acknowledged = Journal(self.url, acknowledged), acknowledged
                stack.push(self._end_journal)
            yield

    def _require_folder(self) -> None:
        """Check that the folder is where it was locked: a new one would stand in the way of the one that was moved.

        Raises:
            CheckpointError: it is gone.
        """
        if not os.path.isdir(self.url):
            raise gone(self.url)

    def _path(self, name: str) -> str:
        return f"{self.url}/{checked(name, self.url)}"

    def _own_journal(self) -> Journal | None:
        """Return the journal, if this process writes to it.

        Raises:
            CheckpointError: its content is unknown.
        """
        journal = self._journal
        if journal is None or journal.process != os.getpid():
            return None
        if journal.not_undone is not None:
            with refusing(self.url, "the journal", "written"), journal.guard:
                journal.mend()
        if journal.broken is not None:
            error = refusal(journal.broken, self.url, "the journal", "written")
            raise CheckpointError(f"{error}; then make a new engine, which goes on from what is there")
        return journal

    def _note_deleted(self, names: Sequence[str]) -> bool:
        """Note deletions in the journal, if there is one, so that the files are not restored from it."""
        journal = self._own_journal()
        if not names or journal is None or not journal.is_begun:
            return False
        with refusing(self.url, _shown(names), "deleted"), journal.guard:
            try:
                noting = journal.write((), names)
            except OSError:
                # Perhaps the disk is full, and the deletion itself makes room.
                journal.settle()
                return False
            try:
                noting.result()
            except BaseException:
                journal.take_back(noting)
                raise
        return True

    def _end_journal(self, kind: type[BaseException] | None, *_: Any) -> None:
        journal, self._journal = self._journal, None
        acknowledged, self._acknowledged = self._acknowledged, None
        assert journal is not None, "it was begun by lock"
        assert acknowledged is not None, "it was opened by lock"
        if kind is Abandoned:
            if journal.abandon():
                acknowledged.close()
            return
        with closing(acknowledged), refusing(self.url, "what was committed last", "synced"):
            journal.close()

    def _commit(self, journal: Journal, files: Sequence[Unfinished], items: Sequence[Item]) -> None:
        """Write all files and an entry of the journal at the same time, and give the last file its name after both."""
        *others, record = files
        try:
            writing = journal.write(items)
            try:
                for each in others:
                    each.write()
                    each.rename()
                record.write()
                writing.result()
                record.name_it()
                if record.is_taken:
                    raise taken(self.url, [record.name])
            except BaseException:
                journal.take_back(writing)
                _remove([each.path for each in others])
                raise
        finally:
            for each in files:
                each.forget()
            journal.make_spares(len(files))

    def _put_some(self, items: Sequence[Item]) -> Sequence[str]:
        """Write these files and return the names that are taken."""
        begun = [Unfinished(name, self._path(name), data) for name, data in items]

        def step(work: Callable[[Unfinished], None], each: Unfinished) -> None:
            with refusing(self.url, each.name, "written", each.size):
                work(each)

        try:
            # In steps for all files together, to share waits: names after bytes, and folders after names.
            for each in begun:
                step(Unfinished.write, each)
            all_at_once(partial(step, Unfinished.sync), begun)
            for each in begun:
                step(Unfinished.name_it, each)
            with refusing(self.url, _shown([each.name for each in begun]), "written"):
                all_at_once(sync_folder, {each.folder for each in begun if not each.is_taken})
        finally:
            for each in begun:
                each.forget()
        return [each.name for each in begun if each.is_taken]

    def _sweep(self) -> None:
        """Remove unfinished files of processes that are gone."""
        now = time.time()
        for folder, _, files in os.walk(self.url):
            for name in files:
                path = os.path.join(folder, name)
                # Another process may finish, or sweep, at the same time.
                with suppress(FileNotFoundError):
                    if name.startswith(UNFINISHED) and now - os.stat(path).st_mtime > STALE:
                        os.unlink(path)


def _content_of(path: str) -> FileBytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        size = os.fstat(descriptor).st_size
        if size < MAPPED:
            loaded: FileBytes = pa.py_buffer(os.read(descriptor, MAPPED))
            return loaded
    finally:
        os.close(descriptor)
    with pa.memory_map(path) as file:
        mapped: FileBytes = file.read_buffer()
    return mapped


def _remove(paths: Sequence[str]) -> None:
    """Remove the files of a commit that failed; files that remain are swept later."""
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def _below(folder: str, prefix: str) -> Iterator[Listed]:
    """Yield all files below a folder that are not the store's own."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            name = prefix + entry.name
            if is_own(name):
                continue
            if entry.is_dir():
                yield from _below(entry.path, name + "/")
                continue
            # The file may have been deleted since its name was read.
            with suppress(FileNotFoundError):
                status = entry.stat()
                yield Listed(name, status.st_size, status.st_mtime)


def _shown(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more files"
