"""Classes and modules may be called and stand as they like: what is kept is opened, and is what it was.

A copy of the package has other names of classes, and modules elsewhere. A process that has it opens all kept checkpoints,
and others that the package as it is has just written, and goes on with them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import evercurrent as ec
from durability.kept_programs import BY_NAME, PROGRAMS
from evercurrent.core.data.columns.key_hash import FIRST_MARK, OF_POLARS
from identity.opening_kept import report
from identity.renamed_package import Renaming, renamed_copy
from started import paths

IS_LONG = os.environ.get("EVERCURRENT_TEST_PROFILE") == "long"
TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("seed", "share"), [(1, 0.6), *(((n, n % 5 / 4) for n in range(2, 8)) if IS_LONG else ())]
)
def test_renamed_and_moved_it_opens_what_is_kept(seed: int, share: float, tmp_path: Path) -> None:
    assert ec.__file__ is not None
    renaming = renamed_copy(Path(ec.__file__).parent, tmp_path / "copy", Random(seed), share)
    names = [name for name, program in BY_NAME.items() if program.form > 1 or OF_POLARS.mark == FIRST_MARK]
    if not IS_LONG:  # Both are written now, and are the same program.
        names.remove("checkpoint-2-nodes-polars-1.40")
    ours, theirs = (written(names, tmp_path / whose) for whose in ("ours", "theirs"))
    found = reported(theirs, tmp_path)
    require_renamed(found, renaming, tmp_path)
    for name in names:
        assert found["reports"][name] == report(BY_NAME[name], ours[name]), name


def written(names: list[str], folder: Path) -> dict[str, Path]:
    """A copy of each checkpoint that is kept; of programs of which none is kept, one written now."""
    for name in names:
        program = BY_NAME[name]
        if program in PROGRAMS:
            program.copied(folder / name)
        else:
            program.opened(folder / name, range(program.kept_at)).close()
    return {name: folder / name for name in names}


def reported(folders: dict[str, Path], tmp_path: Path) -> dict[str, Any]:
    """What a process with the copy makes of them."""
    program = TESTS / "identity" / "opening_kept.py"
    arguments = [f"{name}={folder}" for name, folder in folders.items()]
    done = subprocess.run(
        [sys.executable, "-P", program, tmp_path / "report.json", *arguments],
        env={**os.environ, "PYTHONPATH": paths(tmp_path / "copy", TESTS), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return found


def require_renamed(found: dict[str, Any], renaming: Renaming, tmp_path: Path) -> None:
    """Check that it was the copy, and that nothing in it is called as before that should not be."""
    assert Path(found["file"]).is_relative_to(tmp_path)
    expected = {f"{renaming.module(module)}:{new}" for (module, _), new in renaming.classes.items()}
    before = {f"{module}:{old}" for module, old in renaming.classes}
    assert not before & set(found["classes"])
    assert not any(name.partition(":")[0] in renaming.modules for name in found["classes"])
    assert len(expected & set(found["classes"])) > 50 or not renaming.classes
