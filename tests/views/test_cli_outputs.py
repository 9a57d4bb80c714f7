"""What the command writes, and whether it can be written; its help; and how it ends while it is still being loaded."""

from __future__ import annotations

import bz2
import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from evercurrent import loading
from evercurrent.core.data.errors import FileError
from evercurrent.views.cli import app
from evercurrent.views.cli.outputs import console_of
from evercurrent.views.connectors.delta_files import DeltaFile

APP = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
words = engine.source("words", {"word": pl.String})
engine.view("counts", words.group_by("word").len())
engine.view("lists", words.group_by().agg(all=pl.col("word").implode()))
"""

SCHEMA = pl.Schema({"k": pl.Int64(), "_epoch": pl.UInt64(), "_diff": pl.Int64()})

PATHS = os.pathsep.join(filter(None, sys.path))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "w.csv").write_text("word\na\nb\na\n")

    def call(*arguments: str) -> tuple[int, str, str]:
        ended = CliRunner().invoke(app, ["run", "app.py", "--input", "words=w.csv", *arguments])
        return ended.exit_code, ended.stdout, ended.stderr

    return call


def test_deltas_of_a_view_that_was_added_later_are_written_from_its_beginning_in_every_run(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    declared = APP.replace(".String})", ".String}, retained=True)")
    (tmp_path / "app.py").write_text(declared)
    assert run("--checkpoint", "here")[0] == 0
    (tmp_path / "app.py").write_text(declared + 'engine.view("a", words.filter(pl.col("word") == "a"))')
    for number in range(2):
        code, out, errors = run("--checkpoint", "here", "--deltas", "a=a.csv")
        assert (code, errors) == (0, ""), number
        assert "no longer retained" not in out
        assert pl.read_csv("a.csv").rows() == [("a", 2, 2)]


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        (".arrow", lambda path: pl.read_ipc(path)),
        (".arrows", pl.read_ipc_stream),
        (".csv.gz", lambda path: pl.read_csv(gzip.decompress(path.read_bytes()), schema=SCHEMA)),
        (".jsonl.gz", lambda path: pl.read_ndjson(gzip.decompress(path.read_bytes()), schema=SCHEMA)),
        (".ndjson.bz2", lambda path: pl.read_ndjson(bz2.decompress(path.read_bytes()), schema=SCHEMA)),
        (".jsonl.zst", lambda path: pl.read_ndjson(pa.input_stream(path, compression="zstd").read(), schema=SCHEMA)),
        (".csv.lz4", lambda path: pl.read_csv(pa.input_stream(path, compression="lz4").read(), schema=SCHEMA)),
    ],
)  # fmt: skip
def test_deltas_are_in_the_format_of_their_suffix(
    tmp_path: Path, suffix: str, read: Callable[[Path], pl.DataFrame]
) -> None:
    path = tmp_path / f"d{suffix}"
    deltas = [
        pl.DataFrame({"k": [epoch, 7], "_epoch": [epoch] * 2, "_diff": [1, -1]}, schema=SCHEMA)
        for epoch in (1, 2)
    ]
    with DeltaFile(path, SCHEMA) as file:
        for delta in deltas:
            file.write(delta)
        assert not path.exists()
    assert read(path).equals(pl.concat(deltas))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    with DeltaFile(path, SCHEMA):
        pass
    assert read(path).schema == SCHEMA


@pytest.mark.parametrize("name", ["d.parquet.gz", "d.gz", "d.txt", "d.jsonl.xz"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match=r"the suffix has to be one of '\.parquet'.* as \.jsonl\.gz"):
        DeltaFile(tmp_path / name, SCHEMA)


def test_what_deltas_write_can_be_an_input(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    for suffix in (".jsonl.gz", ".csv.zst", ".arrow", ".arrows"):
        assert run("--deltas", f"counts=d{suffix}", "--quiet")[0] == 0
        (tmp_path / "again.py").write_text(
            APP.replace('{"word": pl.String}', '{"word": pl.String, "len": pl.Int64}, kind="diffs"')
        )
        ended = CliRunner().invoke(app, ["run", "again.py", "--input", f"words=d{suffix}"])
        assert (ended.exit_code, "rows read  2" in ended.stdout) == (0, True), ended.output


def test_an_output_that_cannot_be_written_is_reported_before_the_run(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    for output in ("taken", "taken/below"):
        code, out, err = run("--output", output)
        assert (code, out) == (1, "")
        assert "cannot be written" in err
        assert "choose another folder" in err
    (tmp_path / "out" / "counts.parquet").mkdir(parents=True)
    code, out, err = run("--output", "out", "--deltas", "counts=d.jsonl")
    assert (code, out, (tmp_path / "d.jsonl").exists()) == (1, "", False)
    assert "out/counts.parquet: cannot be written (Is a directory)" in err


def test_a_format_that_cannot_represent_a_view_is_reported_before_the_run(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, err = run("--output", "out", "--output-format", "csv")
    assert (code, out) == (1, "")
    assert "view 'lists': column 'all' is List(String), which csv cannot represent; write parquet" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command", [[], ["run"], ["timeline"], ["checkpoint"], ["checkpoint", "ls"]], ids=" ".join
)
def test_help_shows_no_value_of_flags(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"]).output
    assert "--help" in shown
    assert "<bool>" not in shown


def test_no_columns_are_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("0", 240), ("many", 240), ("30", 30)):
        monkeypatch.setenv("COLUMNS", columns)
        assert console_of().width == width


@pytest.mark.parametrize(
    ("argv", "orig_argv", "expected"),
    [
        (["/usr/bin/evercurrent", "run"], [], True),
        (["evercurrent.exe"], [], True),
        (["-m"], ["python", "-m", "evercurrent", "run"], True),
        (["-m"], ["python", "-m", "evercurrent.views", "run"], False),
        (["app.py", "evercurrent"], [], False),
        (["-c"], ["python", "-c", "pass"], False),
        ([], [], False),
    ],
)
def test_only_the_command_ends_silently_while_it_is_loaded(
    argv: list[str], orig_argv: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert loading.is_command() is expected


def test_an_interrupt_while_polars_is_imported_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "polars").mkdir()  # It stands in for polars in the middle of its import.
    (tmp_path / "polars" / "__init__.py").write_text(
        "import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(300)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "evercurrent", "--version"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), PATHS])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "began").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=300) == ("", "")
    assert process.returncode == loading.INTERRUPTED


def printed_by(program: str) -> str:
    """What a program prints in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": PATHS})  # fmt: skip
    return ended.stdout


def test_an_interrupt_after_that_is_an_exception_again() -> None:
    program = (
        "import sys, signal; sys.argv = ['evercurrent', '--version']\n"
        "import evercurrent\n"
        "began = signal.getsignal(signal.SIGINT)\n"
        "from evercurrent.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print(began.__name__, signal.getsignal(signal.SIGINT).__name__)\n"
    )
    assert printed_by(program).splitlines()[-1] == "_end default_int_handler"


def test_no_garbage_is_looked_for_while_it_is_loaded_and_then_among_what_is_new() -> None:
    program = (
        "import gc, sys; sys.argv = ['evercurrent', '--version']\n"
        "import evercurrent\n"
        "loading = gc.isenabled(), gc.get_freeze_count() > 0\n"
        "from evercurrent.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print(loading, (gc.isenabled(), gc.get_freeze_count() > 0))\n"
    )
    assert printed_by(program).splitlines()[-1] == "(False, False) (True, True)"


def test_a_program_that_imports_it_looks_for_garbage_as_before() -> None:
    program = "import gc, evercurrent; print(gc.isenabled(), gc.get_freeze_count())"
    assert printed_by(program) == "True 0\n"
