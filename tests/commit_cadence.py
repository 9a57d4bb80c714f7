"""How often an engine commits, for tests that look at the commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evercurrent.views.durability import durability


@contextmanager
def each_epoch_committed() -> Iterator[None]:
    """No epoch waits for others, with only its input on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "MOST_WAITING", 1)
        yield


@contextmanager
def commits_put_off() -> Iterator[None]:
    """Only the number of epochs and their input decide on commits, and not the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "MOST_SECONDS", 1e9)
        yield
