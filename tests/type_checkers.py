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


def strict_mypy(programs: Sequence[Path], cache: str, *options: str) -> str:
    """Return what mypy objects to in programs, without the settings of this project."""
    command = "--strict --config-file= --explicit-package-bases --follow-imports=silent"
    place = ROOT / ".mypy_cache" / cache
    run = _run(
        ["mypy", *command.split(), *options, "--cache-dir", str(place), *map(str, programs)],
        {"MYPYPATH": str(SOURCES)},
    )
    return run.stdout + run.stderr if run.returncode else ""


def strict_pyright(folder: Path) -> str:
    """Return what pyright objects to in the programs of a folder, into which its settings are written.

    An expression whose value nobody takes is what the last line of an example is.
    """
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "extraPaths": [str(SOURCES)]}
    (written := folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    run = _run(
        ["pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(written)],
        {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},  # or it looks for a newer version in the package index
    )
    try:
        report = json.loads(run.stdout)
    except ValueError:
        raise AssertionError(f"pyright did not run: {run.stdout}{run.stderr}") from None
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py"))) > 0
    return "\n".join(
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['severity']}: {each['message']} ({each.get('rule')})"
        for each in report["generalDiagnostics"]
    )


def _run(command: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
