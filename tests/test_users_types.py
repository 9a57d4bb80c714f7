"""Who uses the library and runs a type checker sees all of its public types; what the checkers object to: ``test_typed_examples``."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from type_checkers import ROOT, incomplete_types

PROGRAM = ROOT / "tests" / "typed" / "users_program.py"
MODULES = (evercurrent, testing, telemetry, spark_bridge)


def test_the_program_uses_every_public_name() -> None:
    text = PROGRAM.read_text("utf-8")
    assert not [name for name in evercurrent.__all__ if not re.search(rf"\bec\.{name}\b", text)]


def test_the_types_of_public_names_and_of_their_members_are_complete(tmp_path: Path) -> None:
    """So every checker sees the same types: what is not annotated is inferred by each in its own way."""
    imports = "".join(
        f"from {module.__name__} import {name} as {name}\n" for module in MODULES for name in module.__all__
    )
    verified, incomplete = incomplete_types(imports, tmp_path)
    names, classes = {f"ever.{name}" for module in MODULES for name in module.__all__}, set(public_classes())
    assert len(names) > 100
    assert names | classes <= verified
    assert {
        name: reasons
        for name, reasons in incomplete.items()
        if name in names or name in classes or name.rpartition(".")[0] in classes
    } == {}


def public_classes() -> Iterator[str]:
    """Yield the full names of public classes and of the classes they inherit from."""
    for module in MODULES:
        for each in filter(inspect.isclass, (getattr(module, name) for name in module.__all__)):
            for owner in each.__mro__:
                if owner.__module__.startswith("evercurrent."):
                    yield f"{owner.__module__}.{owner.__qualname__}"
