"""What processes have that tests start."""

from __future__ import annotations

import os
from pathlib import Path

NO_WAITS = Path(__file__).resolve().parent / "no_waits"


def paths(*folders: Path | str) -> str:
    """The ``PYTHONPATH`` of a process that is at most killed: these folders, and nobody waits for the disk."""
    return os.pathsep.join(map(str, (NO_WAITS, *folders)))
