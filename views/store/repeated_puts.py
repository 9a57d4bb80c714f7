"""A put whose response was lost is repeated by the client of a store, and refused the name that it has given the file itself."""

from __future__ import annotations

from collections.abc import Sequence

from evercurrent.core.data.errors import MissingFileError, NameTakenError

from .protocol import Buffer, Item, Store


def put_own(store: Store, name: str, data: Sequence[Buffer]) -> None:
    """Write a file, or find it written, under a name that no other writer gives to these bytes.

    Raises:
        NameTakenError: there is another file of that name.
    """
    try:
        store.put(name, data)
    except NameTakenError:
        if not are_there(store, [(name, data)]):
            raise


def put_all_own(store: Store, items: Sequence[Item]) -> None:
    """Write several files as ``put_own`` writes one."""
    try:
        store.put_all(items)
    except NameTakenError:
        if not are_there(store, items):
            raise


def are_there(store: Store, items: Sequence[Item]) -> bool:
    """Return whether these files are in the store, with these bytes. Cost: reading them."""
    try:
        return all(store.read(name).to_pybytes() == b"".join(parts) for name, parts in items)
    except MissingFileError:
        return False
