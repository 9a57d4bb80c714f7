"""The site of the documentation: each page is in it, each public name is in its reference, and its links lead somewhere."""

import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import evercurrent
import evercurrent.spark_bridge
import evercurrent.testing

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


class Loose(yaml.SafeLoader):
    """Reads the settings of mkdocs, of which no tag matters here."""


def pages(nav: object) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(parts, list) or hasattr(parts, "__iter__")
    return [page for part in parts for page in pages(part)]


def site_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", DOCS / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_page_is_in_the_navigation_once() -> None:
    found = pages(yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loose)["nav"])
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | set(site_pages().PAGES)
    assert sorted(found) == sorted(there)


def test_each_public_name_is_in_the_reference() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (DOCS / "reference").glob("*.md"))
    whole = ("windows", "triggers", "errors")  # Modules of which all public names are shown.
    shown = {name.rpartition(".")[2] for name in re.findall(r"::: ([\w.]+)", text)}
    assert shown.issuperset(whole)
    modules = [
        module for name, module in sys.modules.items()
        if name.startswith("evercurrent.") and name.rpartition(".")[2] in whole
    ]  # fmt: skip
    shown |= {name for module in modules for name in vars(module)}
    values_and_bases = {"END_OF_TIME", "Trigger", "Watermark", "Window"}
    assert set(evercurrent.__all__) - shown - values_and_bases == set()


def test_each_public_name_has_an_example() -> None:
    """It is a doctest, so what it shows is true, except where it needs a Spark session. Other names are those of types and values."""
    modules = (evercurrent, evercurrent.testing, evercurrent.spark_bridge)
    names = {
        f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__
    }
    without = [
        name for name, each in names.items()
        if (inspect.isfunction(each) or inspect.isclass(each)) and ">>> " not in (each.__doc__ or "")
    ]  # fmt: skip
    assert without == []


def test_links_of_files_beside_the_site() -> None:
    module = site_pages()
    assert doctest.testmod(module).failed == 0
    known = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.is_file()}
    known |= set(module.PAGES)
    readme = module.linked((ROOT / "README.md").read_text("utf-8"), "index.md", known)
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", readme):
        assert target in known
    assert "](CONTRIBUTING.md)" not in readme
    assert "(changelog.md)" in readme


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs comes with make docs")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
