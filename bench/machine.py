"""The facts about a machine and its software that a figure means nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("evercurrent", "polars", "pyarrow", "numpy", "pyspark")


def facts() -> dict[str, str | int | float]:
    """Cores, memory, load, system, Python and the versions of what is measured."""
    facts_by_name: dict[str, str | int | float] = {
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_1min": round(os.getloadavg()[0], 2),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            facts_by_name[package] = version(package)
        except PackageNotFoundError:
            facts_by_name[package] = "not installed"
    return facts_by_name


def cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
