"""Settings of the memory allocator that the engine relies on."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

LARGEST_THRESHOLD = 31 << 20
"""Bytes just below the maximum to which glibc raises its mmap threshold."""


def expect_large_arrays() -> None:
    """Let the C library keep the memory that epochs use and free, for later epochs.

    glibc hands large pieces back to the system as they are freed, and has their pages cleared and mapped again
    when the next epoch allocates as much: the first epochs of a chain took 1.3 times as long. It no longer does so
    for pieces up to the largest that was freed (mallopt(3), M_MMAP_THRESHOLD), so one is allocated and freed here
    without being touched. With other C libraries this has no effect.
    """
    np.empty(LARGEST_THRESHOLD, np.uint8)


def give_back() -> None:
    """Let the C library return free memory to the system, after much was freed for good.

    It keeps the memory of epochs for later ones, and would keep this memory too. Only glibc has the call.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
