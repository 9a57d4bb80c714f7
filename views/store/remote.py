"""A remote store is anywhere that fsspec reaches: object stores, memory, network file systems."""

import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from evercurrent.core.data.errors import CheckpointError, CheckpointWarning, NameTakenError, first_line
from evercurrent.core.data.release import install_command

from .acknowledged import Acknowledged
from .append_log import entries_in, require_none
from .exclusive_writes import Writing
from .locks import lock_in_process
from .mapped_copies import MappedCopies, copies_of
from .protocol import (
    ACKNOWLEDGED,
    INPUTS,
    LOCK,
    Buffer,
    FileBytes,
    Item,
    Listed,
    checked,
    checked_prefix,
    is_own,
    size_of,
)
from .refusals import missing, not_noted, refusal, refusing, taken
from .syncing import OneThread, all_at_once

WRITTEN = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
"""The fields in which file systems of fsspec give the time of a write."""

PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
LAST_SLASHES = re.compile(r"(?<![:/])/+$")

_notes = OneThread("evercurrent-notes")


class FsspecStore:
    """A store behind a url of fsspec, such as ``s3://bucket/folder``.

    A put is one request (big files: one for each part and two more), and the server itself refuses it where the name
    is taken (S3: a conditional PUT), so two writers on two machines cannot both commit. Where a file system has no
    such condition, ``lock`` warns. fsspec retries transient errors. If the response to a put was lost, its retry
    finds the name taken by the put itself: callers for which that matters read the file.

    Files that are read or put are kept on this machine (in ``cache_folder``, else among the temporary files; up to
    ``cache_bytes``) and mapped. Files in ``commits/`` or at the top are fetched every time: they are tiny, and their
    names recur when a checkpoint is deleted and begun again.

    Args:
        url: in the form that fsspec takes.
        options: for the file system: credentials, endpoints. They are better placed in its configuration or in the
            environment, as options given here are part of every pickle.
        cache_folder: a folder on a disk with ``cache_bytes`` of free space; nothing in it outlives the process.
        cache_bytes: the most bytes that are kept. A larger file is fetched again at every read.

    Raises:
        CheckpointError: fsspec, or what it needs for this url, is not installed; it has no such urls.
    """

    excludes_writers = False

    def __init__(
        self,
        url: str,
        *,
        options: Mapping[str, Any] | None = None,
        cache_folder: str | Path | None = None,
        cache_bytes: int = 2 << 30,
    ) -> None:
        self.url: str = PASSWORD.sub(r"\1:***@", LAST_SLASHES.sub("", url))
        self._given = url
        self._options = {"use_listings_cache": False, **(options or {})}  # Others write there too.
        self._cache = (str(cache_folder) if cache_folder else None, cache_bytes)
        self._opened: tuple[int, Any, str] | None = None
        self._note: Future[None] | None = None
        """The write of a note that is under way."""
        self._noted: Acknowledged | None = None
        """The last note that was read or written."""
        self._open()

    def __repr__(self) -> str:
        return f"FsspecStore({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_note": None}

    def put(self, name: str, data: Sequence[Buffer]) -> None:
        """See ``Store.put``."""
        path = self._path(name)
        size = size_of(data)
        with refusing(self.url, name, "written", size):
            content = b"".join(data)
            try:
                self._write(path, content)
            except FileExistsError:
                raise taken(self.url, [name]) from None
        if self._is_copied(name) and size <= self._cache[1]:
            # The file is in the store, from which it is read if its copy cannot be kept.
            with suppress(OSError):
                self._copies.add(name, lambda copy: copy.write_bytes(content))

    def put_all(self, items: Sequence[Item]) -> None:
        """See ``Store.put_all``: several requests at a time."""
        taken_names: list[str] = []

        def put(item: Item) -> None:
            try:
                self.put(*item)
            except NameTakenError:
                taken_names.append(item[0])

        all_at_once(put, items)
        if taken_names:
            raise taken(self.url, sorted(taken_names))

    def put_ahead(self, items: Sequence[Item]) -> Sequence[Item]:
        """See ``Store.put_ahead``: writes all."""
        self.put_all(items)
        return ()

    def commit(self, items: Sequence[Item], name: str, data: Sequence[Buffer]) -> None:
        """See ``Store.commit``."""
        self.put_all(items)
        self.put(name, data)

    def read(self, name: str) -> FileBytes:
        """See ``Store.read``. Mapped from a copy on this machine."""
        path = self._path(name)
        is_copied = self._is_copied(name)
        if is_copied and (copy := self._copies.find(name)) is not None:
            return copy

        with refusing(self.url, name, f"read (by way of {self._copies.folder})"):
            if self._is_memory:  # Open files of a memory file system share one position among all readers.
                loaded: FileBytes = pa.py_buffer(self._fetched(name, self._fs.cat_file, path))
                return loaded
            # Always as a file, as s3fs makes one more request for the size where it returns bytes.
            take = partial(self._copies.add, name) if is_copied else self._copies.once
            return take(lambda copy: self._fetched(name, self._fs.get_file, path, str(copy)))

    def list(self, prefix: str = "") -> list[Listed]:
        """See ``Store.list``. Costs the files below the folder that the prefix names."""
        folder = checked_prefix(prefix, self.url).rpartition("/")[0]
        with refusing(self.url, prefix, "listed"):
            try:
                infos = self._fs.find(f"{self._root}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError:
                if not self._has_top():
                    raise
                infos = {}
            files = [self._listed(path, info) for path, info in infos.items() if info["type"] == "file"]
        matching = (each for each in files if each.name.startswith(prefix) and not is_own(each.name))
        return sorted(matching, key=lambda each: each.name)

    def delete(self, name: str) -> None:
        """See ``Store.delete``."""
        self.delete_all([name])

    def delete_all(self, names: Sequence[str]) -> None:
        """See ``Store.delete_all``: S3 takes a thousand in a request, others several requests at a time."""
        paths = [self._path(name) for name in names]
        self._copies.drop(names)
        # Names with characters of a pattern would be taken for patterns there.
        if (
            "s3" in _protocols(self._fs)
            and len(paths) > 1
            and not any(set("*?[") & set(path) for path in paths)
        ):
            with refusing(self.url, f"{names[0]} and {len(names) - 1} more files", "deleted"):
                self._fs.rm(paths)
            return

        def delete(name: str) -> None:
            with refusing(self.url, name, "deleted"), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(name))

        all_at_once(delete, names)

    def input_log(self) -> None:
        """See ``Store.input_log``: there is none, as files are written whole."""
        return

    def inputs_after(self, epoch: int) -> Sequence[memoryview]:
        """See ``Store.inputs_after``: none is written here, but one may have been copied here with its checkpoint."""
        note, where = self.acknowledged(), f"{self.url}/{INPUTS}"
        content = self._own(INPUTS)
        if content is not None:
            return entries_in(where, memoryview(content), epoch, note)
        require_none(where, epoch, note)
        return ()

    def acknowledge(self, first: int, epoch: int) -> None:
        """See ``Store.acknowledge``: one more request, while the next epoch is computed."""
        self._end_note()
        self._write_note(Acknowledged.committed_after(self._noted, first, epoch))

    def retain_from(self, oldest: int) -> None:
        """See ``Store.retain_from``."""
        self._end_note()
        note = self.acknowledged()
        if note is not None and note.oldest != oldest:
            with refusing(self.url, ACKNOWLEDGED, "written"):
                self._write_note(replace(note, oldest=oldest)).result()

    def _write_note(self, note: Acknowledged) -> Future[None]:
        self._noted = note
        write = partial(self._fs.pipe_file, f"{self._root}/{ACKNOWLEDGED}", note.as_bytes())
        self._note = _notes.begin(write)
        return self._note

    def _end_note(self) -> None:
        """Wait for the last note."""
        note, self._note = self._note, None
        if note is not None:
            try:
                note.result()
            except Exception as error:  # Clients of object stores raise errors of their own.
                not_noted(self.url, error)

    def _own(self, name: str) -> bytes | None:
        """Return the content of one of the store's own files; None if it is not there."""
        with refusing(self.url, name, "read"):
            try:
                content: bytes = self._fs.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None
        return content

    def acknowledged(self) -> Acknowledged | None:
        """See ``Store.acknowledged``."""
        content = self._own(ACKNOWLEDGED)
        self._noted = None if content is None else Acknowledged.from_bytes(content)
        return self._noted

    def own_faults(self) -> Sequence[tuple[str, str]]:
        """See ``Store.own_faults``: commits depend on none of this store's own files."""
        return ()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """See ``Store.lock``. It excludes this process only; other writers fail when they commit.

        Warns (``CheckpointWarning``) where a trial shows that the store lets a second file replace the first.
        """
        with lock_in_process(self.url):
            if not self._keeps_names():
                warnings.warn(
                    f"{self.url}: this store lets two writers take the same name at once, so that one would overwrite "
                    "the other; make sure that only one process writes to this checkpoint",
                    CheckpointWarning,
                    stacklevel=3,
                )
            try:
                yield
            finally:
                self._end_note()

    @property
    def _fs(self) -> Any:
        return self._open()[1]

    @property
    def _root(self) -> str:
        return self._open()[2]

    @property
    def _is_memory(self) -> bool:
        return "memory" in _protocols(self._fs)

    @property
    def _copies(self) -> MappedCopies:
        return copies_of(self.url, *self._cache)

    def _open(self) -> tuple[int, Any, str]:
        """Return the file system, its own in every process: its threads and connections do not survive ``fork``."""
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                from fsspec.core import url_to_fs
            except ImportError:
                raise CheckpointError(
                    f"{self.url}: urls need fsspec; install it: {install_command(_extra(self._given))}"
                ) from None
            try:
                fs, root = url_to_fs(self._given, **self._options)
            except ImportError as error:
                extra = _extra(self._given)
                way_out = f"; type: {install_command(extra)}" if extra == "s3" else ""
                raise CheckpointError(f"{self.url}: {first_line(error)}{way_out}") from error
            except ValueError as error:
                raise CheckpointError(
                    f"{self.url}: {first_line(error)}; give a folder, or a url such as s3://bucket/folder"
                ) from error
            except Exception as error:
                # The file system may lack anything, such as a library of another language.
                raise refusal(error, self.url, "", "opened") from error
            self._opened = (os.getpid(), fs, root.rstrip("/"))
        return self._opened

    def _write(self, path: str, content: bytes) -> None:
        try:
            Writing(self._fs).write(path, content)
        except FileNotFoundError:
            if not self._has_top():
                raise
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            Writing(self._fs).write(path, content)

    def _fetched(self, name: str, get: Callable[..., Any], *arguments: str) -> Any:
        """Return the result of a call of the file system; raise ``MissingFileError`` for a missing file."""
        try:
            return get(*arguments)
        except FileNotFoundError:
            if not self._has_top():
                raise
            raise missing(self.url, name) from None

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked(name, self.url)}"

    def _is_copied(self, name: str) -> bool:
        """Return whether copies of a file are kept on this machine."""
        is_tiny = "/" not in name or name.startswith("commits/")
        return not is_tiny and not self._is_memory

    def _has_top(self) -> bool:
        """Return whether the bucket, or the uppermost folder, is there, which the store does not create."""
        top = self._root.lstrip("/").partition("/")[0]
        return self._is_memory or bool(self._fs.exists(self._root[: self._root.index(top)] + top))

    def _listed(self, path: str, info: Mapping[str, Any]) -> Listed:
        times = (info.get(key) for key in WRITTEN)
        written = next((each for each in times if isinstance(each, datetime | int | float)), None)
        if written is None:
            written = self._fs.modified(path)
        seconds = written.timestamp() if isinstance(written, datetime) else float(written)
        return Listed(path[len(self._root) + 1 :], int(info["size"] or 0), seconds)

    def _keeps_names(self) -> bool:
        """Return whether a second file of a name is refused, as the file system claims and a trial shows."""
        if not Writing(self._fs).is_exclusive:
            return False
        path = f"{self._root}/.exclusive-{secrets.token_hex(8)}"
        with refusing(self.url, LOCK, "locked"):
            # The name is drawn by lot: if it is taken, by this write, whose response was lost and which was repeated.
            with suppress(FileExistsError):
                self._write(path, b"first")
            try:
                self._write(path, b"second")
            except FileExistsError:
                return True
            finally:
                self._fs.rm_file(path)
        return False


def _extra(url: str) -> str:
    """Return the extra with the libraries of a url's protocol; for other stores than S3 only a part of them."""
    return "s3" if url.startswith(("s3:", "s3a:")) else "object-store"


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
