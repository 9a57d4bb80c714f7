"""A copy of the package in which classes have other names and modules stand elsewhere, made mechanically.

The public names stay: those of ``evercurrent`` and ``evercurrent.testing``. Whoever imports a class goes on calling it as
before (``from new import New as Old``), while the class itself, its module and its file are called otherwise. Some classes
take names that other classes had.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PACKAGE = "evercurrent"
LAYERS = ("core", "views", "spark_bridge")
STAY = {PACKAGE, f"{PACKAGE}.testing"}
"""The public modules."""


@dataclass
class Renaming:
    """New names of modules, and of classes by the module and the name that they had."""

    modules: dict[str, str] = field(default_factory=dict)
    classes: dict[tuple[str, str], str] = field(default_factory=dict)

    def module(self, name: str) -> str:
        """Where a module is now: what is not moved itself goes with its package."""
        if name in self.modules or "." not in name:
            return self.modules.get(name, name)
        parent, _, leaf = name.rpartition(".")
        return f"{self.module(parent)}.{leaf}"


def renamed_copy(source: Path, target: Path, random: Random, share: float) -> Renaming:
    """Write the package that is in ``source`` into ``target``, with this share of its classes and modules renamed."""
    trees = {name: ast.parse(path.read_text()) for name, path in modules_in(source).items()}
    packages = {name for name, path in modules_in(source).items() if path.name == "__init__.py"}
    renaming = _drawn(trees, random, share)
    for name, tree in trees.items():
        rewritten = _Rewriting(name, name in packages, renaming, trees.keys()).visit(tree)
        path = target.joinpath(*renaming.module(name).split("."))
        path = path / "__init__.py" if name in packages else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ast.unparse(rewritten) + "\n")
    for folder in target.rglob("*/"):
        (folder / "__init__.py").touch()
    return renaming


def modules_in(source: Path) -> dict[str, Path]:
    """The files of all modules of the package, by their names."""
    files = [*source.glob("*.py"), *(path for layer in LAYERS for path in (source / layer).rglob("*.py"))]
    found = {}
    for path in files:
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return dict(sorted(found.items()))


def classes_of(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def _drawn(trees: dict[str, ast.Module], random: Random, share: float) -> Renaming:
    renaming = Renaming()
    names = sorted({name for tree in trees.values() for name in classes_of(tree)})
    for number, (module, tree) in enumerate(trees.items()):
        # A class that keeps its name need not be named in its own module.
        taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}.union(classes_of(tree))
        taken |= {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in (name for name in classes_of(tree) if random.random() < share):
            other = random.choice(names)
            new = (
                other
                if other not in taken and random.random() < 0.5
                else f"Class{number}Of{random.randrange(10**6)}"
            )
            taken.add(new)
            renaming.classes[module, name] = new
        if module not in STAY and random.random() < share:
            parent = module.rpartition(".")[0]
            # What a package imports when it is imported stays in it, or there would be circles.
            stays = any(isinstance(node, ast.ImportFrom) for node in trees[parent].body) and parent != PACKAGE
            home = renaming.module(parent) if stays else f"{PACKAGE}.folder_{random.randrange(6)}"
            renaming.modules[module] = f"{home}.module_{number}"
    return renaming


class _Rewriting(ast.NodeTransformer):
    """Writes a module anew: its own classes by their new names, imports from where things are now."""

    def __init__(self, module: str, is_package: bool, renaming: Renaming, modules: object) -> None:
        self._module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._renaming = renaming
        self._modules = set(modules)  # type: ignore[call-overload]
        self._imported: dict[str, str] = {}
        """Modules of ours, by what they are called here."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if node.col_offset == 0:
            node.name = self._new(self._module, node.name)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._new(self._module, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self._imported:
            node.attr = self._new(self._imported[node.value.id], node.attr)
        return self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST:
        assert not any(alias.name.partition(".")[0] == PACKAGE for alias in node.names), ast.unparse(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        origin = node.module or ""
        if node.level:
            parts = self._package.split(".")
            origin = ".".join((*parts[: len(parts) - node.level + 1], *filter(None, [node.module])))
        if origin.partition(".")[0] != PACKAGE:
            return [node]
        return [self._import(origin, alias) for alias in node.names]

    def _import(self, origin: str, alias: ast.alias) -> ast.stmt:
        here = alias.asname or alias.name
        if f"{origin}.{alias.name}" in self._modules:
            self._imported[here] = f"{origin}.{alias.name}"
            parent, _, leaf = self._renaming.module(f"{origin}.{alias.name}").rpartition(".")
            return ast.ImportFrom(parent, [ast.alias(leaf, here)], 0)
        # What a module imports and does not define has its old name there.
        made = self._new(origin, alias.name)
        called = None if made == "*" else here
        return ast.ImportFrom(self._renaming.module(origin), [ast.alias(made, called)], 0)

    def _new(self, module: str, name: str) -> str:
        return self._renaming.classes.get((module, name), name)
