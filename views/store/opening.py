"""A store is opened from a path or url that a user writes."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from evercurrent.core.data.errors import CheckpointError

from .local import LocalStore
from .protocol import Store
from .remote import FsspecStore

A_FILE = re.compile(r"^(file|local)://(localhost(?=/))?", re.IGNORECASE)
A_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+(://|::)")
A_URL_AS_PATH = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")

Opener = TypeVar("Opener", bound=Callable[[str], Store])

OPENERS: dict[str, Callable[[str], Store]] = {}
"""The functions that open urls, by their scheme: see ``opens``."""


def opens(scheme: str) -> Callable[[Opener], Opener]:
    """Register a store, or a function that makes one, for urls of a scheme, which fsspec then no longer opens.

    The registration is valid in each process that imports the store, as an application does.
    """

    def remember(opener: Opener) -> Opener:
        OPENERS[scheme] = opener
        return opener

    return remember


def store_at(where: str | Path | Store) -> Store:
    """Return the store at a path, at a ``file://`` url, or at a url of fsspec or of ``opens``; a store is returned as it is.

    Nothing is made or opened yet, but what is there must be a folder.

    >>> store_at("/tmp/evercurrent-doctest")
    LocalStore('/tmp/evercurrent-doctest')

    Raises:
        CheckpointError: the path is that of a file, fsspec or a package that it needs is not installed, or it does not
            support such urls.
    """
    if isinstance(where, os.PathLike):
        text = os.fspath(where)
        if A_URL_AS_PATH.match(text):
            raise CheckpointError(f"{text}: give a url as text; as a Path it loses a slash")
        return LocalStore(text)
    if not isinstance(where, str):
        return where
    if not where:
        raise CheckpointError("'' is not the path of a checkpoint; give a folder")
    if odd := next((each for each in where if each == "\0" or "\ud800" <= each <= "\udbff"), None):
        raise CheckpointError(
            f"{where!r}: U+{ord(odd):04X} is not a character that a path can hold; give another folder"
        )
    if A_FILE.match(where):
        return LocalStore(unquote(A_FILE.sub("", where)))
    if (opener := OPENERS.get(where.partition("://")[0])) is not None:
        return opener(where)
    return FsspecStore(where) if A_URL.match(where) else LocalStore(where)
