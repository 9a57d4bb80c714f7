"""On the path of a process whose disk is to be slow: what waits for the disk waits up to half a second longer.

Python imports it by its name when it starts. Whoever imports it otherwise, as the search for doctests does, changes nothing.
"""

import os
import random
import time
from typing import Any


def late(done: Any) -> Any:
    """The same, some time later."""

    def waits(descriptor: int) -> Any:
        time.sleep(random.uniform(0, 0.5) ** 2)
        return done(descriptor)

    return waits


if __name__ == "sitecustomize":
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, late(getattr(os, name)))
