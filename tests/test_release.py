"""What is typed to install the package and its extras: in errors, and on the front pages."""

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import evercurrent
from evercurrent.core.data import release
from evercurrent.core.data.release import install_command

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("library", ["rich", "typer"])
def test_the_command_without_its_libraries_names_what_to_type(library):
    code = f"import sys; sys.modules[{library!r}] = None\nfrom evercurrent.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("error: the command evercurrent needs rich and typer")
    assert sentence.endswith(install_command("cli"))


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "evercurrent", "--version"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == f"evercurrent {evercurrent.__version__}\n"


REQUIRES = [
    "polars<2.2,>=2.1",
    'rich<16,>=13.9; extra == "cli"',
    'pyspark<4.4,>=4.0; extra == "spark"',
    'evercurrent[spark]; extra == "spark-connect"',
    'grpcio>=1.76; extra == "spark-connect"',
]


@pytest.mark.parametrize(
    ("extra", "libraries"),
    [
        ("cli", ["rich<16,>=13.9"]),
        ("spark-connect", ["grpcio>=1.76", "pyspark<4.4,>=4.0"]),
        ("unknown", [".[unknown]"]),
    ],
)
def test_before_it_is_published_the_libraries_of_an_extra_are_installed_by_name(
    monkeypatch, extra, libraries
):
    monkeypatch.setattr(release, "requires", lambda name: REQUIRES)
    assert shlex.split(install_command(extra)) == [sys.executable, "-m", "pip", "install", *libraries]


def test_where_it_is_not_installed_its_checkout_is(monkeypatch):
    def absent(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(release, "requires", absent)
    assert shlex.split(install_command("cli"))[-1] == ".[cli]"


def test_when_it_is_published_an_extra_is_installed_by_its_name(monkeypatch):
    monkeypatch.setattr(release, "PUBLISHED", True)
    assert shlex.split(install_command("cli"))[-1] == "evercurrent[cli]"


BY_NAME = re.compile(r"pip install [^\n]*(?<![\w/.])evercurrent(?![\w.-]*\.whl)|(?<![\w.])evercurrent\[[a-z]")
"""The package or an extra named by the package's name, which an index has to have."""

WHERE_IT_IS_DECIDED = {"core/data/release.py"}


def test_pages_and_errors_name_what_can_be_typed_today():
    """On the day of publication ``PUBLISHED`` changes, and this names the pages that go with it."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    code = [
        path for layer in ("core", "views", "spark_bridge", "src") for path in ROOT.glob(f"{layer}/**/*.py")
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in {*pages, *code}}
    by_name = {name for name, text in texts.items() if BY_NAME.search(text)} - WHERE_IT_IS_DECIDED
    if release.PUBLISHED:
        assert "README.md" in by_name, "it can be installed by its name: write so"
    else:
        assert sorted(by_name) == []


def test_the_changelog_begins_with_this_version():
    heading = next(
        line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("## ")
    )
    assert heading.split()[1].rstrip(",") == release.VERSION
    assert heading.endswith("not published yet") != release.PUBLISHED


@pytest.mark.parametrize("page", ["README.md"])
def test_wheels_that_a_page_names_are_of_this_version(page):
    named = re.findall(r"evercurrent-([\w.]+)-py3", (ROOT / page).read_text("utf-8"))
    assert set(named) == {release.VERSION}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install evercurrent", True),
        ("pip install --upgrade 'evercurrent[spark]'", True),
        ("with `evercurrent[s3]` or another", True),
        ("pip install '.[cli,spark]'", False),
        ("pip install 'evercurrent-0.1.0-py3-none-any.whl[cli]'", False),
        ("pip install dist/evercurrent-0.1.0-py3-none-any.whl", False),
    ],
)
def test_finds_what_needs_an_index(text, found):
    assert bool(BY_NAME.search(text)) == found
