"""mypy and pyright in strict mode, as someone runs them who uses the library: it is seen as an installed package is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
PATIENCE = 900
"""Seconds: each takes less than twenty where nothing else runs."""


Objections = dict[str, list[str]]
"""What a checker objects to, by the names of the programs."""


def strict_mypy(programs: Sequence[Path]) -> Objections:
    """Return what mypy objects to in programs, without the settings of this project."""
    command = "--strict --config-file= --explicit-package-bases --follow-imports=silent --no-error-summary --no-pretty"
    place = ROOT / ".mypy_cache" / "users"
    run = _run(
        ["mypy", *command.split(), "--cache-dir", str(place), *map(str, programs)],
        {"MYPYPATH": str(SOURCES)},
    )
    assert run.returncode in (0, 1), f"mypy did not run: {run.stdout}{run.stderr}"
    found: Objections = {}
    for line in run.stdout.splitlines():
        program, separator, objection = line.partition(".py:")
        assert separator, f"mypy prints {line!r}"
        found.setdefault(f"{Path(program).name}.py", []).append(objection)
    return found


def strict_pyright(folder: Path) -> Objections:
    """Return what pyright objects to in the programs of a folder, into which its settings are written.

    An expression whose value nobody takes is what the last line of an example is.
    """
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "extraPaths": [str(SOURCES)]}
    (written := folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    run = _run(["pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(written)], {})
    try:
        report = json.loads(run.stdout)
    except ValueError:
        raise AssertionError(f"pyright did not run: {run.stdout}{run.stderr}") from None
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py"))) > 0
    found: Objections = {}
    for each in report["generalDiagnostics"]:
        found.setdefault(Path(each["file"]).name, []).append(
            f"{each['range']['start']['line'] + 1}: {each['severity']}: {each['message']} ({each.get('rule')})"
        )
    return found


def incomplete_types(imports: str, folder: Path) -> tuple[set[str], dict[str, list[str]]]:
    """Return the names that pyright verifies, and those whose types another checker would have to infer, or cannot have: with the reasons.

    They are what the imports bring into the package ``ever``, which is written into the folder, and all that the types of these
    refer to. To verify all modules of the library takes twice as long. What is unknown as the types of other libraries are does
    not count: pyright takes for the package's own what begins with its name, and so ``evercurrent`` too. The interpreter is the
    one on the PATH.
    """
    package = folder / "ever"
    package.mkdir()
    (package / "__init__.py").write_text(imports, "utf-8")
    (package / "py.typed").touch()
    interpreters = os.path.dirname(sys.executable)
    run = _run(
        ["pyright", "--outputjson", "--ignoreexternal", "--verifytypes", package.name],
        {
            "PYTHONPATH": os.pathsep.join(map(str, (folder, SOURCES))),
            "PATH": os.pathsep.join([interpreters, os.environ["PATH"]]),
        },
    )
    symbols = json.loads(run.stdout)["typeCompleteness"]["symbols"]
    assert symbols, run.stdout
    return {symbol["name"] for symbol in symbols}, {
        symbol["name"]: [each["message"] for each in symbol["diagnostics"]]
        for symbol in symbols
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    }


def _run(command: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
