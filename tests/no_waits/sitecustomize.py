"""On the path of a process that tests start and at most kill: nobody in it waits for the disk, as in ``tests/conftest.py``.

Python imports it by its name when it starts. Whoever imports it otherwise, as the search for doctests does, changes nothing.
"""

import os

if __name__ == "sitecustomize":
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, lambda descriptor: os.fstat(descriptor) and None)
