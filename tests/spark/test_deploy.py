"""The archive of an environment: a Python that runs from any folder, with this package and nothing of this machine's paths."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from evercurrent.core.data.errors import PlanError
from evercurrent.spark_bridge import deploy, session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Spark on Windows is not supported")

PROGRAM = """
import sys, evercurrent, polars, pyarrow, numpy, pandas, json, helpful
print(json.dumps([evercurrent.__file__, polars.__version__, sys.prefix, helpful.__file__]))
"""


def test_an_archive_runs_elsewhere(environment_archive: Path, tmp_path: Path) -> None:
    """Without any of this environment's variables, and with a module of the user's."""
    packed = environment_archive
    assert [path.name for path in packed.parent.iterdir()] == ["environment.tar.gz"]
    there = tmp_path / "there"
    there.mkdir()
    subprocess.run(["tar", "-xzf", packed, "-C", there], check=True)
    done = subprocess.run(
        ["there/bin/python", "-c", PROGRAM], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    import json

    import polars

    package, version, prefix, helpful = json.loads(done.stdout)
    assert version == polars.__version__
    assert all(Path(place).resolve().is_relative_to(there.resolve()) for place in (package, prefix, helpful))
    with tarfile.open(packed) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert not [name.name for name in members if "/pyspark/" in name.name or "/idlelib/" in name.name]


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"end it with \.tar\.gz or \.tgz"):
        deploy.archive(tmp_path / "environment.tar")
    with pytest.raises(PlanError, match="level=10; give a whole number from 0 to 9"):
        deploy.archive(tmp_path / "environment.tar.gz", level=10)
    with pytest.raises(
        deploy.ArchiveError, match="'no_such_module' is to be in the archive and is not installed"
    ):
        deploy.archive(tmp_path / "environment.tar.gz", include=["no_such_module"])
    assert list(tmp_path.iterdir()) == []


def test_a_session_needs_an_archive_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark.sql.SparkSession, "getActiveSession", staticmethod(lambda: None))
    with pytest.raises(PlanError, match=r"archive='none\.tar\.gz' is not a file; write it with"):
        session(master="spark://host:7077", archive="none.tar.gz")
    with pytest.raises(PlanError, match="on local executors are this process; leave it out"):
        session(master="local", archive="none.tar.gz")
