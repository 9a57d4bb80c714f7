"""A call can be followed through the files: it changes file a third as often as before there were folders with one subject."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from started import paths

ROOT = Path(__file__).resolve().parents[1]

MOST = {"push": 94, "aggregate": 81}
"""A third of 281 changes of file, by a push through two groupings, and of 244, by the compile of an aggregate."""


@pytest.mark.parametrize("way", MOST)
def test_a_call_changes_file_a_third_as_often_as_it_did(way: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench.way", way],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": paths(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"(\d+) files, (\d+) changes of file", ended.stdout)
    assert found, ended.stdout
    assert 10 < int(found[1]) < int(found[2]) <= MOST[way], ended.stdout
