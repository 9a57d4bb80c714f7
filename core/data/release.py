"""What this release is called and where it can be had: the file that changes on the day it is published."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires

VERSION = "0.1.0"
"""The version, here and nowhere else: the metadata of a wheel takes it from this line."""

PUBLISHED = False
"""Whether ``pip install evercurrent`` finds this package. The tests name the pages that say otherwise."""


def install_command(extra: str) -> str:
    """Return what to type so that this Python has the libraries of an extra.

    It names the interpreter, as ``pip`` alone may belong to another one. While the package is on no index, its name can
    not be asked for, and the libraries are named instead: that works beside a checkout and beside a wheel.

    >>> " -m pip install " in install_command("cli")
    True
    """
    wanted = [f"evercurrent[{extra}]"] if PUBLISHED else _libraries(extra) or [f".[{extra}]"]
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def _libraries(extra: str) -> list[str]:
    """What the metadata of the installed package says that an extra is; nothing where it runs without being installed."""
    try:
        lines = requires("evercurrent") or []
    except PackageNotFoundError:
        return []
    found: set[str] = set()
    for library, _, condition in (line.partition(";") for line in lines):
        if condition.strip() == f'extra == "{extra}"':
            name, _, inner = library.strip().partition("[")
            found.update(_libraries(inner.rstrip("]")) if name == "evercurrent" else [library.strip()])
    return sorted(found)
