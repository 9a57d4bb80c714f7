"""What a run of tests puts into the machine's temporary folder is in a folder of its own, which it removes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import run_folder
from run_folder import PREFIX, place

TESTS = Path(__file__).resolve().parent

RUN = """
import pathlib, run_folder, subprocess, sys, tempfile
folder = run_folder.begin()
tempfile.mkdtemp()
(folder / "pytest-of-me").mkdir()
# One that goes on for a while after the tests, and one that does not end.
late = "import tempfile, time; time.sleep(0.2); tempfile.mkstemp()"
subprocess.Popen([sys.executable, "-c", late])
run_folder.PATIENCE = 1.0
lasting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
run_folder.end(folder, passed={passed})
print(lasting.wait())
"""


def run(machine: Path, code: str) -> str:
    """The output of a process whose temporary folder is this one."""
    environment = os.environ | {"TMPDIR": str(machine), "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_this_run_has_a_folder() -> None:
    assert Path(tempfile.gettempdir()).name.startswith(PREFIX)
    assert os.environ["SPARK_LOCAL_DIRS"] == tempfile.gettempdir()


def test_it_is_in_memory_where_there_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else, where somebody names a place, and in the long profile it is on the disk."""
    on_disk = Path(tempfile.gettempdir())
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setenv("EVERCURRENT_TEST_PROFILE", "quick")
    monkeypatch.setattr(run_folder, "IN_MEMORY", tmp_path)
    monkeypatch.setattr(run_folder, "ROOM", 1)
    monkeypatch.setattr(run_folder, "free_memory", lambda: 3)
    assert place() == tmp_path
    for name, value in {"free_memory": lambda: 2, "ROOM": 2**62, "IN_MEMORY": tmp_path / "missing"}.items():
        with monkeypatch.context() as patched:
            patched.setattr(run_folder, name, value)
            assert place() == on_disk, name
    for variable, value in {"TMPDIR": str(on_disk), "EVERCURRENT_TEST_PROFILE": "long"}.items():
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            assert place() == on_disk, variable


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux reports how much memory is free")
def test_free_memory_is_known_on_linux() -> None:
    assert 2**20 < run_folder.free_memory() < 2**50


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize(("passed", "left"), [(True, []), (False, ["pytest-of-me"])])
def test_it_ends_with_the_processes_of_the_run(tmp_path: Path, passed: bool, left: list[str]) -> None:
    """All but the folders of tests that failed."""
    assert run(tmp_path, RUN.format(passed=passed)) == "-9"
    assert [path.name for path in tmp_path.glob("*/*")] == left
    assert len(list(tmp_path.iterdir())) == len(left)


def test_that_of_a_run_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, "import os, run_folder; (run_folder.begin() / 'some').touch(); os.abort()")
    assert len(list(tmp_path.glob("*/some"))) == 1
    of_another_run = tmp_path / f"{PREFIX}{os.getpid()}-other"
    of_another_run.mkdir()
    run(tmp_path, "import run_folder; run_folder.end(run_folder.begin(), passed=True)")
    assert list(tmp_path.iterdir()) == [of_another_run]
