"""What a process with another hash seed and number of threads makes of programs that are fixed: one process for all tests.

Starting Python and importing the library takes longer than most of what is compared. As a program it prints the results of ``MODULES``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from thinned import some_of

TESTS = Path(__file__).resolve().parent

MODULES = ("laws.test_determinism", "laws.test_eventtime_replay", "identity.test_identities")
"""Modules that have a function ``results`` of JSON that has to be the same in every process."""

OTHERS = some_of([("0", "1"), ("12345", "2")], [("12345", "1")])
"""Seeds of Python's own hashes, with numbers of polars' threads: of those of this process both differ."""


@cache
def results_of(hash_seed: str, threads: str) -> dict[str, Any]:
    """The results of each of the modules in a process of its own, by their names."""
    paths = os.pathsep.join(map(str, [TESTS, TESTS.parent / "src"]))
    settings = {"PYTHONHASHSEED": hash_seed, "POLARS_MAX_THREADS": threads, "PYTHONPATH": paths}
    process = subprocess.run(
        [sys.executable, "-m", "other_process"],
        env={**os.environ, **settings}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    results: dict[str, Any] = json.loads(process.stdout)
    return results


if __name__ == "__main__":
    print(json.dumps({name: importlib.import_module(name).results() for name in MODULES}))
