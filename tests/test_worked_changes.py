"""The worked changes in ``docs/contributing``: each can be applied, and touches so many files as the house allows."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "contributing"
COSTS = {
    "additive-aggregate": 1,
    "aggregate-with-state": 2,
    "connector": 1,
    "file-format": 1,
    "operator": 3,
    "store": 1,
    "trigger": 2,
    "window": 2,
}
"""Files that are no tests. Of an operator the third one is the method by which users call it."""


def diff_of(name: str) -> str:
    return "".join(re.findall(r"(?ms)^```diff\n(.*?)^```$", (PAGES / f"{name}.md").read_text("utf-8")))


def test_every_page_has_its_cost_and_is_named_in_contributing() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(COSTS)
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [name for name in COSTS if f"docs/contributing/{name}.md" not in contributing] == []


@pytest.mark.parametrize("name", COSTS)
def test_a_change_costs_what_it_may(name: str) -> None:
    files = re.findall(r"(?m)^\+\+\+ b/(.*)$", diff_of(name))
    assert len([file for file in files if not file.startswith("tests/")]) == COSTS[name]


@pytest.mark.parametrize("name", COSTS)
def test_a_change_can_be_applied(name: str) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    applied = subprocess.run(
        [git, "apply", "--check", "-C1", "-"], input=diff_of(name), cwd=ROOT, capture_output=True, text=True
    )
    assert applied.returncode == 0, (
        f"docs/contributing/{name}.md no longer fits the code: do the change anew and take its diff\n{applied.stderr}"
    )
