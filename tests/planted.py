"""Faults of one line, planted in the functions that run: what the examples of a law are worth is what they find.

A plant is a text of a file and what stands there instead; a mutant is drawn from all places where a comparison, a sign, a
condition or a small number could be another one. A fault is planted by giving the function that has it other code, and taken
out again; nothing on the disk changes.
"""

from __future__ import annotations

import ast
import importlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Fault:
    """A file that differs from what it should be."""

    file: str

    def faulty(self, text: str) -> str | ast.Module:
        """Return what the file would be."""
        raise NotImplementedError

    def functions(self) -> list[tuple[FunctionType, CodeType]]:
        """The functions that the fault changes, each with the code that it then has."""
        text = (ROOT / self.file).read_text("utf-8")
        module = importlib.import_module("evercurrent." + self.file.removesuffix(".py").replace("/", "."))
        right, wrong = (
            dict(codes(compile(each, str(module.__file__), "exec", dont_inherit=True)))
            for each in (text, self.faulty(text))
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


@dataclass(frozen=True)
class Plant(Fault):
    """A fault: in this file, the first place that reads so reads otherwise."""

    right: str
    wrong: str

    @property
    def fits(self) -> bool:
        """Whether the file still has the text."""
        return self.right in (ROOT / self.file).read_text("utf-8")

    def faulty(self, text: str) -> str:
        return text.replace(self.right, self.wrong, 1)

    def __str__(self) -> str:
        return f"{self.file}: {self.wrong} for {self.right}"


@dataclass(frozen=True)
class Mutant(Fault):
    """A fault: in this file, the place of this number reads otherwise."""

    place: int

    def faulty(self, text: str) -> ast.Module:
        tree = ast.parse(text)
        other_way_round(places_of(tree)[self.place][1])
        return tree

    def __str__(self) -> str:
        place = places_of(ast.parse((ROOT / self.file).read_text("utf-8")))[self.place][1]
        right, line = ast.unparse(place), getattr(place, "lineno", 0)
        other_way_round(place)
        return f"{self.file}:{line}: {ast.unparse(place)} for {right}"


OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
"""What stands in the place of an operator."""


def other_way_round(place: ast.AST) -> None:
    """Let this place of a tree read otherwise."""
    match place:
        case ast.Compare(ops=[operator, *rest]):
            place.ops = [OTHER[type(operator)](), *rest]  # type: ignore[list-item]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator):
            place.op = OTHER[type(operator)]()  # type: ignore[assignment]
        case ast.Constant(value=value):
            place.value = not value if isinstance(value, bool) else 1 - value
        case _:
            raise TypeError(ast.unparse(place))


def places_of(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """All places that could read otherwise, each with the names of the function that it is in: no types and no messages of errors."""
    places: list[tuple[str, ast.AST]] = []

    def look(node: ast.AST, names: tuple[str, ...], is_in_function: bool) -> None:
        match node:
            case ast.Raise() | ast.Assert():
                return
            case ast.FunctionDef(name=name):
                for each in node.body:
                    look(each, (*names, name), True)
                return
            case ast.ClassDef(name=name):
                names = (*names, name)
            case ast.AnnAssign(value=value):
                if value is not None:
                    look(value, names, is_in_function)
                return
            case ast.Compare(ops=[operator, *_]) | ast.BinOp(op=operator) | ast.BoolOp(op=operator):
                if is_in_function and type(operator) in OTHER:
                    places.append((".".join(names), node))
            case ast.Constant(value=0 | 1):
                if is_in_function and isinstance(node.value, int):
                    places.append((".".join(names), node))
        for child in ast.iter_child_nodes(node):
            look(child, names, is_in_function)

    look(tree, (), False)
    return places


def mutants(called: Iterable[CodeType], at_most: int, seed: int) -> list[Mutant]:
    """So many faults, drawn from all that could be in these functions.

    A function within another one changes with that one, so both have to be called: one that a decorator has made, when its module was
    imported, would stay as it is.
    """
    qualified: dict[Path, set[str]] = {}
    every = tuple(called)
    whole = {(code.co_filename, code.co_qualname) for code in every}
    for code in every:
        if (code.co_filename, code.co_qualname.split(".<locals>")[0]) not in whole:
            continue
        names = code.co_qualname.replace(".<locals>", "").split(".<")[0]
        qualified.setdefault(Path(code.co_filename).resolve(), set()).add(names)
    possible = [
        Mutant(path.relative_to(ROOT).as_posix(), number)
        for path in sorted(qualified)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("core", "views")
        for number, (names, _) in enumerate(places_of(ast.parse(path.read_text("utf-8"))))
        if names in qualified[path]
    ]
    return random.Random(seed).sample(possible, min(at_most, len(possible)))


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
    Plant("core/operators/group/accumulators.py", "sums, height) <= 0", "sums, height) < 0"),
    Plant(
        "core/operators/group/accumulators.py",
        "pl.Series(degrees <= 0), None) if (degrees <= 0)",
        "pl.Series(degrees < 0), None) if (degrees < 0)",
    ),
    Plant(
        "core/operators/group/accumulators.py",
        "pl.Series(values == 0), None) if (values == 0)",
        "pl.Series(values < 0), None) if (values < 0)",
    ),
    Plant(
        "views/expressions/polars_writer.py",
        "kind, form = forms_by_our_names()[node.function]",
        'kind, form = forms_by_our_names()[node.function.replace("bitwise_or", "bitwise_and")]',
    ),
    Plant("core/operators/group/heads.py", "(mine < theirs)", "(mine > theirs)"),
    Plant("core/operators/group/group_by.py", "is_first=now.epoch == 0", "is_first=now.epoch <= 1"),
    Plant(
        "core/operators/group/group_by.py",
        "expired is None or not len(expired)",
        "expired is None or len(expired) < 2",
    ),
    Plant(
        "core/operators/group/ranks.py",
        "return (counts - 1) // 2, counts // 2",
        "return counts // 2, counts // 2",
    ),
    Plant(
        "core/state/ranked_runs.py",
        "(counted > high).all(axis=0)",
        "(counted >= high).all(axis=0)",
    ),
    Plant(
        "core/operators/group/ranked_states.py",
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
    Plant(
        "core/eventtime/panes/panes.py",
        "self.stands[entries[firsts]] = True",
        "self.stands[entries] = True",
    ),
    Plant("core/eventtime/panes/panes.py", "after[EMPTIED][emptied] = 1", "after[EMPTIED][emptied] = 0"),
    Plant("core/eventtime/panes/unemitted.py", "firing.closed) < 0", "firing.closed) <= 0"),
    Plant(
        "core/eventtime/watermarks/source_clock.py", "times < self.clock.before", "times <= self.clock.before"
    ),
    Plant("core/eventtime/windows/holds.py", "state[END]) - 1", "state[END])"),
    Plant("core/operators/source_rows.py", "delta.diffs[last] > 0", "delta.diffs[last] >= 0"),
)
