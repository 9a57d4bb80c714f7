"""What the engine asks of the memory allocator."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

LARGEST_THRESHOLD = 31 << 20
"""Just below the most that glibc lets its threshold for pieces of their own grow to, in bytes."""


def expect_large_arrays() -> None:
    """Have the C library keep the memory that epochs use and free, for the next ones to use.

    glibc hands large pieces back to the system as they are freed, and has their pages cleared and mapped again
    when the next epoch asks for as much: the first epochs of a chain took 1.3 times as long. It stops to do so
    for pieces up to the largest that it has seen freed (mallopt(3), M_MMAP_THRESHOLD), so one is shown to it,
    which is never touched. Other C libraries do not mind.
    """
    np.empty(LARGEST_THRESHOLD, np.uint8)


def give_back() -> None:
    """Have the C library hand memory that is free back to the system, after much was freed for good.

    It keeps what epochs use for the next ones, and so would keep that too. Other C libraries than glibc are not asked.
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
