"""The worked changes in ``docs/contributing``: each can be applied, touches few files, and passes the checks of the house."""

import re
import shutil
import subprocess
import sys
from os import environ
from pathlib import Path

import pytest

from source_modules import tree_of
from test_identifiers import names_of_speech, shown, vague, words_of_speech

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "contributing"
COSTS = {
    "additive-aggregate": 1,
    "aggregate-with-state": 2,
    "connector": 1,
    "file-format": 1,
    "operator": 4,
    "store": 1,
    "trigger": 2,
    "window": 2,
}
"""Files of code. Of an operator the third one is the method by which users call it, and the fourth that of proofs."""

PROFILE = "EVERCURRENT_TEST_PROFILE"

TOGETHER = (tuple(name for name in COSTS if name != "aggregate-with-state"), ("aggregate-with-state",))
"""Changes that are applied one after the other: both aggregates are ``bitwise_xor``."""

QUICK = (
    "ruff check .",
    "ruff format --check .",
    "pytest -q -p no:cacheprovider tests/test_architecture_pages.py tests/identity/test_tags.py"
    " tests/test_users_types.py::test_the_program_uses_every_public_name tests/test_site.py::test_each_public_name_has_an_example"
    " tests/test_site.py::test_each_public_name_is_in_the_reference tests/views/test_expressions.py::test_bitwise_xor",
)
LONG = (
    *QUICK,
    "mypy",
    "pytest -q -p no:cacheprovider tests/test_identifiers.py tests/test_layers.py tests/test_package.py tests/test_site.py"
    " tests/test_users_types.py tests/views/test_expressions.py tests/store/test_store_contract.py tests/views/test_files.py"
    " tests/laws/test_incremental_equals_recomputed.py"
    " tests/laws/test_prove.py tests/laws/test_lineage.py tests/laws/test_eventtime_simulated.py",
)
CHECKS = LONG if environ.get(PROFILE) == "long" else QUICK
"""What each change has to pass, as ``python -m`` runs it."""


def diff_of(name: str) -> str:
    return "".join(re.findall(r"(?ms)^```diff\n(.*?)^```$", (PAGES / f"{name}.md").read_text("utf-8")))


def files_of(*names: str) -> set[str]:
    """The modules of Python that these changes touch."""
    return {file for name in names for file in re.findall(r"(?m)^\+\+\+ b/(.*\.py)$", diff_of(name))}


def test_every_page_has_its_cost_and_is_named_in_contributing() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(COSTS)
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [name for name in COSTS if f"docs/contributing/{name}.md" not in contributing] == []


@pytest.mark.parametrize("name", COSTS)
def test_a_change_costs_what_it_may(name: str) -> None:
    files = re.findall(r"(?m)^\+\+\+ b/(.*)$", diff_of(name))
    assert len([file for file in files if not file.startswith(("tests/", "docs/"))]) == COSTS[name]
    assert len([file for file in files if file.startswith("docs/")]) <= 1, (
        "a new file has a line in the page of its room"
    )


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


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: "-".join(names[:2]))
def test_a_change_passes_the_checks(names: tuple[str, ...], tmp_path: Path) -> None:
    """In a copy of the checkout, where all of them are made: a page that only applies may still be of code as it once was."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    tree = tmp_path / "tree"
    leave_out = shutil.ignore_patterns(".*", "site", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=leave_out)
    for name in names:
        subprocess.run([git, "apply", "-C1", "-"], input=diff_of(name), cwd=tree, text=True, check=True)
    for file in files_of(*names):
        text = (tree / file).read_text("utf-8")
        vague_names = [] if file.startswith("tests/") else vague(tree_of(text))
        assert shown(file, [*names_of_speech(tree_of(text)), *words_of_speech(text), *vague_names]) == []
    environment = {**environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", PROFILE: "quick"}
    for check in CHECKS:
        ran = subprocess.run(
            [sys.executable, "-m", *check.split()], cwd=tree, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == 0, (
            f"{check}, after {', '.join(names)}:\n{ran.stdout[-5000:]}{ran.stderr[-2000:]}"
        )
