"""The house rules that a program can hold: who may import whom, where the links point, how files are named.

Imports are read with ``ast``, inside functions and under ``TYPE_CHECKING`` too: a cycle that is put off until a
function runs is a cycle. The rules are the tables below; a new folder needs a place in ``FLOORS``.
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

from source_modules import (
    AGGREGATE_STATES,
    AGGREGATES,
    CLOCKS,
    KINDS,
    LAYERS,
    OPERATORS,
    PACKAGE,
    PLAN_NODES,
    ROOT,
    TRIGGERS,
    WATERMARKS,
    WINDOWS,
    Family,
    class_tests_in,
    is_held,
    members_of,
    modules,
    names_in,
    nodes_of,
    tree_of,
    trees,
)

FLOORS = (
    # core
    {"core.data"},
    {"core.state"},
    {"core.operators", "core.eventtime"},
    {"core.circuit"},
    # views
    {"views.expressions", "views.store", "views.connectors", "views.concurrency"},
    {"views.plan", "views.checkpoint", "views.sinks"},
    {"views.dataframe", "views.compiler", "views.epochs"},
    {"views.inspection", "views.durability"},
    {"views.partitioned"},
    {"views.engine"},
    {"views.testing", "views.apps", "views.cli"},
    # spark_bridge
    {"spark_bridge.runtime", "spark_bridge.deploy"},
    {"spark_bridge.input"},
    {"spark_bridge.execution"},
    {"spark_bridge.output"},
    {"spark_bridge.query"},
    {"spark_bridge.batch", "spark_bridge.cli_driver"},
)
"""The rooms, floor by floor from the lowest: a module imports its own room and rooms on lower floors."""

PARTS = {
    "core.data": ({"core.data.columns"}, {"core.data"}),
    "core.operators": ({"core.operators", "core.operators.group"},),
    "core.eventtime": (
        {"core.eventtime.triggers"},
        {
            "core.eventtime.watermarks",
            "core.eventtime.sessions",
            "core.eventtime.panes",
            "core.eventtime.windows",
        },
    ),
    "views.inspection": (
        {"views.inspection", "views.inspection.proving", "views.inspection.timeline"},
        {"views.inspection.tracing"},
    ),
}
"""The rooms of several folders, row by row from the lowest: a folder imports itself and folders of lower rows."""

KEEPS_TO = {
    "core.eventtime.triggers": {"core.data"},
    "views.inspection.proving": {"views.expressions", "views.plan"},
    "views.inspection.timeline": {"views.plan", "views.epochs"},
}
"""Folders that import less than their room: of their layer these rooms alone, and their own."""

STAND_ALONE = {"core.operators"}
"""Folders of which no file imports another."""

LIBRARIES = {
    "core": {"numpy", "polars", "pyarrow"},
    "views": {
        "numpy",
        "polars",
        "pyarrow",
        "networkx",
        "rich",
        "typer",
        "fsspec",
        "opentelemetry",
        "sqlalchemy",
        "deltalake",
        "pyiceberg",
    },
    "spark_bridge": {"numpy", "polars", "pyarrow", "networkx", "pyspark"},
}
"""What a layer may import that is neither ours nor Python's."""

FOR_TESTS = {"evercurrent.views.testing": {"hypothesis", "pytest", "yaml"}}
"""Packages that serve the tests of users, and what they may import besides: nothing else imports them."""

NOT_IN_CORE = {"random", "secrets", "time", "uuid"}
"""Of Python's own modules, those that make an epoch depend on more than its input."""

MEASURE = {"evercurrent.core.circuit.circuit"}
"""May import ``time`` all the same: what is measured there decides nothing."""

EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}


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


def imports_of(module: str, path: Path, tree: ast.Module) -> Iterator[Import]:
    """The imports of a module. ``from x import y`` needs ``x.y`` where that is a module of ours, else ``x``."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in nodes_of(tree):
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
        for module, (tree, _) in trees().items()
        for found in imports_of(module, modules()[module], tree)
    )


def place_of(module: str, rows: tuple[set[str], ...]) -> str | None:
    """The deepest of the folders in these rows that a module is in; None of what is in none."""
    parts = module.split(".")[1:]
    names = [".".join(parts[:size]) for size in range(len(parts), 1, -1)]
    return next((name for name in names if any(name in row for row in rows)), None)


def room_of(module: str) -> str | None:
    """``core.data`` of ``evercurrent.core.data.columns.kernels``; None of what is in no room."""
    return place_of(module, FLOORS)


def part_of(module: str, room: str) -> str | None:
    """``core.data.columns`` of the same module: the folder of a room that it is in."""
    return place_of(module, PARTS.get(room, ({room},)))


def row_of(place: str, rows: tuple[set[str], ...]) -> int:
    """In which row a room or a folder is."""
    return next(number for number, row in enumerate(rows) if place in row)


def goes_up(found: Import) -> bool:
    """Whether an import leads to a higher layer, or to a room that is not on a lower floor, or so inside a room."""
    if found.target.split(".")[0] != PACKAGE or not found.source_layer:
        return False
    if not found.target_layer:
        return True
    if found.source_layer != found.target_layer:
        return LAYERS.index(found.target_layer) > LAYERS.index(found.source_layer)
    here, there = room_of(found.module), room_of(found.target)
    if here is None:
        return False
    if there is None or here != there:
        rooms = KEEPS_TO.get(part_of(found.module, here) or "")
        goes_further = rooms is not None and there not in rooms
        return there is None or goes_further or row_of(there, FLOORS) >= row_of(here, FLOORS)
    return goes_up_inside(found, here)


def goes_up_inside(found: Import, room: str) -> bool:
    """Whether an import inside a room leads to a folder that is not in a lower row, or between files that stand alone."""
    here, there = part_of(found.module, room), part_of(found.target, room)
    if here is None or there is None:
        return found.module != found.target
    if here == there:
        return here in STAND_ALONE and found.module != found.target
    return row_of(there, PARTS[room]) >= row_of(here, PARTS[room])


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
    """Whether an import is of a library that the layer must not use."""
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


def test_each_layer_imports_only_its_libraries():
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


def folders_with_files(layer: str) -> set[str]:
    """The folders of a layer that have files beside their ``__init__``, ``core.data.columns``."""
    return {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / layer).rglob("*.py")
        if path.stem != "__init__" and path.parent != ROOT / layer
    }


def test_every_module_is_in_a_room():
    rooms = [room for floor in FLOORS for room in floor]
    assert len(rooms) == len(set(rooms))
    around = {f"{PACKAGE}.{name}" for layer in LAYERS for name in (layer, "core.eventtime")}
    outside = [
        module
        for module in modules()
        if layer_of(module) and room_of(module) is None and module not in around
    ]
    assert outside == [], "give their folder a place in FLOORS"
    assert {room for module in modules() if (room := room_of(module)) is not None} == set(rooms)


def test_every_folder_of_a_room_is_in_a_row():
    assert set(PARTS) <= {room for floor in FLOORS for room in floor}
    parts = [part for rows in PARTS.values() for row in rows for part in row]
    assert len(parts) == len(set(parts))
    folders = {folder for layer in LAYERS for folder in folders_with_files(layer)}
    rooms = {room for floor in FLOORS for room in floor}
    assert folders <= rooms | set(parts), "give them a row in PARTS"
    assert set(parts) <= folders


@pytest.mark.parametrize("layer", LAYERS)
def test_links_point_home(layer):
    link = ROOT / "src" / PACKAGE / layer
    assert os.readlink(link) == f"../../{layer}"
    assert link.resolve() == ROOT / layer


def test_only_links_and_a_few_files_in_the_package_folder():
    inside = {path.name for path in (ROOT / "src" / PACKAGE).iterdir()} - {"__pycache__"}
    assert inside <= {
        *LAYERS,
        "__init__.py",
        "__main__.py",
        "loading.py",
        "telemetry.py",
        "testing.py",
        "py.typed",
    }


def test_names_of_files():
    """Not named like a module of Python, which it would hide or be mistaken for, and named for what it holds."""
    folders = [ROOT / name for name in (*LAYERS, "tests", "bench")]
    paths = [path for folder in folders for path in folder.rglob("*.py") if ".envs" not in path.parts]
    stems = {path.parent if path.stem in ("__init__", "__main__") else path for path in paths}
    taken = sorted(str(path.relative_to(ROOT)) for path in stems if path.stem in sys.stdlib_module_names)
    assert taken == []
    empty = sorted(str(path.relative_to(ROOT)) for path in stems if path.stem.strip("_") in EMPTY_NAMES)
    assert empty == []


# The checker is checked: each of these must be found.


def one(module: str, source: str, file: str = "x.py") -> Import:
    (found,) = imports_of(f"{PACKAGE}.{module}", Path(file), tree_of(source))
    return found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.data.delta", "from ..state.spine import Spine"),
        ("core.data.delta", "from .. import Delta"),
        ("core.state.spine", "def late():\n    from ..operators.join import Join"),
        ("core.operators.join", "from .distinct import Distinct"),
        ("core.operators.join", "from .group.group_by import GroupBy"),
        ("core.operators.group.group_by", "from ..join import Join"),
        ("core.data.columns.kernels", "from ..delta import Delta"),
        ("core.eventtime.triggers.kinds", "from ..panes.panes import Panes"),
        ("core.eventtime.panes.panes", "from ..windows.kinds import Fixed"),
        ("core.operators.join", "from ..eventtime.triggers.kinds import Trigger"),
        ("core.state.spine", "from ..eventtime.triggers.kinds import Trigger"),
        ("core.eventtime.triggers.kinds", "from ...state.spine import Spine"),
        ("views.inspection.proving.proof", "from ...compiler.compiler import compiled"),
        ("views.inspection.timeline.timeline", "from ..proving.proof import Proof"),
        ("views.inspection.why", "from .tracing.lineage import Lineage"),
        ("core.operators.join", "from ..circuit.circuit import Circuit"),
        ("core.data.schema", "import evercurrent"),
        ("core.data.schema", "import evercurrent.views"),
        ("views.plan.plan", "from ..engine.engine import Engine"),
        ("views.inspection.why", "from ..durability.backfill import filled"),
        ("views.engine.engine", "from evercurrent.spark_bridge import run"),
    ],
)
def test_finds_what_goes_up(module, source):
    assert goes_up(one(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.data.delta", "from .columns.kernels import gather"),
        ("core.data.delta", "from .schema import DIFF"),
        ("core.eventtime.panes.panes", "from ..triggers.kinds import Trigger"),
        ("views.inspection.tracing.history", "from ..tables import table"),
        ("core.operators.join", "from ..state.spine import Spine"),
        ("core.circuit.circuit", "from ..operators.join import Join"),
        ("views.engine.engine", "from evercurrent.core.circuit.circuit import Circuit"),
        ("spark_bridge.query", "from evercurrent.views.engine.engine import Engine"),
    ],
)
def test_lets_pass_what_goes_down(module, source):
    found = one(module, source)
    assert not goes_up(found)
    assert not is_spelled_wrong(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.data.delta", "from evercurrent.core.data.schema import DIFF"),
        ("views.engine.engine", "from ...core.data.schema import DIFF"),
        ("views.engine.engine", "from core.data.schema import DIFF"),
        ("views.engine.engine", "import core"),
    ],
)
def test_finds_what_is_spelled_wrong(module, source):
    assert is_spelled_wrong(one(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.data.delta", "import networkx as nx"),
        ("core.operators.join", "from time import perf_counter"),
        ("views.cli", "from pyspark.sql import SparkSession"),
        ("spark_bridge.query", "import typer"),
    ],
)
def test_finds_foreign_libraries(module, source):
    assert is_foreign(one(module, source))


def test_reads_a_relative_import_from_an_init():
    assert (
        one("core.operators", "from .join import Join", "__init__.py").target
        == f"{PACKAGE}.core.operators.join"
    )
    assert (
        one("core.operators", "from ..data import errors", "__init__.py").target
        == f"{PACKAGE}.core.data.errors"
    )


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
"""The modules that handle the form in which polars writes expressions; the other words of that form are in no other."""

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


def test_no_other_module_reads_the_form_in_which_polars_writes_expressions():
    for module, path in modules().items():
        if module.removeprefix(f"{PACKAGE}.") in POLARS_FORM:
            continue
        source = path.read_text("utf-8")
        assert not [word for word in FORM_WORDS if word in source], module
        if module.startswith((f"{PACKAGE}.views", f"{PACKAGE}.core")):
            called = {node.attr for node in nodes_of(trees()[module][0]) if isinstance(node, ast.Attribute)}
            assert called.isdisjoint(FORM_CALLS), module


# Which modules test for which classes.


@pytest.mark.parametrize("family", [OPERATORS, PLAN_NODES, *KINDS], ids=lambda family: family.base)
def test_an_operator_and_a_plan_node_declare_everything_about_themselves(family: Family):
    assert len(members_of(family)) > (4 if family in KINDS else 10)
    found = [
        line
        for module, (tree, names) in trees().items()
        if is_held(family, module)
        for line in class_tests_in(family, module, tree, names)
    ]
    assert found == [], "declare it with a member of the base class"


WITH_MEMBERS = ("operator", "watermark", "specification", "trigger", "window", "clock", "aggregate")
"""No module looks up which members something has that is called so."""


def is_of_a_kind(written: str) -> bool:
    """Whether an expression seems to be an operator, or of a kind."""
    return "operator" in written or any(word in written.split(".")[-1] for word in WITH_MEMBERS)


def test_no_module_looks_up_which_members_an_operator_or_a_kind_has():
    found = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, (tree, _) in trees().items()
        for node in nodes_of(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("hasattr", "getattr")
        and is_of_a_kind(ast.unparse(node.args[0]))
        and ast.unparse(node.args[1]) != "'__name__'"
    ]
    assert found == [], "members of operators and kinds have defaults in their base class"


@pytest.mark.parametrize(
    ("family", "source"),
    [
        (OPERATORS, "from evercurrent.core.operators.group.group_by import GroupBy\nisinstance(x, GroupBy)"),
        (
            OPERATORS,
            "from evercurrent.core.operators.group.group_by import GroupBy as G\nisinstance(x, int | G)",
        ),
        (
            OPERATORS,
            "from evercurrent.core.operators.join import Join\nmatch x:\n    case Join():\n        pass",
        ),
        (PLAN_NODES, "from ..plan.nodes import Group, Top\nisinstance(x, (Top, Group))"),
        (PLAN_NODES, "from ..plan.nodes import Operation\nisinstance(x, Operation)"),
        (
            WATERMARKS,
            "from evercurrent.core.eventtime.watermarks.kinds import Perfect\nisinstance(x, Perfect)",
        ),
        (
            WATERMARKS,
            "from evercurrent.core.eventtime.watermarks import kinds\nisinstance(x, kinds.Perfect)",
        ),
        (
            TRIGGERS,
            "from evercurrent.core.eventtime.triggers.custom import Custom\nmatch x:\n    case Custom():\n        pass",
        ),
        (
            WINDOWS,
            "from evercurrent.core.eventtime.windows.kinds import Global, Given\nisinstance(x, Global | Given)",
        ),
        (
            CLOCKS,
            "from evercurrent.core.eventtime.windows.holds import HeldWatermark\nisinstance(x, HeldWatermark)",
        ),
        (
            AGGREGATES,
            "from evercurrent.core.operators.group.aggregates import Additive\nisinstance(x, Additive)",
        ),
        (AGGREGATES, "from evercurrent.core.operators.group.aggregates import Additive\ntype(x) is Additive"),
        (
            AGGREGATE_STATES,
            "from evercurrent.core.operators.group.head_states import HeadState\nisinstance(x, HeadState)",
        ),
    ],
)
def test_finds_who_tests_for_a_class(family: Family, source: str):
    module, tree = f"{PACKAGE}.views.engine.engine", tree_of(source)
    assert is_held(family, module)
    assert len(class_tests_in(family, module, tree, names_in(module, Path("x.py"), tree))) >= 1


def test_anyone_may_check_that_something_is_of_a_family():
    module = f"{PACKAGE}.views.engine.engine"
    source = "from evercurrent.core.eventtime.triggers.kinds import Trigger\nisinstance(x, Trigger)"
    tree = tree_of(source)
    assert class_tests_in(TRIGGERS, module, tree, names_in(module, Path("x.py"), tree)) == []
