"""Who uses the library and runs mypy or pyright in strict mode gets no error out of it."""

import re
import shutil
from pathlib import Path

import evercurrent
from type_checkers import ROOT, strict_mypy, strict_pyright

PROGRAM = ROOT / "tests" / "typed" / "users_program.py"


def test_the_program_uses_every_public_name() -> None:
    text = PROGRAM.read_text("utf-8")
    assert not [name for name in evercurrent.__all__ if not re.search(rf"\bec\.{name}\b", text)]


def test_strict_mypy_finds_nothing_in_a_users_program() -> None:
    assert strict_mypy([PROGRAM], "users") == ""


def test_strict_pyright_finds_nothing_in_a_users_program(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    assert strict_pyright(tmp_path) == ""


def test_a_wrong_program_is_found_by_both(tmp_path: Path) -> None:
    (wrong := tmp_path / "wrong.py").write_text("import evercurrent as ec\n\nec.Engine().view(1)\n", "utf-8")
    for objections in (strict_mypy([wrong], "users"), strict_pyright(tmp_path)):
        assert "wrong.py:3" in objections
        assert "error" in objections
