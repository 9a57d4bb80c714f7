"""Environments of the peers: one each, with pinned versions, made when first needed under bench/.envs.

Peers never share an environment with evercurrent or with each other: their requirements contradict. What
cannot be had here (no wheel for any Python at hand, no Java, no network) is `UnavailableError` with the
reason, and the bench goes on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parent / ".envs"
OLDEST_JAVA = 11


class UnavailableError(Exception):
    """The peer cannot run here; the message is the reason."""


@dataclass(frozen=True)
class Environment:
    """What a peer needs: packages, a Python that they have wheels for, perhaps Java."""

    name: str
    requirements: tuple[str, ...]
    pythons: tuple[str, ...]
    java: bool = False


PATHWAY = Environment("pathway", ("pathway==0.33.0",), ("3.11", "3.12", "3.13"))
BYTEWAX = Environment("bytewax", ("bytewax==0.21.1",), ("3.11", "3.12"))
FLINK = Environment("flink", ("apache-flink==2.3.0",), ("3.11", "3.12"), java=True)
BEAM = Environment("beam", ("apache-beam==2.77.0",), ("3.11", "3.12", "3.13"))
DUCKDB = Environment("duckdb", ("duckdb==2.0.0",), ("3.11", "3.12", "3.13", "3.14"))


def ensure(environment: Environment) -> str:
    """The interpreter of that environment, made and filled if it is not there yet."""
    if environment.java:
        _check_java()
    place = HOME / environment.name
    python = place / "bin" / "python"
    stamp = place / "requirements.installed"
    requirements = "\n".join(environment.requirements)
    if python.exists() and stamp.exists() and stamp.read_text() == requirements:
        return str(python)
    _command([_base_python(environment), "-m", "venv", "--clear", str(place)], "venv")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _command([*install, *environment.requirements], "pip")
    stamp.write_text(requirements)
    return str(python)


def _base_python(environment: Environment) -> str:
    """This interpreter if the peer supports it, else the first supported one on the path."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if own in environment.pythons:
        return sys.executable
    for number in environment.pythons:
        interpreter = shutil.which(f"python{number}")
        if interpreter and _succeeds([interpreter, "--version"]):
            return interpreter
    raise UnavailableError(f"needs Python {' or '.join(environment.pythons)}")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        raise UnavailableError("needs Java, and there is none on the path")
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    # The first line reads like: openjdk version "17.0.1" 2021-10-19
    quoted = version.stderr.split('"')
    major = quoted[1].split(".")[0] if len(quoted) > 1 else ""
    if not major.isdigit() or int(major) < OLDEST_JAVA:
        raise UnavailableError(f"needs Java {OLDEST_JAVA} or newer")


def _command(command: list[str], name: str) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        lines = (process.stderr or process.stdout).strip().splitlines()
        raise UnavailableError(f"{name} failed: {lines[-1] if lines else process.returncode}")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
