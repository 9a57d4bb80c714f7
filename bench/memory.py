"""Resident memory of the running process, in bytes. Standard library only.

On Linux the peak is read from `VmHWM`, which belongs to this program alone. `ru_maxrss`, which other
systems have to offer, keeps the peak of the parent across fork and exec there, and would hide whatever is
smaller than the harness.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_FORGETS = Path("/proc/self/clear_refs")
"""Writing 5 sets the peak of resident memory to what is resident, see proc(5)."""


def resident() -> int:
    """What is resident now; where the system does not report it, the peak so far, which can only be larger."""
    return _field("VmRSS") if _STATUS.exists() else _peak_by_usage()


def own() -> int:
    """What is resident and the process's own, without mapped files; where the system does not report it, all."""
    return _field("RssAnon") if _STATUS.exists() else _peak_by_usage()


def peak() -> int:
    """The most that was ever resident, since ``forget_peak``."""
    return _field("VmHWM") if _STATUS.exists() else _peak_by_usage()


def forget_peak() -> None:
    """Let the peak begin with what is resident now; where the system has no way to, it stays, and can only be larger."""
    if _FORGETS.exists():
        _FORGETS.write_text("5")


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{_STATUS} has no {name}")


def _peak_by_usage() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
