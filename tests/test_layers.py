"""The house rules that a program can hold: who may import whom, where the links point, how files are named.

Imports are read with ``ast``, inside functions and under ``TYPE_CHECKING`` too: a cycle that is put off until a
function runs is a cycle. The rules are the tables below; a new module of the core needs a place in ``LEVELS``.
"""

import ast
import graphlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "evercurrent"

LAYERS = ("core", "views", "spark_bridge")
"""From the lowest: a layer imports itself and the layers before it."""

LEVELS = {
    "nouns": {
        "allocation",
        "tags",
        "errors",
        "clock",
        "schema",
        "value_words",
        "key_hash",
        "kernels",
        "row_values",
        "grouping",
        "stable_hash",
        "local_days",
        "directory",
        "exact",
        "delta",
        "json_texts",
        "plain_values",
        "user_states",
        "aggregates",
        "protocol",
        "saved",
        "routes",
        "placement",
        "instants",
        "recent",
        "ledger",
        "ownership",
        "release",
        "lossless",
    },
    "state": {
        "run",
        "run_columns",
        "spine",
        "reading",
        "levels",
        "timers",
        "expiry",
        "accumulators",
        "below_zero",
    },
    "operators": {"operators", "eventtime"},
    "circuit": {"circuit", "checked", "stages"},
}
"""Inside the core, from the lowest: a module imports its own level and the levels before it."""

STAND_ALONE = {"operators", "eventtime"}
"""Packages of the core in which no family imports another. A family is a file, unless ``FAMILIES`` says more."""

FAMILIES = {
    "operators.group_parts": "operators.group",
    "operators.partial_sums": "operators.group",
    "eventtime.session_batches": "eventtime.sessions",
    "eventtime.session_cells": "eventtime.sessions",
    "eventtime.session_changes": "eventtime.sessions",
    "eventtime.session_rows": "eventtime.sessions",
    "eventtime.arrival": "eventtime.watermarks",
    "eventtime.partition_watermarks": "eventtime.watermarks",
    "eventtime.percentile_watermarks": "eventtime.watermarks",
    "eventtime.custom_watermarks": "eventtime.watermarks",
    "eventtime.trigger_parts": "eventtime.triggers",
    "eventtime.trigger_states": "eventtime.triggers",
    "eventtime.trigger_inputs": "eventtime.triggers",
    "eventtime.firing": "eventtime.triggers",
    "eventtime.window_states": "eventtime.triggers",
    "eventtime.end_timers": "eventtime.triggers",
    "eventtime.watermark_holds": "eventtime.triggers",
    "eventtime.tracking": "eventtime.triggers",
    "eventtime.panes": "eventtime.triggers",
    "eventtime.latest": "eventtime.triggers",
    "eventtime.pending": "eventtime.triggers",
    "eventtime.rewindow": "eventtime.windows",
}
"""Files that belong to the family of another one."""

LIBRARIES = {
    "core": {"numpy", "polars", "pyarrow"},
    "views": {"numpy", "polars", "pyarrow", "networkx", "rich", "typer", "fsspec"},
    "spark_bridge": {"numpy", "polars", "pyarrow", "networkx", "pyspark", "deltalake"},
}
"""What a layer may import that is neither ours nor Python's."""

FOR_TESTS = {"evercurrent.views.testing": {"hypothesis", "pytest", "yaml"}}
"""Packages that serve the tests of users, and what they may import besides: nothing else imports them."""

NOT_IN_CORE = {"random", "secrets", "time", "uuid"}
"""Of Python's own modules, those that make an epoch depend on more than its input."""

MEASURE = {"evercurrent.core.circuit.circuit"}
"""May import ``time`` all the same: what is measured there decides nothing."""

NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc"}


@dataclass(frozen=True)
class Import:
    """One import statement: where it stands and which module it needs, by absolute name."""

    path: Path
    line: int
    module: str
    """The importing module, such as ``evercurrent.core.data.delta``; of a package, its ``__init__``."""
    target: str
    """The module or package imported: of ours as deep as files go, of others as written."""
    level: int
    """The number of leading dots; 0 where the import is absolute."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.module} imports {self.target}"

    @property
    def source_layer(self) -> str:
        return layer_of(self.module)

    @property
    def target_layer(self) -> str:
        return layer_of(self.target)


def layer_of(module: str) -> str:
    """``core`` of ``evercurrent.core.data.delta``; empty for what stands above the layers and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and parts[1:] and parts[1] in LAYERS else ""


@cache
def modules() -> dict[str, Path]:
    """The modules of the three layers and of the package, by name, with their real files."""
    package = ROOT / "src" / PACKAGE
    found = {path.relative_to(package): path for path in package.glob("*.py")}
    found |= {
        path.relative_to(ROOT): path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))
    }
    return {
        ".".join((PACKAGE, *place.with_suffix("").parts)).removesuffix(".__init__"): path
        for place, path in found.items()
    }


def imports_of(module: str, path: Path, source: str) -> Iterator[Import]:
    """The imports of a module. ``from x import y`` needs ``x.y`` where that is a module of ours, else ``x``."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, module, alias.name, 0)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                deeper = f"{origin}.{alias.name}"
                yield Import(path, node.lineno, module, deeper if deeper in modules() else origin, node.level)


@cache
def imports() -> tuple[Import, ...]:
    """All imports of the package and its layers."""
    return tuple(
        found
        for module, path in modules().items()
        for found in imports_of(module, path, path.read_text("utf-8"))
    )


def level_of(module: str) -> int | None:
    """The place in ``LEVELS`` of a module of the core; None for ``core/__init__.py``, which is above them all."""
    parts = module.split(".")
    if len(parts) < 3:
        return None
    return next((i for i, names in enumerate(LEVELS.values()) if parts[2] in names), None)


def family_of(module: str) -> str | None:
    """``operators.join`` of ``evercurrent.core.operators.join``; None outside of such packages."""
    parts = module.split(".")
    if len(parts) < 4 or parts[2] not in STAND_ALONE:
        return None
    name = ".".join(parts[2:4])
    return FAMILIES.get(name, name)


def goes_up(found: Import) -> bool:
    """Whether an import leads to a higher layer, or inside the core to a higher level or another family."""
    if found.target.split(".")[0] != PACKAGE or not found.source_layer:
        return False
    if not found.target_layer:
        return True
    if found.source_layer != found.target_layer:
        return LAYERS.index(found.target_layer) > LAYERS.index(found.source_layer)
    if found.source_layer != "core":
        return False
    here, there = level_of(found.module), level_of(found.target)
    if here is not None and (there is None or there > here):
        return True
    families = {family_of(found.module), family_of(found.target)} - {None}
    return len(families) > 1


def is_spelled_wrong(found: Import) -> bool:
    """Whether an import is absolute inside a layer, relative across layers, or names a root folder.

    Editors open the files under their real paths, where ``core`` is a folder and not ``evercurrent.core``: with this
    rule they see one class where there is one.
    """
    if found.level == 0 and found.target.split(".")[0] in LAYERS:
        return True
    if found.target.split(".")[0] != PACKAGE or not found.source_layer:
        return False
    return (found.level > 0) != (found.source_layer == found.target_layer)


def package_of(module: str) -> str:
    """The package of a layer that a module is in, or is: ``evercurrent.views.testing``."""
    return ".".join(module.split(".")[:3])


def is_foreign(found: Import) -> bool:
    """Whether an import is of a library that the layer must not know."""
    top = found.target.split(".")[0]
    if found.level or top == PACKAGE or not found.source_layer:
        return False
    if top in sys.stdlib_module_names:
        measures = top == "time" and found.module in MEASURE
        return found.source_layer == "core" and top in NOT_IN_CORE and not measures
    return top not in LIBRARIES[found.source_layer] and top not in FOR_TESTS.get(package_of(found.module), ())


def cycle_in(edges: dict[str, set[str]]) -> list[str]:
    """The modules along a cycle, the first one again at the end; empty where there is none."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def listed(found: Iterator[Import]) -> list[str]:
    return [str(each) for each in found]


def test_each_layer_is_read():
    """An empty layer would make every other test here pass."""
    assert {layer_of(module) for module in modules()} >= {*LAYERS, ""}


def test_imports_run_one_way():
    assert listed(found for found in imports() if goes_up(found)) == []


def test_relative_inside_a_layer_and_absolute_across():
    assert listed(found for found in imports() if is_spelled_wrong(found)) == []


def test_each_layer_knows_only_its_libraries():
    assert listed(found for found in imports() if is_foreign(found)) == []


def test_what_serves_the_tests_of_users_is_imported_by_nothing_else():
    """Installed without the libraries of tests, the package works."""
    found = [
        each
        for each in imports()
        if package_of(each.target) in FOR_TESTS
        and package_of(each.module) not in FOR_TESTS
        and each.module != f"{PACKAGE}.testing"
    ]
    assert listed(iter(found)) == []


def test_no_cycles():
    edges = {module: {found.target for found in imports() if found.module == module} for module in modules()}
    assert " -> ".join(cycle_in(edges)) == ""


def test_every_module_of_the_core_has_one_level():
    names = [name for level in LEVELS.values() for name in level]
    assert len(names) == len(set(names))
    inside = {module.split(".")[2] for module in modules() if module.startswith(f"{PACKAGE}.core.")}
    assert sorted(inside - set(names)) == [], "give it a place in LEVELS"


@pytest.mark.parametrize("layer", LAYERS)
def test_links_point_home(layer):
    link = ROOT / "src" / PACKAGE / layer
    assert os.readlink(link) == f"../../{layer}"
    assert link.resolve() == ROOT / layer


def test_only_links_and_a_few_files_in_the_package_folder():
    inside = {path.name for path in (ROOT / "src" / PACKAGE).iterdir()} - {"__pycache__"}
    assert inside <= {*LAYERS, "__init__.py", "__main__.py", "testing.py", "py.typed"}


def test_names_of_files():
    """Not named like a module of Python, which it would hide or be mistaken for, and named for what it holds."""
    folders = [ROOT / name for name in (*LAYERS, "tests", "bench")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if ".envs" not in path.parts]
    stems = {path.parent if path.stem in ("__init__", "__main__") else path for path in paths}
    taken = sorted(str(path.relative_to(ROOT)) for path in stems if path.stem in sys.stdlib_module_names)
    assert taken == []
    empty = sorted(
        str(path.relative_to(ROOT)) for path in stems if path.stem.strip("_") in NAMES_THAT_SAY_NOTHING
    )
    assert empty == []


# The checker is checked: each of these must be found.


def one(module: str, source: str, file: str = "x.py") -> Import:
    (found,) = imports_of(f"{PACKAGE}.{module}", Path(file), source)
    return found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.delta", "from .spine import Spine"),
        ("core.delta", "from . import Delta"),
        ("core.spine", "def late():\n    from .operators.join import Join"),
        ("core.operators.join", "from .group import Group"),
        ("core.operators.join", "from ..circuit import Circuit"),
        ("core.schema", "import evercurrent"),
        ("core.schema", "import evercurrent.views"),
        ("views.engine", "from evercurrent.spark_bridge import run"),
    ],
)
def test_finds_what_goes_up(module, source):
    assert goes_up(one(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.delta", "from .kernels import consolidated_rows"),
        ("core.operators.join", "from ..spine import Spine"),
        ("core.circuit", "from .operators.join import Join"),
        ("views.engine", "from evercurrent.core.circuit.circuit import Circuit"),
        ("spark_bridge.stages", "from evercurrent.views.engine.engine import Engine"),
    ],
)
def test_lets_pass_what_goes_down(module, source):
    found = one(module, source)
    assert not goes_up(found)
    assert not is_spelled_wrong(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.delta", "from evercurrent.core.data.schema import DIFF"),
        ("views.engine", "from ..core.schema import DIFF"),
        ("views.engine", "from core.schema import DIFF"),
        ("views.engine", "import core"),
    ],
)
def test_finds_what_is_spelled_wrong(module, source):
    assert is_spelled_wrong(one(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.delta", "import networkx as nx"),
        ("core.operators.join", "from time import perf_counter"),
        ("views.cli", "from pyspark.sql import SparkSession"),
        ("spark_bridge.stages", "import typer"),
    ],
)
def test_finds_foreign_libraries(module, source):
    assert is_foreign(one(module, source))


def test_reads_a_relative_import_from_an_init():
    assert (
        one("core.operators", "from .join import Join", "__init__.py").target
        == f"{PACKAGE}.core.operators.join"
    )
    assert one("core.operators", "from .. import errors", "__init__.py").target == f"{PACKAGE}.core.errors"


def test_finds_a_cycle():
    assert set(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


POLARS_FORM = {
    f"views.expressions.{name}"
    for name in (
        "polars_forms",
        "polars_functions",
        "polars_reader",
        "polars_tree",
        "polars_values",
        "polars_writer",
    )
}
"""The modules that know how polars writes expressions; the other words of that form are in no other."""

FORM_WORDS = (
    "AnonymousFunction",
    "ArrayExpr",
    "BinaryExpr",
    "FfiPlugin",
    "ListExpr",
    "RenameAlias",
    "StringExpr",
    "TemporalExpr",
)
FORM_CALLS = {"deserialize", "serialize"}


def test_nobody_else_knows_how_polars_writes_expressions():
    for module, path in modules().items():
        if module.removeprefix(f"{PACKAGE}.") in POLARS_FORM:
            continue
        source = path.read_text("utf-8")
        assert not [word for word in FORM_WORDS if word in source], module
        if module.startswith((f"{PACKAGE}.views", f"{PACKAGE}.core")):
            called = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
            assert called.isdisjoint(FORM_CALLS), module
