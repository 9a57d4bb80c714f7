"""Inputs of the command at urls: what fsspec opens is read like a file or a folder of this machine."""

from __future__ import annotations

import gzip
import re
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evercurrent.views.cli import app

fsspec = pytest.importorskip("fsspec")

WORDS = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
words = engine.source("words", {"word": pl.String, "n": pl.Int64})
engine.view("counts", words.group_by("word").agg(pl.col("n").sum()))
"""
ROWS = "word,n\na,1\nb,2\na,3\n"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder of its own, with an empty memory and a folder of temporary files that has to be empty at the end."""
    monkeypatch.chdir(tmp_path)
    Path("words.py").write_text(WORDS)
    copies = tmp_path / "temporary"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield copies
    memory.store.clear()
    assert list(copies.iterdir()) == []


def put(path: str, content: bytes) -> None:
    fsspec.filesystem("memory").pipe(path, content)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", "words.py", "--output", "out", *arguments])


def contents() -> list[tuple[Any, ...]]:
    return pl.read_parquet("out/counts.parquet").sort("word").rows()


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.jsonl"])
def test_a_file(name: str) -> None:
    frame = pl.read_csv(ROWS.encode())
    frame.write_parquet("made")
    made = {"csv": ROWS.encode(), "gz": gzip.compress(ROWS.encode()), "jsonl": frame.write_ndjson().encode()}
    put(f"/in/{name}", made.get(name.rpartition(".")[2], Path("made").read_bytes()))
    done = run("--input", f"words=memory://in/{name}")
    assert done.exit_code == 0, done.output
    assert contents() == [("a", 4), ("b", 2)]


def test_all_files_of_a_folder() -> None:
    put("/in/1.csv", ROWS.encode())
    put("/in/2.csv", b"word,n\nc,9\n")
    assert run("--input", "words=memory://in").exit_code == 0
    assert contents() == [("a", 4), ("b", 2), ("c", 9)]


def test_urls_and_files_together() -> None:
    put("/in/1.csv", ROWS.encode())
    Path("2.csv").write_text("word,n\nc,9\n")
    Path("with space.csv").write_text("word,n\nd,7\n")
    here = Path.cwd().as_uri()
    done = run(
        "--input", "words=memory://in/1.csv", "--input", "words=2.csv", "--input", f"words={here}/with%20space.csv"
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert contents() == [("a", 4), ("b", 2), ("c", 9), ("d", 7)]


def test_over_http() -> None:
    Path("site").mkdir()
    Path("site/rows.csv").write_text(ROWS)
    pytest.importorskip("aiohttp")
    handler = partial(SimpleHTTPRequestHandler, directory="site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = run("--input", f"words=http://127.0.0.1:{server.server_port}/rows.csv?token=1")
        absent = run("--input", f"words=http://127.0.0.1:{server.server_port}/none.csv")
        Path("site/in").mkdir()
        Path("site/in/rows.csv").write_text(ROWS)
        folder = run("--input", f"words=http://127.0.0.1:{server.server_port}/in/")
        server.shutdown()
    assert done.exit_code == 0, done.output
    assert contents() == [("a", 4), ("b", 2)]
    assert "there is nothing here" in absent.stderr
    assert "give the url of each file" in " ".join(folder.stderr.split())
    unanswered = run("--input", f"words=http://127.0.0.1:{server.server_port}/rows.csv")
    assert "Cannot connect to host 127.0.0.1" in " ".join(unanswered.stderr.split())


def test_a_checkpoint_records_what_was_read() -> None:
    put("/in/1.csv", ROWS.encode())
    words = ("--input", "words=memory://in", "--checkpoint", "state")
    assert run(*words).exit_code == 0
    put("/in/1.csv", ROWS.encode() + b"a,10\n")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert contents() == [("a", 14), ("b", 2)]


def test_of_a_drawing() -> None:
    put("/in/1.csv", ROWS.encode())
    made = CliRunner().invoke(
        app, ["timeline", "words.py", "--input", "words=memory://in/1.csv", "-o", "run.svg"]
    )
    assert made.exit_code == 0, made.output
    assert Path("run.svg").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://in/none.csv", "memory://in/none.csv: cannot be read: there is nothing here"),
        ("nothing://in/1.csv", "nothing://in/1.csv: cannot be opened: .*; copy the file"),
    ],
)
def test_what_cannot_be_read_is_named(url: str, message: str) -> None:
    done = run("--input", f"words={url}")
    assert done.exit_code == 1
    assert re.search(message, " ".join(done.stderr.split())), done.stderr


def test_a_url_is_not_followed() -> None:
    put("/in/1.csv", ROWS.encode())
    done = run("--input", "words=memory://in", "--follow")
    assert done.exit_code == 2
    assert "memory://in: a url is read once" in " ".join(done.stderr.replace("│", " ").split())


def test_a_row_that_cannot_be_read_is_named_with_its_file() -> None:
    put("/in/rows.csv", b"word,n\na,x\n")
    done = run("--input", "words=memory://in/rows.csv")
    assert done.exit_code == 1
    assert "in/rows.csv" in done.stderr
