"""Who uses the library and runs mypy in strict mode gets no error out of it; pyright is run by ``make test-versions``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import evercurrent

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "typed" / "users_program.py"


def test_the_program_uses_every_public_name():
    text = PROGRAM.read_text("utf-8")
    assert not [name for name in evercurrent.__all__ if not re.search(rf"\bec\.{name}\b", text)]


def test_strict_mypy_finds_nothing_in_a_users_program():
    """Ours is seen as an installed package is: no errors of its own, and no settings of this project."""
    command = "--strict --config-file= --explicit-package-bases --follow-imports=silent --cache-dir .mypy_cache/users"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command.split(), str(PROGRAM)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
