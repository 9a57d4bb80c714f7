"""Settings of the memory allocator that the engine relies on."""

import ctypes
from functools import cache
from typing import Any

LARGEST_THRESHOLD = 32 << 20
"""Bytes of the largest pieces that come from the heap, which is the most that glibc accepts: larger ones are mapped."""

KEPT = 256 << 20
"""Bytes of free memory at the end of the heap that glibc keeps for later epochs."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def expect_large_arrays() -> None:
    """Let the C library keep the memory that epochs use and free, for later epochs.

    glibc maps large pieces, and hands them and more than 128 KB at the end of its heap back to the system as they are freed; their
    pages are then cleared and mapped again when the next epoch allocates as much. With other C libraries this has no effect.
    """
    library = _library()
    if library is not None:
        library.mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
        library.mallopt(M_TRIM_THRESHOLD, KEPT)


def give_back() -> None:
    """Let the C library return free memory to the system, after much was freed for good.

    It keeps the memory of epochs for later ones, and would keep this memory too. Only glibc has the call.
    """
    library = _library()
    if library is not None:
        library.malloc_trim(0)


@cache
def _library() -> Any:
    """Return the C library of this process if it is glibc."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None
