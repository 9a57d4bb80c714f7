"""Processes that tests start do not wait for the disk, and this one does as ``conftest.py`` sets it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

from started import NO_WAITS, paths

WAITS = "import os; print(*(getattr(os, name).__module__ for name in ('fsync', 'fdatasync') if hasattr(os, name)))"


def waiting_in(path: str) -> set[str]:
    """In which modules the functions are that wait for the disk."""
    done = subprocess.run(
        [sys.executable, "-c", WAITS],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_process_with_these_paths_does_not_wait(tmp_path: Path) -> None:
    assert waiting_in(paths(tmp_path)) == {"sitecustomize"}
    assert waiting_in(str(tmp_path)) == {os.fstat.__module__}


def test_the_search_for_doctests_changes_nothing() -> None:
    before = os.fsync
    runpy.run_path(str(NO_WAITS / "sitecustomize.py"), run_name="tests.no_waits.sitecustomize")
    assert os.fsync is before


def test_a_file_that_is_closed_is_refused_as_by_the_disk(tmp_path: Path) -> None:
    code = "import os; os.fsync(os.open('f', os.O_CREAT | os.O_RDWR)); os.fsync(999)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths()}, capture_output=True, text=True
    )  # fmt: skip
    assert "Bad file descriptor" in done.stderr
