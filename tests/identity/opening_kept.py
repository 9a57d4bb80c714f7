"""What a package makes of checkpoints: run as a program, with the package on the path, for those that others have written.

python opening_kept.py REPORT NAME=FOLDER ...
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

import evercurrent as ec
from durability.kept_programs import BY_NAME, KeptProgram, contents, shown


def report(program: KeptProgram, folder: Path) -> list[str]:
    """All that can be read of a checkpoint, and what its views hold when it has gone on for an epoch."""
    with program.opened(folder, range(0)) as engine:
        found = [f"{name}: {held!r}" for name, held in shown(engine).items()]
        program.push(engine, program.kept_at)
        return found + [f"then {name}: {held!r}" for name, held in contents(engine).items()]


def classes() -> list[str]:
    """All classes of the package that were imported, by where they are defined."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == ec.__name__]
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return sorted(
        f"{kind.__module__}:{kind.__qualname__}" for kind in found if kind.__module__.startswith(ec.__name__)
    )


if __name__ == "__main__":
    reports = {}
    for argument in sys.argv[2:]:
        name, _, folder = argument.partition("=")
        reports[name] = report(BY_NAME[name], Path(folder))
    Path(sys.argv[1]).write_text(json.dumps({"file": ec.__file__, "classes": classes(), "reports": reports}))
