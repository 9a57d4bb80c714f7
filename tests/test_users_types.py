"""Who uses the library and runs mypy or pyright in strict mode gets no error out of it."""

import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from type_checkers import ROOT, incomplete_types, strict_mypy, strict_pyright

PROGRAM = ROOT / "tests" / "typed" / "users_program.py"


def test_the_program_uses_every_public_name() -> None:
    text = PROGRAM.read_text("utf-8")
    assert not [name for name in evercurrent.__all__ if not re.search(rf"\bec\.{name}\b", text)]


def test_strict_mypy_finds_nothing_in_a_users_program() -> None:
    assert strict_mypy([PROGRAM], "users") == ""


def test_strict_pyright_finds_nothing_in_a_users_program(tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    assert strict_pyright(tmp_path) == ""


def test_the_types_of_public_names_and_of_their_members_are_complete() -> None:
    """So every checker sees the same types: what is not annotated is inferred by each in its own way."""
    incomplete, public = incomplete_types(), set(public_names())
    assert len(public) > 100
    assert {
        name: reasons
        for name, reasons in incomplete.items()
        if name in public or name.rpartition(".")[0] in public
    } == {}


def public_names() -> Iterator[str]:
    """Yield the full names of public classes, of the classes they inherit from, and of public functions."""
    for module in (evercurrent, testing, telemetry, spark_bridge):
        for each in (getattr(module, name) for name in module.__all__):
            for owner in each.__mro__ if inspect.isclass(each) else [each]:
                if getattr(owner, "__module__", "").startswith("evercurrent."):
                    yield f"{owner.__module__}.{owner.__qualname__}"


def test_a_wrong_program_is_found_by_both(tmp_path: Path) -> None:
    (wrong := tmp_path / "wrong.py").write_text("import evercurrent as ec\n\nec.Engine().view(1)\n", "utf-8")
    for objections in (strict_mypy([wrong], "users"), strict_pyright(tmp_path)):
        assert "wrong.py:3" in objections
        assert "error" in objections
