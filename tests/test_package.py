"""What is installed: cheap checks here; ``.ci/run`` builds the wheel and tries it in an environment of its own."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import networkx as nx
import polars as pl
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import evercurrent

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = {name: (ROOT / name).read_text("utf-8") for name in ("requirements.lock", "requirements-run.lock")}
"""What is installed for development, and what of that `make run` needs."""

GROUPS = PROJECT["dependency-groups"]
NEEDED = [
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["cli"],
    *GROUPS["install"],
]
DEVELOPMENT = [each for each in GROUPS["dev"] if isinstance(each, str)]


def test_version_is_that_of_the_metadata():
    assert evercurrent.__version__ == version("evercurrent")


def test_is_typed():
    assert files("evercurrent").joinpath("py.typed").is_file()


def test_public_names_are_there():
    assert len(set(evercurrent.__all__)) == len(evercurrent.__all__)
    assert not [name for name in evercurrent.__all__ if not hasattr(evercurrent, name)]


IMPORTED = {"evercurrent", "numpy", "polars", "pyarrow"}
"""Whose modules ``import evercurrent`` may load, besides Python's own and what polars and pyarrow load by themselves."""

NOT_AT_FIRST = re.compile(
    r"evercurrent\.(spark_bridge|testing|views\.(apps|cli|partitioned|testing|timeline))\b"
    r"|evercurrent\.views\.(compiler\.windowed_groups|connectors\.files|proving\.proof|tracing\.(history|lineage))$"
    r"|evercurrent\.views\.engine\.(forks|proving|refusing_engine|tracing|worker_evaluator)$"
    r"|asyncio$|http\.|multiprocessing$|pyarrow\.(compute|csv|json)$|unittest"
)
"""Parts of ours, and large ones of Python's and pyarrow's, that are loaded when they are used."""


def modules_after(statement: str) -> set[str]:
    """The modules that a new process has loaded after a statement."""
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    without_java = {"PATH": "", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without_java,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return set(done.stdout.split())


def test_import_loads_nothing_but_what_it_needs():
    """No Spark, no Java, no command line, no networkx: it has to take less than a second."""
    added = modules_after("import evercurrent") - modules_after("import numpy, polars, pyarrow")
    foreign = {name.partition(".")[0] for name in added} - IMPORTED - sys.stdlib_module_names
    assert sorted(foreign) == []
    assert sorted(filter(NOT_AT_FIRST.match, added)) == []


def test_the_command_starts_without_what_few_inputs_need():
    loaded = modules_after("import evercurrent.views.cli")
    assert "typer" in loaded
    assert not {"pandas", "pyarrow.compute", "pyspark"} & loaded


def test_a_worker_of_spark_hands_on_its_result_without_pandas():
    """Importing it takes a worker as long as half of what it needs."""
    loaded = modules_after("from evercurrent.spark_bridge.execution.jobs import _result; _result(None)")
    assert "pyarrow" in loaded
    assert not {"pandas", "pyarrow.compute", "pyspark"} & loaded


def test_rows_that_are_pushed_are_read_without_pandas():
    """pyarrow imports it where it is installed, for each array that it makes of values of Python or numpy."""
    types = "{'k': pl.Int64, 'at': pl.List(pl.Datetime('us'))}"
    statement = f"import evercurrent as ec, polars as pl; source = ec.Engine().source('s', {types})"
    loaded = modules_after(f"{statement}; source.push([{{'k': 1, 'at': ['2026-01-01', None]}}])")
    assert "polars" in loaded
    assert "pandas" not in loaded


def test_a_plan_is_a_graph_of_networkx_on_request():
    engine = evercurrent.Engine()
    source = engine.source("numbers", {"n": pl.Int64})
    engine.view("both", evercurrent.concat([source, source.filter(pl.col("n") > 1)]))
    plan = engine.plan
    assert nx.is_directed_acyclic_graph(plan)
    assert sorted(plan.edges) == [(0, 1), (0, 2), (1, 2)]
    assert plan.nodes[2]["views"] == ["both"]


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_machine(name):
    """Whoever installs from the lock gets the files of the public index, from wherever it was made."""
    written = LOCKS[name].split("\n", 2)[2]
    assert not re.findall(r"^(?:-|.*(?:file:|https?:|@ |\.whl|/)).*$", written, re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCKS[name], re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "needed"),
    [(name, needed) for name in LOCKS for needed in NEEDED]
    + [("requirements.lock", needed) for needed in DEVELOPMENT],
)
def test_lock_fits_the_project(name, needed):
    requirement = Requirement(needed)
    assert requirement.specifier.contains(locked(name)[canonicalize_name(requirement.name)]), (
        "run `make lock`"
    )


SETS = tomllib.loads((ROOT / "tests" / "versions" / "sets.toml").read_text("utf-8"))["sets"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
RANGES = {
    requirement.name: requirement.specifier
    for needed in (*PROJECT["project"]["dependencies"], *EXTRAS["cli"], *EXTRAS["spark"])
    if (requirement := Requirement(needed)).name in SETS[0]
}


@pytest.mark.parametrize("library", RANGES)
def test_each_version_that_is_allowed_is_one_that_is_tested(library):
    """The first row has the lower bounds; every major or minor version up to the last row's is in some row."""
    tested = [Version(row[library]) for row in SETS]
    (lowest,) = [Version(each.version) for each in RANGES[library] if each.operator == ">="]
    assert tested[0] == lowest
    assert all(RANGES[library].contains(version) for version in tested)
    assert max(tested) == tested[-1]


def test_the_table_names_what_the_classifiers_do():
    named = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    assert named <= {row["python"] for row in SETS}
    assert {row["tests"] for row in (SETS[0], SETS[-1])} == {"all"}


def test_what_runs_is_locked_to_what_is_tested():
    run, tested = locked("requirements-run.lock"), locked("requirements.lock")
    assert run.items() <= tested.items(), "run `make lock`"
    assert not {"pyspark", "pandas", "pytest", "hypothesis", "mypy"} & set(run)
