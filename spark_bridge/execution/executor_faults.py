"""The faults of executors, derived from the facts that tasks have gathered there, with hosts and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evercurrent.core.data.schema import listed

CLOCK_SECONDS = 60.0
"""The most by which the clock of an executor may differ from the driver's: files of tasks are deleted by their age."""

WORKER_BYTES = 256 << 20
"""The memory that a worker needs besides the states of its bucket: its libraries, and rows on their way."""

MOST_HOSTS = 5
"""How many hosts of a fault are named."""

EXACT = ("evercurrent", "polars")
"""Libraries of which an executor needs the driver's version, as others may compute other bits; else the first number counts."""

SHIP = (
    "ship the driver's environment: spark_bridge.deploy.archive('environment.tar.gz') writes it, and spark_bridge.session("
    "master=..., archive='environment.tar.gz') starts a session whose executors use it, as do spark.archives="
    "environment.tar.gz#environment and PYSPARK_PYTHON=./environment/bin/python"
)
UNSET = (
    "workers of a local session run the program that PYSPARK_PYTHON names; unset it before the session starts, and they run that "
    "of this process"
)
SYNCHRONISE = (
    f"synchronise the clocks (NTP) to within {CLOCK_SECONDS:.0f} s, as files are deleted by their age"
)
ROOM = (
    "give more buckets=, or a Python worker more memory (spark.executor.memoryOverhead, "
    "spark.executor.pyspark.memory)"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong on an executor, and the remedy.

    ``kind`` is the same where executors differ in nothing but a number or a folder: that of an archive is another one on each. Of
    several faults of a kind the one with the greatest ``degree`` is shown.
    """

    what: str
    remedy: str
    kind: str
    degree: float = 0.0


def sentence_of(
    own: Mapping[str, Any], executors: Sequence[Mapping[str, Any]], bucket_bytes: int, remedy: str = SHIP
) -> str | None:
    """Return all faults of executors in a sentence, each with its hosts; None if there are none.

    ``own`` are the facts of the driver, ``bucket_bytes`` the size of the states of its largest bucket, ``remedy`` that of a Python
    which is not the driver's.
    """
    by_kind: dict[str, list[tuple[Fault, str]]] = {}
    for facts in executors:
        for fault in (*_of_python(own, facts, remedy), *_of_machine(facts, bucket_bytes)):
            by_kind.setdefault(fault.kind, []).append((fault, facts["host"]))
    if not by_kind:
        return None
    by_remedy: dict[str, list[str]] = {}
    for alike in by_kind.values():
        fault = max((fault for fault, _ in alike), key=lambda fault: fault.degree)
        hosts = _named(sorted({host for _, host in alike}))
        shown = "; one of them is shown" if len({fault.what for fault, _ in alike}) > 1 else ""
        where = f"{fault.what} ({len(alike)} of {len(executors)} executors, on {hosts}{shown})"
        by_remedy.setdefault(fault.remedy, []).append(where)
    faults = "; ".join(f"{', '.join(whats)}: {remedy}" for remedy, whats in by_remedy.items())
    return f"executors cannot run this query: {faults}"


def _named(hosts: list[str]) -> str:
    named = (
        hosts if len(hosts) <= MOST_HOSTS else [*hosts[:MOST_HOSTS], f"and {len(hosts) - MOST_HOSTS} more"]
    )
    return ", ".join(named)


def _of_python(own: Mapping[str, Any], facts: Mapping[str, Any], remedy: str) -> Iterator[Fault]:
    version = facts["python_version"]
    python = f"{facts['python']}, Python {version}"
    if _minor(own["python_version"]) != _minor(version):
        yield Fault(
            f"their Python is {python}, and the driver's is {own['python_version']}",
            remedy,
            f"Python {version}",
        )
    libraries = facts["libraries"]
    missing = [
        name for name, there in libraries.items() if f"No module named '{name}'" in there.get("error", "")
    ]
    if missing:
        yield Fault(
            f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} not installed in {python}",
            remedy,
            f"without {listed(missing)} in Python {version}",
        )
    for name, there in libraries.items():
        if "error" in there:
            # A library that cannot be imported because another one is missing is not named again.
            if not any(f"'{absent}'" in there["error"] for absent in missing):
                failure = f"{name} cannot be imported in {python}: {there['error']}"
                yield Fault(failure, remedy, f"{name}: {there['error']} in Python {version}")
        else:
            yield from _of_version(name, own["libraries"][name], there, remedy)


def _of_version(name: str, here: Mapping[str, str], there: Mapping[str, str], remedy: str) -> Iterator[Fault]:
    where, versions = f"{name} in {there['folder']}", (there["version"], here["version"])
    if name not in EXACT:
        versions = (there["version"].partition(".")[0], here["version"].partition(".")[0])
    if versions[0] != versions[1]:
        what = f"{where} is version {there['version']}, and the driver's is {here['version']}"
        yield Fault(what, remedy, f"{name} {there['version']}")
    elif here.get("code") and there.get("code") and here["code"] != there["code"]:
        yield Fault(f"{where} is other code than the driver's in {here['folder']}", remedy, f"code of {name}")


def _of_machine(facts: Mapping[str, Any], bucket_bytes: int) -> Iterator[Fault]:
    ahead = facts["ahead"]
    if abs(ahead) > CLOCK_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        yield Fault(
            f"the clock is {abs(ahead):.0f} s {side} the driver's", SYNCHRONISE, f"clock {side}", abs(ahead)
        )
    needed = WORKER_BYTES + 2 * bucket_bytes
    if facts["memory"] is not None and facts["memory"] < needed:
        left = f"{facts['memory'] >> 20} MiB of memory are left for a Python worker"
        what = f"{left}, which needs {needed >> 20} MiB for the states of the largest bucket"
        yield Fault(what, ROOM, "memory", needed - facts["memory"])


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
