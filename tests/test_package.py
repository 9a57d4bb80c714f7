"""What is installed: cheap checks here; ``.ci/run`` builds the wheel and tries it in an environment of its own."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import evercurrent

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def test_version_is_that_of_the_metadata():
    assert evercurrent.__version__ == version("evercurrent") == PROJECT["project"]["version"]


def test_is_typed():
    assert files("evercurrent").joinpath("py.typed").is_file()


def test_public_names_are_there():
    assert len(set(evercurrent.__all__)) == len(evercurrent.__all__)
    assert not [name for name in evercurrent.__all__ if not hasattr(evercurrent, name)]


def test_import_needs_neither_pyspark_nor_java_nor_the_command_line():
    code = "import sys, evercurrent; print(sorted({'pyspark', 'py4j', 'typer', 'rich'} & set(sys.modules)))"
    without_java = {"PATH": "", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=without_java, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_lock_names_no_machine():
    """Whoever installs from the lock gets the files of the public index, from wherever it was made."""
    assert not re.findall(r"^(?:-|.*(?:file:|https?:|@ |\.whl|/)).*$", LOCK.split("\n", 2)[2], re.MULTILINE)


@pytest.mark.parametrize("asked", [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]])
def test_lock_fits_the_project(asked):
    requirement = Requirement(asked)
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK, re.MULTILINE))
    assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), "run `make lock`"
