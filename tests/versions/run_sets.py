"""Runs the tests with each set of versions in ``sets.toml``, in an environment of its own below ``.versions/``.

    python tests/versions/run_sets.py [--only NAME ...] [--tests all|part|little] [-- ARGUMENTS OF PYTEST]

At the end checkpoints that one polars began are opened and gone on with under another: ``carried_over.py``.
A Python that a set needs and that is not installed is fetched by uv where that can be; else the set is named as one that was not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENTS = ROOT / ".versions"
CACHE = ENVIRONMENTS / "cache"
"""What uv fetches and builds: `make clean` removes it with the environments."""

INDEX = "https://pypi.org/simple"
NOT_LIBRARIES = ("name", "python", "tests")

TESTS = {
    "all": ["tests", "src"],
    "part": [
        "tests/core", "tests/views", "tests/identity", "tests/durability/test_kept_checkpoint.py", "tests/test_package.py",
        "tests/test_readme.py", "tests/laws/test_incremental_equals_recomputed.py", "tests/laws/test_regressions.py",
        "tests/spark/test_query.py", "tests/spark/test_delta_source.py", "tests/spark/test_inputs.py",
        "tests/spark/test_snippets_in_spark.py", "tests/spark/test_types.py", "tests/spark/test_cli_on_spark.py", "tests/spark/test_early_worker.py", "tests/spark/test_spark_connect.py",
    ],
    "little": [
        "tests/test_package.py", "tests/core/test_circuit.py", "tests/core/test_group.py", "tests/core/test_join.py",
        "tests/core/test_saved.py", "tests/views/test_engine.py", "tests/views/test_first_use.py", "tests/views/test_files.py",
        "tests/views/test_cli.py", "tests/durability/test_kept_checkpoint.py", "tests/spark/test_snippets_in_spark.py",
    ],
}  # fmt: skip
"""What "all" and "part" of a row mean; "little" is what CI has time for."""


WITHOUT = {
    ("4.0", "4.1"): [
        "src/evercurrent/spark_bridge/input/bounded_beats.py",
        "src/evercurrent/spark_bridge/output/limited_deltas.py",
    ],
}
"""Of some versions of PySpark: modules that are not imported there, so no doctests of theirs are looked for."""


@dataclass(frozen=True)
class VersionSet:
    """A row of the table: a Python, and a version of each library."""

    name: str
    python: str
    libraries: dict[str, str]
    tests: str

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def ignored(self) -> list[str]:
        spark = self.libraries["pyspark"].rpartition(".")[0]
        return [
            f"--ignore={path}" for versions, paths in WITHOUT.items() if spark in versions for path in paths
        ]

    @property
    def pins(self) -> list[str]:
        return [f"{library}=={version}" for library, version in self.libraries.items()]


def sets() -> list[VersionSet]:
    """The rows of the table."""
    rows = tomllib.loads((Path(__file__).parent / "sets.toml").read_text("utf-8"))["sets"]
    return [
        VersionSet(
            row["name"],
            row["python"],
            {library: version for library, version in row.items() if library not in NOT_LIBRARIES},
            row["tests"],
        )
        for row in rows
    ]


def with_pythons_of_pyenv() -> dict[str, str]:
    """The environment, with the Pythons of pyenv on the PATH: its own names for them work only where one is chosen."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [str(folder) for folder in sorted(pyenv.glob("versions/3.*/bin"))]
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return without | {"PATH": os.pathsep.join([*found, os.environ["PATH"]])}


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uv, quietly. What it leaves, locks included, is in its cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "uv", "--quiet", "--no-config", "--cache-dir", CACHE, *arguments]
    environment = with_pythons_of_pyenv() | {"TMPDIR": str(CACHE)}
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, text=True, stderr=subprocess.PIPE
    )


def tools(versions: VersionSet) -> list[str]:
    """The locked versions of all else, so that a failure is due to the row. Parts of a library go with it."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    locked = re.findall(r"^([\w.-]+==[^\s\\]+(?: ; [^\\\n]+)?)", lock, re.MULTILINE)
    varied = tuple(f"{library}=" for library in versions.libraries)
    return [each.strip() for each in locked if not each.startswith((*varied, "polars-runtime", "py4j="))]


def made(versions: VersionSet) -> str:
    """Make the environment of a set; returns why it cannot be made, or nothing."""
    stamp = versions.folder / "made-of"
    constraints = "\n".join([*tools(versions), *versions.pins])
    contents = (ROOT / "pyproject.toml").read_text("utf-8") + constraints
    if stamp.exists() and stamp.read_text("utf-8") == contents:
        return ""
    shutil.rmtree(versions.folder, ignore_errors=True)
    found = uv("venv", "--python", versions.python, versions.folder)
    if found.returncode:
        return f"no Python {versions.python}: {found.stderr.strip().splitlines()[0]}"
    (versions.folder / "constraints.txt").write_text(constraints, "utf-8")
    requirements = ["--editable", ".[cli,spark-connect,s3]", "--group", "dev", "--default-index", INDEX]
    place = ["--python", versions.interpreter, "--constraint", versions.folder / "constraints.txt"]
    installed = uv("pip", "install", *place, *requirements)
    if installed.returncode:
        raise SystemExit(f"{versions.name}: pyproject.toml and the table do not agree\n{installed.stderr}")
    uv("cache", "prune", "--ci")  # All but what it has built: each pyspark came as two gigabytes.
    stamp.write_text(contents, "utf-8")
    return ""


def run(versions: VersionSet, tests: str, arguments: list[str]) -> int:
    """Run the tests of a set."""
    chosen = [*TESTS[tests], *versions.ignored, *arguments]
    command = [str(versions.interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    return subprocess.run(command, cwd=ROOT, env=with_pythons_of_pyenv()).returncode


def carried_over(chosen: list[VersionSet]) -> list[str]:
    """Have each polars go on from what its neighbour has begun, the lowest from the newest too, and the other way round."""
    by_polars = list({each.libraries["polars"]: each for each in chosen}.values())
    pairs = [
        pair for pair in zip(by_polars, by_polars[1:] + by_polars[:1], strict=True) if pair[0] != pair[1]
    ]
    lines, ways = [], [*pairs, *((other, one) for one, other in pairs)]
    for one, other in {(one.name, other.name): (one, other) for one, other in ways}.values():
        with TemporaryDirectory() as folder:
            codes = [half(each, name, folder) for each, name in ((one, "begin"), (other, "go-on"))]
        of = f"polars {one.libraries['polars']} goes on with {other.libraries['polars']}"
        lines.append(f"{of}: {'failed' if any(codes) else 'passed'}")
    return lines


def half(versions: VersionSet, name: str, folder: str) -> int:
    """Begin checkpoints, or go on with them, in the environment of a set."""
    command = [str(versions.interpreter), "tests/versions/carried_over.py", name, folder]
    return subprocess.run(command, cwd=ROOT, env=with_pythons_of_pyenv()).returncode


def main() -> None:
    """Run the sets that are named, one after the other, and sum up."""
    sets_by_name = {each.name: each for each in sets()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=sets_by_name, default=list(sets_by_name), help="names of sets"
    )
    parser.add_argument("--tests", choices=TESTS, help="instead of those of the row")
    parser.add_argument("arguments", nargs="*", help="of pytest, behind --")
    options = parser.parse_args()
    lines, ready, failed = [], [], False
    for name in options.only:
        versions, begun = sets_by_name[name], monotonic()
        tests = options.tests or versions.tests
        print(
            f"\n== {name}: Python {versions.python}, {', '.join(versions.pins)}; tests: {tests}", flush=True
        )
        if lacking := made(versions):
            lines.append(f"{name}: not run, {lacking}")
            continue
        ready.append(versions)
        code = run(versions, tests, options.arguments)
        failed |= code != 0
        lines.append(f"{name}: {'failed' if code else 'passed'} ({tests}, {monotonic() - begun:.0f} s)")
    lines += (moves := carried_over(ready))
    failed |= any(line.endswith("failed") for line in moves)
    print("", *lines, sep="\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
