"""Where checkpoints are kept: a folder, or anything that fsspec reaches, behind one small interface."""

from .local import LocalStore
from .opening import store_at
from .protocol import Buffer, Item, Listed, Store
from .remote import FsspecStore

__all__ = ["Buffer", "FsspecStore", "Item", "Listed", "LocalStore", "Store", "store_at"]
