"""The version of this release and how it is installed: the file that changes on the day it is published."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires

VERSION = "0.1.0"
"""The version, stated only here: the metadata of a wheel takes it from this line."""

PUBLISHED = False
"""Whether ``pip install evercurrent`` finds this package. The tests name the pages that state otherwise."""


def install_command(extra: str) -> str:
    """Return the command that installs the libraries of an extra into this Python.

    It names the interpreter, as ``pip`` alone may belong to another one. While the package is on no index it cannot be
    installed by name, so the libraries are named instead, which works beside a checkout and beside a wheel.

    >>> " -m pip install " in install_command("cli")
    True
    """
    requirements = [f"evercurrent[{extra}]"] if PUBLISHED else _libraries(extra) or [f".[{extra}]"]
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements])


def _libraries(extra: str) -> list[str]:
    """Return the libraries of an extra by the metadata of the installed package; none if it runs without being installed."""
    try:
        lines = requires("evercurrent") or []
    except PackageNotFoundError:
        return []
    libraries: set[str] = set()
    for library, _, condition in (line.partition(";") for line in lines):
        if condition.strip() == f'extra == "{extra}"':
            name, _, inner = library.strip().partition("[")
            libraries.update(_libraries(inner.rstrip("]")) if name == "evercurrent" else [library.strip()])
    return sorted(libraries)
