"""Files that become shorter, are replaced or are written anew, followed and between runs: each row is taken, or the run ends with an error."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from evercurrent.core.data.errors import FileError
from evercurrent.views.cli import app
from evercurrent.views.connectors import followed_lines
from evercurrent.views.connectors.file_columns import Reading
from evercurrent.views.connectors.files import Reader
from evercurrent.views.connectors.lines import ReplacedFileError

SHOP = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
engine.view("takings", engine.source("sales", {"shop": pl.String, "price": pl.Int64}))
"""

HEADER = "shop,price\n"
ROWS = HEADER + "a,1\nb,2\n"


def write(path: Path, rows: list[tuple[str, int]]) -> None:
    """Write a file over what is there, in place, in the format of its suffix."""
    frame = pl.DataFrame(rows, schema={"shop": pl.String, "price": pl.Int64}, orient="row")
    match path.suffix:
        case ".csv":
            frame.write_csv(path)
        case ".jsonl":
            frame.write_ndjson(path)
        case ".parquet":
            frame.write_parquet(path)
        case _:
            frame.write_ipc(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP)
    Path("in").mkdir()
    return tmp_path


def run(*more: str) -> Result:
    return CliRunner().invoke(app, ["run", "shop.py", "--checkpoint", "state", *more])


def rows_of_deltas() -> list[str]:
    return [json.loads(line)["shop"] for line in Path("d.jsonl").read_text().splitlines()]


# Between two runs


@pytest.mark.parametrize("more", [(), ("--follow",)], ids=["read", "followed"])
@pytest.mark.parametrize("path", ["in", "in/x"], ids=["folder", "file"])
@pytest.mark.parametrize("rows_left", [0, 1])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow"])
def test_a_file_with_fewer_rows_than_were_taken_is_refused(
    folder: Path, suffix: str, rows_left: int, path: str, more: tuple[str, ...]
) -> None:
    file = Path(f"in/x.{suffix}")
    path = path if path == "in" else str(file)
    write(file, [("a", 1), ("b", 2)])
    assert run("--input", f"sales={path}").exit_code == 0
    write(file, [("a", 1)][:rows_left])
    with ended_after(60):
        result = run("--input", f"sales={path}", *more)
    assert result.exit_code == 1, result.output
    rows = "0 rows" if not rows_left else "1 row"
    assert f"x.{suffix}: has {rows}, but 2 were taken from it before" in " ".join(result.output.split())


def test_an_empty_file_that_is_followed_is_refused_if_rows_were_taken_from_it(folder: Path) -> None:
    Path("in/x.csv").write_text(ROWS)
    assert run("--input", "sales=in").exit_code == 0
    Path("in/x.csv").write_text("")
    with ended_after(60):
        result = run("--input", "sales=in", "--follow")
    assert result.exit_code == 1, result.output
    assert "has 0 rows, but 2 were taken" in " ".join(result.output.split())


def test_an_order_of_arrival_of_files_that_lost_all_rows_is_another_one(folder: Path) -> None:
    Path("shop.py").write_text(SHOP + "\ndef arrivals(batches, batch_rows):\n    yield from batches\n")
    Path("in/x.csv").write_text(ROWS)
    Path("in/y.csv").write_text(ROWS)
    assert run("--input", "sales=in").exit_code == 0
    Path("in/x.csv").write_text(HEADER)
    Path("in/y.csv").write_text(HEADER)
    result = run("--input", "sales=in")
    assert result.exit_code == 1, result.output
    assert "or one had another size then" in " ".join(result.output.split())


def test_files_without_rows_may_have_one_name(folder: Path) -> None:
    Path("other").mkdir()
    Path("in/x.csv").write_text(ROWS)
    Path("other/x.csv").write_text(HEADER)
    Path("in/y.csv").write_text(HEADER)
    options = ("--input", "sales=in", "--input", "sales=other")
    assert run(*options).exit_code == 0
    Path("in/x.csv").write_text(HEADER)
    assert run("--input", "sales=in").exit_code == 1


# While it is followed


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Within this context, after so many seconds the process gets Ctrl-C."""
    over = threading.Event()

    def interrupt() -> None:
        if not over.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def replaced(text: str) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        other = Path("other.csv")
        other.write_text(text)
        other.replace(path)

    return replace


CHANGES: dict[str, Callable[[Path], object]] = {
    "cut to its header": lambda path: path.write_text(HEADER),
    "cut to nothing": lambda path: path.write_text(""),
    "cut to one row": lambda path: os.truncate(path, len(HEADER) + 4),
    "written anew with as many rows": lambda path: path.write_text(HEADER + "c,3\nd,4\n"),
    "written anew with more rows": lambda path: path.write_text(HEADER + "c,3\nd,4\ne,5\n"),
    "replaced by as many rows": replaced(HEADER + "c,3\nd,4\n"),
    "replaced by more rows": replaced(HEADER + "c,3\nd,4\ne,5\n"),
    "replaced by fewer rows": replaced(HEADER + "c,3\n"),
}


@pytest.mark.parametrize("path", ["in", "in/x.csv"], ids=["folder", "file"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_followed_file_that_lost_what_was_read_is_an_error(folder: Path, change: str, path: str) -> None:
    file = Path("in/x.csv")
    file.write_text(ROWS)

    def change_it() -> None:
        while not (Path("d.jsonl").exists() and Path("d.jsonl").read_text().count("\n") == 2):
            time.sleep(0.02)
        CHANGES[change](file)
        time.sleep(0.6)
        with file.open("a") as end:
            end.write("f,6\ng,7\nh,8\n")

    thread = threading.Thread(target=change_it, daemon=True)
    thread.start()
    with ended_after(6):
        result = run("--input", f"sales={path}", "--follow", "--deltas", "takings=d.jsonl", "--quiet")
    thread.join(60)
    assert result.exit_code == 1, result.output
    assert "in/x.csv: the file is" in result.stderr
    assert "(2 rows)" in result.stderr
    assert rows_of_deltas() == ["a", "b"]


def test_a_followed_file_may_be_replaced_by_a_longer_one_with_the_same_beginning(folder: Path) -> None:
    file = Path("in/x.csv")
    file.write_text(ROWS)

    def change_it() -> None:
        for number, text in enumerate((ROWS + "c,3\n", ROWS + "c,3\nd,4\n")):
            while not (Path("d.jsonl").exists() and Path("d.jsonl").read_text().count("\n") == 2 + number):
                time.sleep(0.02)
            replaced(text)(file)
        while Path("d.jsonl").read_text().count("\n") < 4:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=change_it, daemon=True)
    thread.start()
    with ended_after(60):
        result = run("--input", "sales=in", "--follow", "--deltas", "takings=d.jsonl", "--quiet")
    assert result.exit_code == 0, result.output
    assert rows_of_deltas() == ["a", "b", "c", "d"]


def test_a_parquet_file_that_changes_while_it_is_followed_is_an_error(folder: Path) -> None:
    write(file := Path("in/x.parquet"), [("a", 1), ("b", 2)])

    def change_it() -> None:
        while not (Path("d.jsonl").exists() and Path("d.jsonl").read_text().count("\n") == 2):
            time.sleep(0.02)
        write(other := Path("other.parquet"), [("c", 3), ("d", 4)])
        other.replace(file)

    thread = threading.Thread(target=change_it, daemon=True)
    thread.start()
    with ended_after(6):
        result = run("--input", "sales=in", "--follow", "--deltas", "takings=d.jsonl", "--quiet")
    assert result.exit_code == 1, result.output
    assert "the file was changed after 2 rows" in result.stderr


# Any changes of a followed file


KINDS = (
    "append",
    "append part",
    "cut",
    "empty",
    "rewrite",
    "rewrite longer",
    "rename",
    "replace",
    "extend",
    "touch",
    "remove",
)

changes = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.booleans()), max_size=12)
"""Kinds of changes with a number of lines, and whether the reader looks after it."""


class Growing:
    """A file of numbered lines that is changed in some way, and the rows that it and its predecessors had at each look."""

    def __init__(self, path: Path, header: str, line: Callable[[int], str]) -> None:
        self.path = path
        self._header = header
        self._line = line
        self._numbers = count()
        path.write_text(header)

    def change(self, kind: str, lines: int) -> None:
        new = "".join(self._line(next(self._numbers)) for _ in range(lines))
        text = self.path.read_text() if self.path.exists() else ""
        match kind:
            case "append":
                self._append(new)
            case "append part":
                self._append(new[: len(new) // 2])
            case "cut":
                self.path.write_text("".join(text.splitlines(keepends=True)[: 1 + lines]))
            case "empty":
                self.path.write_text("")
            case "rewrite":
                self.path.write_text(self._header + new)
            case "rewrite longer":
                fill = "".join(self._line(next(self._numbers)) for _ in text.splitlines())
                self.path.write_text(self._header + fill + new)
            case "rename":
                if self.path.exists():
                    self.path.rename(self.path.with_name(".old"))
                self.path.write_text(self._header + new)
            case "replace" | "extend":
                other = self.path.with_name(".other")
                other.write_text(self._header + new if kind == "replace" else (text or self._header) + new)
                other.replace(self.path)
            case "touch":
                self.path.touch()
            case _:
                self.path.unlink(missing_ok=True)

    def _append(self, text: str) -> None:
        if not self.path.exists() or not self.path.stat().st_size:
            text = self._header + text
        with self.path.open("a") as file:
            file.write(text)

    @property
    def lines(self) -> list[str]:
        """The complete lines after the header."""
        text = self.path.read_text() if self.path.exists() else ""
        return [
            line for line in text.removeprefix(self._header).splitlines(keepends=True) if line.endswith("\n")
        ]


FORMATS: dict[str, tuple[str, Callable[[int], str]]] = {
    "x.csv": ("n\n", lambda number: f"{number}\n"),
    "x.jsonl": ("", lambda number: f'{{"n":{number}}}\n'),
    "x.log": (
        "",
        lambda number: f'192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 {number}\n',
    ),
}


def reader_of(path: Path, reading: Reading) -> Reader:
    column = "bytes" if path.suffix == ".log" else "n"
    schema = pl.Schema({column: pl.Int64})
    where = path.parent if reading.leaves_out else path
    return Reader("s", [where], schema, diffs=False, batch_rows=3, reading=reading)


def look(reader: Reader) -> list[int]:
    return [row[0] for batch in reader.batches(final=False) for row in batch.frame.rows()]


def numbers_of(lines: list[str], line: Callable[[int], str]) -> list[int]:
    """The numbers in complete lines; a line that another one was appended to in its midst has none."""
    numbers = {line(number): number for number in range(200)}
    return [numbers[text] for text in lines if text in numbers]


@given(changes=changes, name=st.sampled_from(sorted(FORMATS)))
@settings(deadline=None, max_examples=300)
def test_with_a_checkpoint_each_line_that_is_there_at_a_look_is_read_or_an_error(
    changes: list[tuple[str, int, bool]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("in") / name
    header, line = FORMATS[name]
    file = Growing(path, header, line)
    reader = reader_of(path, Reading(skips=True, refuses_replaced=True, leaves_out=True))
    read: list[int] = []
    beginning = ""
    for kind, lines, looks in changes:
        file.change(kind, lines)
        if not looks:
            continue
        text = path.read_text() if path.exists() else beginning
        if not text.startswith(beginning):
            with pytest.raises(ReplacedFileError):
                look(reader)
            return
        read += look(reader)
        if path.exists():
            assert path not in reader.left_out
            assert read == numbers_of(file.lines, line)
            beginning = text[: text.rfind("\n") + 1]


@given(changes=changes, name=st.sampled_from(sorted(FORMATS)))
@settings(deadline=None, max_examples=300)
def test_without_a_checkpoint_each_line_that_is_there_at_a_look_is_read_once(
    changes: list[tuple[str, int, bool]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("in") / name
    header, line = FORMATS[name]
    file = Growing(path, header, line)
    reader = reader_of(path, Reading(skips=True, follows_replaced=True))
    read, is_open = set(look(reader)), True
    for kind, lines, looks in changes:
        old = numbers_of(file.lines, line) if kind == "rename" and is_open else []
        file.change(kind, lines)
        is_open = looks or kind == "rename"
        if is_open:
            read.update(look(reader))
            assert read.issuperset(numbers_of(file.lines, line) + old)


def test_a_file_that_was_appended_to_and_taken_away_is_read_to_its_end(tmp_path: Path) -> None:
    """Even if there is no new file yet, and also a log."""
    for name, (header, line) in FORMATS.items():
        path = tmp_path / name
        path.write_text(header + line(0))
        reader = reader_of(path, Reading(skips=True, follows_replaced=True))
        assert look(reader) == [0]
        path.rename(tmp_path / "old")
        with (tmp_path / "old").open("a") as file:
            file.write(line(1))
        assert look(reader) == [1]
        path.write_text(header + line(2))
        assert look(reader) == [2]


def test_bad_lines_of_a_log_that_was_replaced_do_not_count_for_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    line = FORMATS["x.log"][1]
    path.write_text(line(0) + "odd\n" * 150)
    reader = reader_of(path, Reading(skips=True, follows_replaced=True))
    assert look(reader) == [0]
    path.rename(tmp_path / ".old")
    path.write_text("odd\n")
    assert look(reader) == []
    with path.open("a") as file:
        file.write(line(1))
    assert look(reader) == [1]
    assert reader.refused["line"].to_list()[-1] == 1


def test_a_large_file_is_compared_in_its_last_bytes_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(100_000)))
    reader = reader_of(path, Reading(skips=True, refuses_replaced=True))
    assert len(look(reader)) == 100_000
    monkeypatch.setattr(followed_lines._Beginning, "_is_whole_in", None)
    with path.open("a") as file:
        file.write("7\n")
    assert look(reader) == [7]
    monkeypatch.undo()
    text = path.read_text()
    path.write_text(text.replace("\n500\n", "\n501\n"))  # As long, with the same end.
    with pytest.raises(FileError, match="does not begin any more"):
        look(reader)
