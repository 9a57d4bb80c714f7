"""Who uses the library and runs a type checker sees all of its public types; what the checkers object to: ``test_typed_examples``."""

import inspect
import re
from collections.abc import Iterator

import evercurrent
from evercurrent import spark_bridge, telemetry, testing
from type_checkers import ROOT, incomplete_types

PROGRAM = ROOT / "tests" / "typed" / "users_program.py"


def test_the_program_uses_every_public_name() -> None:
    text = PROGRAM.read_text("utf-8")
    assert not [name for name in evercurrent.__all__ if not re.search(rf"\bec\.{name}\b", text)]


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
