"""The modules of the three layers as syntax trees: what their names mean, and for which classes they test."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "evercurrent"

LAYERS = ("core", "views", "spark_bridge")
"""From the lowest: a layer imports itself and the layers before it."""


def tree_of(source: str) -> ast.Module:
    """Return the syntax tree of a source.

    No cyclic garbage is collected meanwhile: a finalizer may switch to a thread that parses too, after which CPython 3.11.7 ends
    the parse that was interrupted with "AST constructor recursion depth mismatch" (python/cpython#106905).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a syntax tree; each of the trees of the modules is walked once for all questions."""
    return tuple(ast.walk(tree))


@cache
def modules() -> dict[str, Path]:
    """The modules of the three layers and of the package, by name, with their real files."""
    package = ROOT / "src" / PACKAGE
    paths = {path.relative_to(package): path for path in package.glob("*.py")}
    paths |= {
        path.relative_to(ROOT): path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))
    }
    return {
        ".".join((PACKAGE, *place.with_suffix("").parts)).removesuffix(".__init__"): path
        for place, path in paths.items()
    }


@dataclass(frozen=True, slots=True)
class Family:
    """Classes that declare everything about themselves: a subclass of ``base`` is tested for by name in ``own`` alone."""

    base: str
    """The class that they all are, by module and name."""
    outside: tuple[str, ...]
    """The modules that are held to it, by their beginnings."""
    own: tuple[str, ...] = ()
    """Those that are not, although they are among these."""
    types: tuple[str, ...] = ()
    """Those of the family that stand for all of it: any module may test for them, to check what a user gave."""


OPERATORS = Family(f"{PACKAGE}.core.state.operator_contract.Operator", LAYERS)
PLAN_NODES = Family(
    f"{PACKAGE}.views.plan.traits.Traits", ("views", "spark_bridge"), ("views.plan", "views.compiler")
)

WATERMARKS, TRIGGERS, WINDOWS, CLOCKS, AGGREGATES, AGGREGATE_STATES = (
    Family(f"{PACKAGE}.core.{base}", LAYERS, types=tuple(f"{PACKAGE}.core.{each}" for each in (base, *types)))
    for base, *types in (
        ("eventtime.watermarks.kinds.Watermark",),
        ("eventtime.triggers.kinds.Trigger",),
        ("eventtime.windows.kinds.WindowTraits", "eventtime.windows.kinds.Window"),
        ("data.clock.OwnClock",),
        ("operators.group.aggregates.AggregateTraits", "operators.group.aggregates.Aggregate"),
        ("operators.group.aggregate_contract.AggregateState",),
    )
)
KINDS = (WATERMARKS, TRIGGERS, WINDOWS, CLOCKS, AGGREGATES, AGGREGATE_STATES)
"""What a user may have more of some day, each kind in a file of its own."""


def names_in(module: str, path: Path, tree: ast.Module) -> dict[str, str]:
    """What the names of a module mean that are classes of it, or imported: by module and name."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    meanings = {
        node.name: f"{module}.{node.name}" for node in nodes_of(tree) if isinstance(node, ast.ClassDef)
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            meanings |= {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names}
    return meanings


@cache
def trees() -> dict[str, tuple[ast.Module, dict[str, str]]]:
    """Each module with the meanings of its names."""
    parsed = {module: tree_of(path.read_text("utf-8")) for module, path in modules().items()}
    return {module: (tree, names_in(module, modules()[module], tree)) for module, tree in parsed.items()}


@cache
def classes_and_unions() -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Each class, and each name of a union or tuple: its module, its name, and what its bases or its parts mean."""
    found = []
    for module, (tree, names) in trees().items():
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                name, bases = node.name, node.bases
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp | ast.Tuple):
                target, bases = node.targets[0], [*classes_in(node.value)]
                name = target.id if isinstance(target, ast.Name) else ""
            else:
                continue
            meant = {names.get(base.id, "") for base in bases if isinstance(base, ast.Name)} - {""}
            if name and meant:
                found.append((module, name, frozenset(meant)))
    return tuple(found)


@cache
def members_of(family: Family) -> frozenset[str]:
    """All classes of a family, and names of unions of them."""
    members, before = {family.base}, set[str]()
    while members != before:
        before = set(members)
        members |= {f"{module}.{name}" for module, name, bases in classes_and_unions() if bases & members}
    return frozenset(members)


def classes_in(node: ast.expr) -> Iterator[ast.expr]:
    """The classes of ``A | B`` and of ``(A, B)``."""
    if isinstance(node, ast.BinOp):
        yield from (*classes_in(node.left), *classes_in(node.right))
    elif isinstance(node, ast.Tuple):
        yield from (each for part in node.elts for each in classes_in(part))
    else:
        yield node


@cache
def tested_classes(tree: ast.AST) -> tuple[tuple[int, ast.expr, str], ...]:
    """The classes that a module tests for, with their lines and as they are written."""
    return tuple((line, each, ast.unparse(each)) for line, each in _tested_classes(tree))


def _tested_classes(tree: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """The classes in ``isinstance``, ``issubclass``, class patterns and comparisons of types, with their lines."""
    for node in nodes_of(tree):
        if isinstance(node, ast.MatchClass):
            yield node.lineno, node.cls
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from ((node.lineno, each) for each in classes_in(node.args[1]))
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            yield from ((node.lineno, each) for part in node.comparators for each in classes_in(part))


def class_tests_in(family: Family, module: str, tree: ast.AST, names: dict[str, str]) -> list[str]:
    """Where a module tests for a class of a family, other than those that it defines itself."""
    return [
        f"{module}:{line}: {written}"
        for line, each, written in tested_classes(tree)
        if (meant := meaning_of(each, names)) in members_of(family)
        and meant not in family.types
        and meant.rpartition(".")[0] != module
    ]


def meaning_of(node: ast.expr, names: dict[str, str]) -> str:
    """What a name means, or ``module.name``, by module and name; empty if that is not of this package."""
    if isinstance(node, ast.Attribute):
        return f"{meaning_of(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def is_held(family: Family, module: str) -> bool:
    """Whether a module is outside of what a family is free in."""
    return is_in(module, family.outside) and not is_in(module, family.own)


def is_in(module: str, rooms: tuple[str, ...]) -> bool:
    """Whether a module is in one of these rooms or layers."""
    return any(f"{module}.".startswith(f"{PACKAGE}.{room}.") for room in rooms)
