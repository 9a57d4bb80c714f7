"""Faults of one line, planted in the functions that run: what the examples of a law are worth is what they find.

A plant is a text of a file and what stands there instead. It is planted by giving the function that has the line other code,
and taken out again; nothing on the disk changes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Plant:
    """A fault: in this file, the first place that reads so reads otherwise."""

    file: str
    right: str
    wrong: str

    @property
    def fits(self) -> bool:
        """Whether the file still has the text."""
        return self.right in (ROOT / self.file).read_text("utf-8")

    def functions(self) -> list[tuple[FunctionType, CodeType]]:
        """The functions that the fault changes, each with the code that it then has."""
        text = (ROOT / self.file).read_text("utf-8")
        module = importlib.import_module("evercurrent." + self.file.removesuffix(".py").replace("/", "."))
        right, wrong = (
            dict(codes(compile(each, str(module.__file__), "exec", dont_inherit=True)))
            for each in (text, text.replace(self.right, self.wrong, 1))
        )
        changed = [
            (function_at(module, path), code) for path, code in wrong.items() if right.get(path) != code
        ]
        return [(function, code) for function, code in changed if function is not None]

    @contextmanager
    def planted(self) -> Iterator[None]:
        functions = self.functions()
        before = [function.__code__ for function, _ in functions]
        for function, code in functions:
            function.__code__ = code
        try:
            yield
        finally:
            for (function, _), code in zip(functions, before, strict=True):
                function.__code__ = code


def codes(code: CodeType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CodeType]]:
    """All code in this code, by the names on the way there."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (*path, each.co_name), each
            yield from codes(each, (*path, each.co_name))


def function_at(module: ModuleType, path: tuple[str, ...]) -> FunctionType | None:
    """The function of that name; None where it is within another one, which changes with it."""
    found: Any = module
    for name in path:
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
        found = (
            getattr(found, "__func__", None) or getattr(found, "fget", None) or getattr(found, "func", found)
        )
        found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None


def called_by(run: Callable[[], object]) -> set[CodeType]:
    """The code of all functions that are called."""
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return called


PLANTS = (
    Plant("core/operators/distinct.py", "(before + added > 0)", "(before + added >= 0)"),
    Plant("core/operators/distinct.py", "- (before > 0)", "- (before > 1)"),
    Plant("core/operators/join.py", "counts > 0", "counts > 1"),
    Plant("core/operators/join.py", "partners <= 0", "partners < 0"),
    Plant("core/group/accumulators.py", "sums, height) <= 0", "sums, height) < 0"),
    Plant(
        "core/group/accumulators.py",
        "pl.Series(degrees <= 0), None) if (degrees <= 0)",
        "pl.Series(degrees < 0), None) if (degrees < 0)",
    ),
    Plant(
        "core/group/accumulators.py",
        "pl.Series(values == 0), None) if (values == 0)",
        "pl.Series(values < 0), None) if (values < 0)",
    ),
    Plant("core/group/heads.py", "(mine < theirs)", "(mine > theirs)"),
    Plant("core/group/group_by.py", "(now.epoch > 0)", "(now.epoch > 1)"),
    Plant(
        "core/group/group_by.py", "expired is None or not len(expired)", "expired is None or len(expired) < 2"
    ),
    Plant(
        "core/group/ranked_states.py",
        "return (counts - 1) // 2, counts // 2",
        "return counts // 2, counts // 2",
    ),
    Plant(
        "core/group/ranked_states.py",
        "(self.ends[near + 1] <= target_counts)",
        "(self.ends[near + 1] < target_counts)",
    ),
    Plant(
        "core/eventtime/sessions/sessions.py",
        "(cells.was.last <= cells.now.last)",
        "(cells.was.last < cells.now.last)",
    ),
    Plant("core/eventtime/sessions/sessions.py", "- extents.last < self._gap", "- extents.last <= self._gap"),
    Plant("core/eventtime/sessions/sessions.py", "closes <= self._clock.now", "closes < self._clock.now"),
    Plant(
        "core/eventtime/sessions/sessions.py",
        "self._timers.is_due(self._clock.now)",
        "self._timers.is_due(self._clock.now - 1)",
    ),
    Plant("core/eventtime/sessions/cells.py", "- extents.last[:-1] < gap", "- extents.last[:-1] <= gap"),
    Plant("core/eventtime/sessions/cells.py", "number[earlier - 1] + 2", "number[earlier - 1] + 1"),
    Plant(
        "core/eventtime/sessions/changes.py",
        "(cells.now.start != cells.was.start)",
        "(cells.now.start > cells.was.start)",
    ),
    Plant(
        "core/eventtime/sessions/batches.py",
        "(instants >= cells.was.last[owners])",
        "(instants > cells.was.last[owners])",
    ),
    Plant("core/eventtime/sessions/batches.py", "(before > 0) & (after > 0)", "(before > 0)"),
    Plant("core/eventtime/panes/unemitted.py", "firing.closed) < 0", "firing.closed) <= 0"),
    Plant(
        "core/eventtime/watermarks/source_clock.py", "times < self.clock.before", "times <= self.clock.before"
    ),
    Plant("core/eventtime/windows/holds.py", "state[END]) - 1", "state[END])"),
    Plant("core/operators/source_rows.py", "delta.diffs[last] > 0", "delta.diffs[last] >= 0"),
)
