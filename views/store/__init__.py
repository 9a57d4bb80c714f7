"""Stores keep checkpoints in a folder, or anywhere that fsspec reaches, behind one small interface."""

from .acknowledged import Acknowledged
from .local import LocalStore
from .opening import store_at
from .protocol import Buffer, FileBytes, Item, Listed, LogGapError, Store
from .remote import FsspecStore

__all__ = [
    "Acknowledged",
    "Buffer",
    "FileBytes",
    "FsspecStore",
    "Item",
    "Listed",
    "LocalStore",
    "LogGapError",
    "Store",
    "store_at",
]
