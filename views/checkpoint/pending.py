"""Epochs that are done and not committed: only the engine of their application can go on from them."""

from __future__ import annotations

from evercurrent.core.errors import CheckpointError

from ..store import Store
from .commits import Commit


def require_committed(store: Store, last: Commit | None) -> None:
    """Check that nothing but the input is there of no epoch after the last commit.

    Raises:
        CheckpointError: there are such epochs, as their process was killed; says what to do.
    """
    count = 0 if last is None else len(store.inputs_after(last.epoch))
    if count:
        raise CheckpointError(
            f"{store.url}: {count} epochs after epoch {last.epoch if last else 0} were done and not committed, as their "
            "process was killed; their input is there. Open the checkpoint with its application first (evercurrent run "
            f"APP --checkpoint {store.url}, or an engine with the same views, read once and closed): that commits them"
        )
