"""The schemes of digests: how expressions, columns of values and functions are written into them.

The first scheme used the form of one version of polars, the second our own, the third ignores the order of the constants of
``is_in``, the fourth has the names of keyword arguments in calls of functions under Python 3.11 and 3.12, and in the fifth it
does not count upon which of several equal nodes a circuit node stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

FIRST, SECOND, THIRD, FOURTH, SCHEME = 1, 2, 3, 4, 5

_scheme: ContextVar[int] = ContextVar("scheme", default=SCHEME)


@contextmanager
def written_by(number: int) -> Iterator[None]:
    """Make digests by an earlier scheme, in this thread, to recognize states that were persisted under them."""
    before = _scheme.set(number)
    try:
        yield
    finally:
        _scheme.reset(before)


def scheme() -> int:
    """Return the scheme by which digests are made."""
    return _scheme.get()
