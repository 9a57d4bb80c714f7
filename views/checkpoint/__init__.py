"""Checkpoints: all states at one epoch in immutable files, made real by one small record."""

from .commits import Commit, DeltaRef, PieceRef, StateRecord, new_writer, versions
from .log import CommitLog
from .options import Checkpoint
from .pieces import Pieces
from .saver import Saver
from .sweeping import Swept

__all__ = [
    "Checkpoint",
    "Commit",
    "CommitLog",
    "DeltaRef",
    "PieceRef",
    "Pieces",
    "Saver",
    "StateRecord",
    "Swept",
    "new_writer",
    "versions",
]
