"""The next item of an iterator is computed in another thread, while the caller uses the one before."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from .teams import Call

Item = TypeVar("Item")


def computed_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, each of which is computed while the caller uses the one before.

    They call no function of a user, which could find itself in another thread than its caller. If no thread begins in time, as
    at the end of the interpreter, when none can be started, the caller computes the item itself.
    """
    with_end = partial(next, items, None)
    pool = ThreadPoolExecutor(1, "evercurrent ahead")
    try:
        following = Call(with_end)
        while True:
            following.make()
            item = following.future.result()
            if item is None:
                return
            following = Call(with_end)
            with suppress(RuntimeError):
                pool.submit(following.make)
            yield item
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
