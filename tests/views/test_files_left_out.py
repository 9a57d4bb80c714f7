"""Files of a followed folder that cannot be read: they are left out and named, and the others are read."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from evercurrent.core.data.errors import FileError
from evercurrent.views.connectors.file_columns import Reading
from evercurrent.views.connectors.files import PATIENCE, Reader

GOOD = "k,v\na,1\n"


def reader_of(*paths: Path, leaves_out: bool = True) -> Reader:
    reading = Reading(skips=True, leaves_out=leaves_out)
    schema = pl.Schema({"k": pl.String, "v": pl.Int64})
    return Reader("s", paths, schema, diffs=False, batch_rows=100, reading=reading)


def look(reader: Reader) -> list[tuple[str, int]]:
    return [row for batch in reader.batches(final=False) for row in batch.frame.rows()]


def write_parquet(path: Path) -> None:
    pl.DataFrame({"k": ["x"], "v": ["no number"]}).write_parquet(path)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("b.xlsx", lambda path: path.write_bytes(b"PK"), "a spreadsheet is not read; save it as CSV"),
        ("b.zip", lambda path: path.write_bytes(b"PK"), "an archive is not read"),
        ("README.md", lambda path: path.write_text("hello"), "the format of a file follows from its suffix"),
        ("b", lambda path: path.mkdir(), "a folder inside a folder is not read"),
        ("b.csv", lambda path: path.mkdir(), "a folder inside a folder is not read"),
        ("b.csv", lambda path: path.symlink_to(path.parent / "nowhere.csv"), "removed before it was read"),
        ("b.csv", lambda path: path.write_text("x,y\n1,2\n"), "there are no columns 'k', 'v', as source 's' declares"),
        ("b.csv", lambda path: path.write_text("k,v,w\na,1,2\n"), "column 'w' is not declared by source 's'"),
        ("b.csv", lambda path: path.write_text("k,v\n", encoding="utf-16"), "the header is not UTF-8 text"),
        ("b.csv.gz", lambda path: path.write_bytes(b"k,v\na,1\n"), "not compressed by gzip"),
        ("b.parquet.gz", lambda path: path.write_bytes(b""), "a compressed file is CSV or JSON lines"),
        ("b.parquet", write_parquet, "column 'v' is String, which source 's' declares as Int64"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_left_out(
    tmp_path: Path, name: str, write: Callable[[Path], object], message: str
) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    write(tmp_path / name)
    (tmp_path / "z.csv").write_text("k,v\nz,26\n")
    reader = reader_of(tmp_path)
    assert look(reader) == [("a", 1), ("z", 26)]
    assert list(reader.left_out) == [tmp_path / name]
    assert message in reader.left_out[tmp_path / name]
    (tmp_path / "zz.csv").write_text("k,v\nzz,27\n")
    assert look(reader) == [("zz", 27)]
    assert reader.unfinished == []
    assert reader.rows == 3
    with pytest.raises(FileError) as raised:
        look(reader_of(tmp_path, leaves_out=False))
    assert message in str(raised.value)


def test_a_file_that_was_left_out_is_read_when_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    reader = reader_of(tmp_path)
    assert (look(reader), list(reader.left_out)) == ([], [tmp_path / "a.csv"])
    (tmp_path / "a.csv").write_text(GOOD + "b,2\n")
    assert (look(reader), reader.left_out) == ([("a", 1), ("b", 2)], {})


def test_a_compressed_file_that_is_still_copied_is_read_to_its_end_once(tmp_path: Path) -> None:
    rows = [(f"k{i}", i) for i in range(300_000)]
    whole = gzip.compress(b"k,v\n" + "".join(f"{k},{v}\n" for k, v in rows).encode())
    path = tmp_path / "a.csv.gz"
    read: list[tuple[str, int]] = []
    reader = reader_of(tmp_path)
    for share in (0.1, 0.5, 0.9, 1):
        path.write_bytes(whole[: int(len(whole) * share)])
        read += look(reader)
        assert list(reader.left_out) == ([path] if share < 1 else [])
    assert read == rows
    assert reader.rows == len(rows)


def test_a_compressed_file_that_was_replaced_by_another_is_left_out(tmp_path: Path) -> None:
    lines = "k,v\n" + "".join(f"k{i},{i}\n" for i in range(400_000))
    path, other = tmp_path / "a.csv.gz", tmp_path / ".b.csv.gz"
    path.write_bytes(gzip.compress(lines.encode())[:-2000])
    reader = reader_of(tmp_path)
    assert len(look(reader)) == reader.rows > 0
    other.write_bytes(gzip.compress(lines.encode()))
    other.replace(path)
    assert look(reader) == []
    assert "the file was changed after" in reader.left_out[path]


def test_a_damaged_parquet_file_is_left_out_when_it_no_longer_changes(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    reader = reader_of(tmp_path)
    for _ in range(PATIENCE):
        assert look(reader) == []
    assert "incomplete or damaged so far" in reader.why_unfinished(tmp_path / "a.parquet")
    assert look(reader) == []
    assert list(reader.left_out) == [tmp_path / "a.parquet"]
    assert reader.unfinished == []


def test_a_file_that_was_given_itself_has_to_be_readable(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(FileError, match="there are no columns 'k', 'v'"):
        look(reader_of(tmp_path / "a.csv"))


APP = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
engine.view("kept", engine.source("s", {"k": pl.String, "v": pl.Int64}))
"""


def test_a_service_goes_on_and_names_what_it_left_out(tmp_path: Path) -> None:
    folder, deltas = tmp_path / "in", tmp_path / "d.jsonl"
    folder.mkdir()
    (tmp_path / "app.py").write_text(APP)
    (folder / "a.xlsx").write_bytes(b"PK")
    (folder / "b.csv").write_text(GOOD)
    command = [sys.executable, "-m", "evercurrent", "run", "app.py", "--input", "s=in", "--follow", "--deltas", "kept=d.jsonl"]  # fmt: skip
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        for name in ("b", "c"):
            deadline = time.monotonic() + 300
            (folder / f"{name}.csv").write_text(GOOD.replace("a,", f"{name},"))
            while not (deltas.exists() and f'"{name}"' in deltas.read_text()):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    reason = "in/a.xlsx: a spreadsheet is not read; save it as CSV"
    assert f"left out until it changes: {reason}" in out
    assert f"refused    {reason}" in out
    assert {json.loads(line)["k"] for line in deltas.read_text().splitlines()} == {"b", "c"}
