"""Each block of Python in the pages that uses Spark runs on its own and twice in a row, and prints what its page shows.

One session runs all of them, and is the one that ``local_session`` returns to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snippets import IN_SPARK, Snippet, assert_runs_twice


@pytest.fixture
def folder(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of Python, and of Java: Spark resolves relative paths by the one that its Java started in."""
    java = spark.sparkContext._jvm.org.apache.hadoop.fs
    files = java.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(java.Path(str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    files.setWorkingDirectory(before)


@pytest.mark.parametrize("snippet", IN_SPARK, ids=lambda snippet: snippet.name)
@pytest.mark.usefixtures("folder")
def test_a_snippet_runs_in_spark_on_its_own_and_twice_in_a_row(snippet: Snippet) -> None:
    assert_runs_twice(snippet)
