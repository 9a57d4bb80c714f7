"""Places that cannot be written, for real: full disks, read-only mounts, folders of other users."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount something there; skips where this user may not."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def another_user() -> Iterator[Path]:
    """Be somebody who may read and not write in the folder given; root minds no modes."""
    folder = Path(tempfile.mkdtemp(prefix="evercurrent-test-"))
    try:
        if os.geteuid() == 0:
            folder.chmod(0o755)
            os.seteuid(NOBODY)
        else:
            folder.chmod(0o555)
        yield folder
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)
