"""The faults of executors are named with their hosts and the remedy, by the facts that tasks gather. Needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import polars as pl
import pytest

pytest.importorskip("pyspark")

from evercurrent.spark_bridge.execution import executor_facts, executor_jobs
from evercurrent.spark_bridge.execution.executor_facts import checksum_of_code, gathered
from evercurrent.spark_bridge.execution.executor_faults import UNSET, sentence_of
from evercurrent.spark_bridge.execution.executor_jobs import failure_of, remedy_of
from evercurrent.spark_bridge.execution.preflight import own_facts
from evercurrent.views.checkpoint import CommitLog
from evercurrent.views.checkpoint.marker import is_checkpoint
from evercurrent.views.engine.engine import Engine
from evercurrent.views.store import store_at


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    """The facts of an executor that is as the driver."""
    store_at(str(tmp_path)).put("probes/token", [b"token"])
    return {**gathered(str(tmp_path), "token", 1, 0.0), "ahead": 0.0, "host": "red", "memory": 1 << 34}


def changed(facts: dict[str, Any], name: str, **other: str) -> dict[str, Any]:
    """The same facts with other ones of a library."""
    libraries = {**facts["libraries"], name: {**facts["libraries"][name], **other}}
    return {**facts, "libraries": libraries}


def test_an_executor_that_is_as_the_driver_has_no_fault(facts: dict[str, Any], tmp_path: Path) -> None:
    assert sentence_of(own_facts(), [facts, facts], 0) is None
    assert facts["store"] == ""
    assert [file.name[:13] for file in store_at(str(tmp_path)).list("probes/token-")] == ["probes/token-"]


def test_what_a_killed_driver_and_its_executors_left_is_no_other_data(
    facts: dict[str, Any], tmp_path: Path
) -> None:
    """Killed during the check of a query that is new, it could not be started again; later the files are deleted by their age."""
    store = store_at(str(tmp_path))
    assert len(store.list(f"{executor_facts.PROBES}/")) == 2
    assert not is_checkpoint(store)
    with Engine(checkpoint=tmp_path) as engine:
        engine.view("hits", engine.source("hits", {"ip": pl.String}))
        engine.push("hits", {"ip": ["a"]})
    CommitLog(store).sweep(1, 0)
    assert not store.list(f"{executor_facts.PROBES}/")


def test_libraries_that_are_missing_are_named_together(facts: dict[str, Any]) -> None:
    bare = facts
    for name in ("evercurrent", "polars"):
        bare = changed(bare, name, error=f"ModuleNotFoundError: No module named '{name}'")
    sentence = sentence_of(own_facts(), [facts, {**bare, "python": "/usr/bin/python3"}], 0)
    assert sentence is not None
    python = f"/usr/bin/python3, Python {facts['python_version']}"
    assert (
        f"'evercurrent', 'polars' are not installed in {python} (1 of 2 executors, on red): ship" in sentence
    )
    assert "PYSPARK_PYTHON=./environment/bin/python" in sentence


def test_a_local_session_with_another_python_is_not_sent_an_archive(facts: dict[str, Any]) -> None:
    """Locally an archive is refused."""
    missing = "ModuleNotFoundError: No module named 'polars'"
    bare = changed(changed(facts, "polars", error=missing), "pyarrow", version="1.0")
    sentence = str(sentence_of(own_facts(), [{**bare, "python_version": "2.7.1"}], 0, UNSET))
    assert sentence.count("'polars' is not installed") == sentence.count("their Python is") == 1
    assert sentence.endswith(f": {UNSET}")
    assert "archive" not in sentence


def test_this_package_without_a_library_is_not_named_twice(facts: dict[str, Any]) -> None:
    missing = "ModuleNotFoundError: No module named 'polars'"
    bare = changed(changed(facts, "polars", error=missing), "evercurrent", error=missing)
    sentence = sentence_of(own_facts(), [bare], 0)
    assert sentence is not None
    assert sentence.count("polars") == 1
    broken = changed(facts, "polars", error="ImportError: libssl.so: cannot open shared object file")
    assert "polars cannot be imported" in str(sentence_of(own_facts(), [broken], 0))


@pytest.mark.parametrize(
    ("name", "other", "sentence"),
    [
        (
            "polars",
            {"version": "1.0.0", "folder": "/x"},
            "polars in /x is version 1.0.0, and the driver's is",
        ),
        (
            "pyarrow",
            {"version": "1.0.0", "folder": "/x"},
            "pyarrow in /x is version 1.0.0, and the driver's is",
        ),
        (
            "evercurrent",
            {"code": "0", "folder": "/x"},
            "evercurrent in /x is other code than the driver's in ",
        ),
    ],
)
def test_other_versions_and_other_code(
    name: str, other: dict[str, str], sentence: str, facts: dict[str, Any]
) -> None:
    assert sentence in str(sentence_of(own_facts(), [changed(facts, name, **other)], 0))


def test_a_smaller_version_of_arrow_is_no_fault(facts: dict[str, Any]) -> None:
    major = facts["libraries"]["pyarrow"]["version"].partition(".")[0]
    assert sentence_of(own_facts(), [changed(facts, "pyarrow", version=f"{major}.99")], 0) is None


def test_clock_memory_and_python(facts: dict[str, Any]) -> None:
    slow = {**facts, "ahead": -90.0, "memory": 1 << 28, "python_version": "3.1.4", "host": "blue"}
    sentence = str(sentence_of(own_facts(), [facts, slow], 1 << 30))
    assert "the clock is 90 s behind the driver's (1 of 2 executors, on blue): synchronise" in sentence
    assert "256 MiB of memory are left for a Python worker, which needs 2304 MiB" in sentence
    assert f"Python 3.1.4, and the driver's is {own_facts()['python_version']}" in sentence


def test_executors_that_differ_in_a_folder_or_a_number_are_named_together(facts: dict[str, Any]) -> None:
    """Each unpacks an archive into a folder of its own, and there may be hundreds."""
    executors = [
        {
            **changed(facts, "evercurrent", code="0", folder=f"/work/{number}/environment"),
            "ahead": 100.0 + number,
            "memory": (300 - number) << 20,
            "host": f"host{number:03}",
        }
        for number in range(200)
    ]
    sentence = str(sentence_of(own_facts(), [facts, *executors], 1 << 30))
    hosts = "(200 of 201 executors, on host000, host001, host002, host003, host004, and 195 more; one of them is shown)"
    assert sentence.count(hosts) == 3
    assert sentence.count("is other code than the driver's") == 1
    assert "the clock is 299 s ahead of" in sentence
    assert "101 MiB of memory are left" in sentence


def test_executors_of_other_versions_are_named_apart(facts: dict[str, Any]) -> None:
    executors = [
        {**changed(facts, "polars", version=version, folder=f"/{number}"), "host": f"host{number}"}
        for number, version in enumerate(("1.0.0", "1.0.0", "1.1.0"))
    ]
    sentence = str(sentence_of(own_facts(), executors, 0))
    assert "is version 1.0.0, and the driver's is" in sentence
    assert "(2 of 3 executors, on host0, host1; one of them is shown)" in sentence
    assert "is version 1.1.0, and the driver's is" in sentence
    assert "(1 of 3 executors, on host2)" in sentence


def test_the_facts_are_gathered_where_this_package_is_missing() -> None:
    """By a Python that finds nothing but its own library."""
    source = Path(executor_facts.__file__).read_text()
    program = f"{source}\nprint(gathered('', '', 0, 0.0)['libraries']['evercurrent'])"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert "No module named 'evercurrent'" in done.stdout


def test_the_checksum_is_of_names_and_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    first = checksum_of_code(str(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, checksum_of_code(str(tmp_path)), checksum_of_code(str(tmp_path / "none"))}) == 3


def test_failures_to_start_a_worker_in_a_sentence() -> None:
    page = 'Job aborted\n\tat java\njava.io.IOException: Cannot run program "/x/python": error=2\n\tat java'
    assert failure_of(RuntimeError(page)).startswith("there is no /x/python on them")
    other = "Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot"
    assert failure_of(RuntimeError(other)) == "their Python is 3.9, and the driver's is 3.11"
    assert failure_of(RuntimeError("something else\n\tat java")) == "something else"
    assert remedy_of(RuntimeError(page), "ship") == "ship"


@pytest.mark.parametrize(
    ("raised", "reason", "is_python"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "pyarrow is not installed in their Python", True),
        ("OSError: [Errno 28] No space left", "OSError: [Errno 28] No space left", False),
    ],
)
def test_an_error_of_a_worker_is_named_though_spark_begins_its_text_with_an_empty_line(
    raised: str, reason: str, is_python: bool
) -> None:
    """As under Spark Connect."""
    error = RuntimeError(
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n[PYTHON_EXCEPTION] An exception was "
        'thrown from the Python worker: Traceback (most recent call last):\n  File "worker.py", line 4207, in invoke_udf\n    import it\n'
        f"           ^^^^\n{raised}\n SQLSTATE: 38000"
    )
    assert failure_of(error) == reason
    assert (remedy_of(error, "ship") == "ship") == is_python
    assert failure_of(RuntimeError("\n  something else\n")) == "something else"
    assert failure_of(RuntimeError(" \n")) == "RuntimeError"


def test_a_worker_that_has_died_is_no_fault_of_an_environment() -> None:
    calling = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe."
    died = RuntimeError(
        f"{calling}\n: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat java"
    )
    assert failure_of(died) == "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    gone = ConnectionRefusedError(111, "Connection refused")
    assert failure_of(gone) == "Spark's Java has ended ([Errno 111] Connection refused)"
    for error in (died, gone):
        assert remedy_of(error, "ship").startswith("start the query again")


def test_two_threads_send_these_modules_by_value() -> None:
    """They are registered for the process: the one that ends first must not take them from the other."""
    from pyspark import cloudpickle

    both = Barrier(2)
    registered: list[bool] = []

    def send() -> None:
        both.wait()
        for _ in range(20):
            with executor_jobs._by_value():
                registered.append(executor_facts.__name__ in cloudpickle.list_registry_pickle_by_value())

    threads = [Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registered == [True] * 40
    assert executor_facts.__name__ not in cloudpickle.list_registry_pickle_by_value()
