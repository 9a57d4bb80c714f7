"""The command among others: pipes, compressed and replaced files, other formats, rows that are bad, narrow terminals."""

import gzip
import lzma
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from evercurrent.views.cli import app
from evercurrent.views.cli.screens import LiveScreen, Shown, Tally
from evercurrent.views.cli.tables import FittingChanges, FittingTable
from evercurrent.views.connectors.lines import WAIT

WORDS = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
words = engine.source("words", {"word": pl.String, "n": pl.Int64}, kind="upsert", key="word")
engine.view("counts", words.group_by("word").agg(pl.col("n").sum()))
order = {"counts": ["word"]}
"""
ROWS = "word,n\na,1\nb,2\nc,3\n"
JSON = '{"word": "a", "n": 1}\n{"word": "b", "n": 2}\n{"word": "c", "n": 3}\n'
CONTENTS = [("a", 1), ("b", 2), ("c", 3)]


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.py").write_text(WORDS)


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["run", "words.py", *arguments], input=text)


def contents(suffix: str = "parquet") -> list[tuple[Any, ...]]:
    return pl.read_parquet("out/counts.parquet").sort("word").rows()


def command(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    whole = [sys.executable, "-m", "evercurrent", "run", "words.py", *arguments]
    return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# Pipes


@pytest.mark.parametrize("text", [ROWS, JSON], ids=["CSV", "JSON lines"])
@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_rows_come_from_the_standard_input(text: str, path: str) -> None:
    done = run("--input", f"words={path}", "--output", "out", text=text)
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_deltas_go_to_the_standard_output_and_all_else_elsewhere(path: str) -> None:
    process = command("--input", "words=-", "--deltas", f"counts={path}", stdin=subprocess.PIPE)
    out, err = process.communicate(ROWS.encode(), 60)
    assert process.returncode == 0, err
    assert pl.read_ndjson(out).sort("word").rows() == [(word, n, 1, 1) for word, n in CONTENTS]
    assert b"rows read" in err


def test_an_input_that_ends_without_rows_is_an_error() -> None:
    done = run("--input", "words=-", text="")
    assert done.exit_code == 1
    assert "the standard input is empty" in done.output


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no pipes")
def test_a_broken_pipe_ends_the_command_silently() -> None:
    Path("many.csv").write_text("word,n\n" + "".join(f"w{n},{n}\n" for n in range(20_000)))
    process = command("--input", "words=many.csv", "--batch-rows", "100", "--deltas", "counts=-")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert b"Error" not in (errors := process.stderr.read()), errors
    assert b"error" not in errors, errors
    assert process.wait(60) == 141
    process.stderr.close()


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("wor", []),
        ("word,n\n", []),
        ("word,n\na,1\nb,2\nc", [("a", 1), ("b", 2)]),
        (JSON, CONTENTS),
    ],
    ids=["nothing", "part of a header", "a header", "CSV", "JSON lines"],
)
def test_an_interrupt_ends_the_wait_for_a_quiet_pipe(
    text: str, rows: list[tuple[str, int]], follow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    ended, is_late = threading.Event(), []

    def interrupt() -> None:
        while not WAIT.is_on:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
        if not ended.wait(3):
            is_late.append(True)
        os.close(writer)

    os.write(writer, text.encode())
    thread = threading.Thread(target=interrupt)
    thread.start()
    paths = ["--input", "words=-", "--deltas", "counts=d.jsonl"]
    with os.fdopen(reader, "rb") as pipe:
        monkeypatch.setattr("typer.testing.make_input_stream", lambda *_: pipe)
        done = run(*paths, *(["--follow"] if follow else []))
        ended.set()
        thread.join()
    assert not is_late, "it ended with the pipe"
    assert done.exit_code == (0 if follow else 130), done.output
    deltas = pl.read_ndjson("d.jsonl").sort("word").select("word", "n").rows() if rows else []
    assert deltas == rows


# Formats


def test_compressed_files_are_read() -> None:
    with gzip.open("words.csv.gz", "wb") as file:
        file.write(ROWS.encode())
    with pa.output_stream("more.jsonl.zst", compression="zstd") as stream:
        stream.write(b'{"word": "d", "n": 4}\n')
    done = run("--input", "words=words.csv.gz", "--input", "words=more.jsonl.zst", "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == [*CONTENTS, ("d", 4)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("w.csv.gz", gzip.compress(ROWS.encode() * 500, mtime=0)[:-20], "incomplete or damaged"),
        ("w.csv.zst", b"word,n\n", "not compressed by zstd"),
        ("w.parquet.gz", b"", "compress their columns themselves"),
        ("w.gz", b"", ".csv.gz"),
    ],
)
def test_compressed_files_that_cannot_be_read(name: str, data: bytes, message: str) -> None:
    Path(name).write_bytes(data)
    done = run("--input", f"words={name}")
    assert done.exit_code == 1
    assert message in " ".join(done.output.split()), done.output


@pytest.mark.parametrize(("separator", "character"), [(";", ";"), ("tab", "\t"), ("|", "|")])
def test_csv_with_another_separator(separator: str, character: str) -> None:
    Path("w.csv").write_text(ROWS.replace(",", character))
    done = run("--input", "words=w.csv", "--separator", separator, "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


def test_a_separator_is_one_character() -> None:
    Path("w.csv").write_text(ROWS)
    assert run("--input", "words=w.csv", "--separator", ",,").exit_code == 2


@pytest.mark.parametrize("suffix", ["csv", "arrow", "arrows", "parquet", "jsonl"])
def test_deltas_in_each_format(suffix: str) -> None:
    Path("w.csv").write_text('word,n\na,1\nb,2\nc,3\n"",\n')
    done = run("--input", "words=w.csv", "--batch-rows", "2", "--deltas", f"counts=d.{suffix}")
    assert done.exit_code == 0, done.output
    read: dict[str, Any] = {
        "csv": lambda path: pl.read_csv(path).fill_null(""),
        "arrow": pl.read_ipc,
        "arrows": pl.read_ipc_stream,
        "parquet": pl.read_parquet,
        "jsonl": pl.read_ndjson,
    }
    rows = read[suffix](f"d.{suffix}").rows()
    assert sorted(rows) == [("", 0, 2, 1), ("a", 1, 1, 1), ("b", 2, 1, 1), ("c", 3, 2, 1)]
    again = run("--input", f"words=d.{suffix}", "--output", "out")
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_contents_in_each_format(form: str) -> None:
    Path("w.csv").write_text(ROWS)
    done = run("--input", "words=w.csv", "--output", "out", "--output-format", form)
    assert done.exit_code == 0, done.output
    read: dict[str, Any] = {
        "csv": pl.read_csv, "arrow": pl.read_ipc, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson,
    }  # fmt: skip
    assert read[form](f"out/counts.{form}").sort("word").rows() == CONTENTS


# Odd rows


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_columns_that_are_not_declared_are_ignored_on_request(suffix: str) -> None:
    frame = pl.DataFrame({"word": ["a", "b", "c"], "colour": ["x", "y", "z"], "n": [1, 2, 3]})
    (frame.write_csv if suffix == ".csv" else frame.write_ndjson)(f"w{suffix}")
    done = run("--input", f"words=w{suffix}")
    assert done.exit_code == 1
    assert "colour" in done.output
    done = run("--input", f"words=w{suffix}", "--ignore-extra", "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


BAD = {
    ".csv": 'word,n\na,1\nx,"not\na number"\nb,2\ny\n,7\nc,3\n',
    ".jsonl": '{"word": "a", "n": 1}\n{"word": "x", "n": "?"}\n\nno json\n{"word": "b", "n": 2}\n'
    '{"word": null, "n": 7}\n{"word": "c", "n": 3}\n',
}


@pytest.mark.parametrize("suffix", BAD)
def test_bad_rows_are_left_out_and_listed(suffix: str) -> None:
    Path(f"w{suffix}").write_text(BAD[suffix])
    assert run("--input", f"words=w{suffix}").exit_code == 1
    done = run(
        "--input", f"words=w{suffix}", "--on-error", "ledger", "--output", "out", "--deltas", "counts=d.jsonl"
    )
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS
    assert sorted(pl.read_ndjson("d.jsonl")["word"]) == ["a", "b", "c"]
    assert "2 of the lines of w" in done.output
    assert "primary key 'word' is null" in done.output


def test_a_checkpoint_goes_on_after_bad_rows() -> None:
    Path("w.csv").write_text(BAD[".csv"])
    options = ["--input", "words=w.csv", "--on-error", "ledger", "--checkpoint", "c", "--output", "out"]
    assert run(*options).exit_code == 0
    with Path("w.csv").open("a") as file:
        file.write("d,4\n")
    done = run(*options)
    assert done.exit_code == 0, done.output
    assert contents() == [*CONTENTS, ("d", 4)]


# Files that are replaced


def test_a_replaced_file_is_followed() -> None:
    path = Path("w.csv")
    path.write_text("word,n\na,1\n")
    process = command("--input", "words=w.csv", "--follow", "--deltas", "counts=d.jsonl")
    try:
        wait_for(1)
        with path.open("a") as file:
            file.write("b,2\n")
            file.flush()
            path.rename("w.csv.1")
        path.write_text("word,n\nc,3\n\n\n")
        wait_for(3)
        path.write_text("n,word\n4,d\n")  # Cut, and written again.
        wait_for(4)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def wait_for(rows: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if Path("d.jsonl").exists() and Path("d.jsonl").read_bytes().count(b"\n") == rows:
            return
        time.sleep(0.05)
    pytest.fail(f"{Path('d.jsonl').read_text()} and no {rows} rows")


# Screens


def test_a_quiet_run_prints_nothing_but_errors() -> None:
    Path("w.csv").write_text(ROWS)
    done = run("--input", "words=w.csv", "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    done = run("--input", "words=none.csv", "--quiet")
    assert done.exit_code == 1
    assert "no such file" in done.output


def test_a_narrow_terminal_shows_epoch_and_diff_of_changes_whole() -> None:
    rows = {
        "country": ["United Kingdom"] * 2,
        "tier": ["silver"] * 2,
        "customers": [291, 288],
        "revenue": [545_895.5, 1.0],
    }
    deltas = pl.DataFrame({**rows, "_epoch": [1043, 1043], "_diff": [1, -1]})
    for width, columns in {36: ["country", "tier"], 60: ["country", "tier", "customers", "revenue"]}.items():
        console = Console(width=width, file=(out := StringIO()))
        console.print(FittingChanges(deltas, 10))
        lines = out.getvalue().splitlines()
        assert lines[0].split() == ["epoch", *columns]
        assert [line.split()[:2] for line in lines[1:]] == [["1043", "+1"], ["1043", "-1"]]
        assert max(map(len, lines)) <= width


def test_a_narrow_terminal_shows_fewer_columns() -> None:
    frame = pl.DataFrame({"word": ["a" * 30], "number": [1234567], "other": ["b"], "last": [7]})
    for width, columns in ((120, 4), (26, 3), (18, 2), (5, 1)):
        console = Console(width=width, file=(out := StringIO()))
        console.print(FittingTable(frame, 10, "table"))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        left_out = 4 - columns
        assert ("more" in out.getvalue()) == bool(left_out) or width < 10


def test_shells_get_completions() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evercurrent", "--show-completion", "bash"],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "_EVERCURRENT_COMPLETE" in done.stdout


# Paths and options that do not go together


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--deltas", "counts=./w.csv"], "w.csv is an input too"),
        (["--deltas", "counts=in/d.jsonl", "--input", "words=in"], "is in a folder that is read"),
        (["--output", ".", "--output-format", "csv", "--input", "words=counts.csv"], "is an input too"),
        (
            ["--output", ".", "--output-format", "jsonl", "--deltas", "counts=counts.jsonl"],
            "is written twice",
        ),
        (["--input", "words=-", "--input", "words=/dev/stdin"], "standard input is given twice"),
    ],
)
def test_nothing_is_written_over_an_input(options: list[str], message: str) -> None:
    Path("in").mkdir()
    for path in ("w.csv", "counts.csv", "in/1.csv"):
        Path(path).write_text(ROWS)
    done = run("--input", "words=w.csv", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
    assert [Path(path).read_text() for path in ("w.csv", "counts.csv", "in/1.csv")] == [ROWS] * 3
    assert not Path("in/d.jsonl").exists()


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["w.csv", "w.csv"], "source 'words': w.csv is given twice"),
        (["w.csv", "./in/../w.csv"], "./in/../w.csv is given twice, as w.csv too"),
        (["link.csv", "w.csv"], "w.csv is given twice, as link.csv too"),
        (["file://{here}/w.csv", "w.csv"], "w.csv is given twice, as file://"),
        (["in", "w.csv", "in/"], "in/ is given twice, as in too"),
        (["in", "in/1.csv"], "in/1.csv is given twice, as in is its folder, of which all files are read"),
        (["in/link.csv", "in"], "in/link.csv is given twice, as in is its folder"),
        (["s3://b/x.csv", "s3://b/x.csv"], "s3://b/x.csv is given twice"),
        (["s3://b/2026/", "s3://b/2026/x.csv"], "as s3://b/2026/ is its folder"),
    ],
)
def test_an_input_that_a_source_has_twice_is_refused_by_name(paths: list[str], message: str) -> None:
    Path("in").mkdir()
    for path in ("w.csv", "in/1.csv", "other.csv"):
        Path(path).write_text(ROWS)
    Path("link.csv").symlink_to("w.csv")
    Path("in/link.csv").symlink_to("../other.csv")
    done = run(*(word for path in paths for word in ("--input", f"words={path.format(here=Path.cwd())}")))
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split()).replace("- ", "-")


def test_a_file_that_a_folder_does_not_have_read_may_be_given_beside_it() -> None:
    Path("in").mkdir()
    Path("in/_a.csv").write_text("word,n\na,1\n")
    Path("in/b.csv").write_text("word,n\nb,2\n")
    Path("c.csv").write_text("word,n\nc,3\n")
    done = run(
        *(word for path in ("in", "in/_a.csv", "c.csv") for word in ("--input", f"words={path}")),
        "--output",
        "out",
    )
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


def test_a_closed_standard_input_is_named() -> None:
    process = command("--input", "words=-", preexec_fn=lambda: os.close(0))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"the standard input is closed" in err


@pytest.mark.parametrize("separator", [";", "tab", "|"])
def test_another_separator_is_suggested(separator: str) -> None:
    Path("w.csv").write_text(ROWS.replace(",", "\t" if separator == "tab" else separator))
    done = run("--input", "words=w.csv")
    assert f"--separator '{separator}'" in done.output
    assert run("--input", "words=w.csv", "--separator", separator).exit_code == 0


def test_compressed_standard_input_and_other_ends_of_lines_are_named() -> None:
    done = CliRunner().invoke(
        app, ["run", "words.py", "--input", "words=-"], input=gzip.compress(ROWS.encode())
    )
    assert "the data is compressed by gzip" in done.output
    Path("w.csv").write_bytes(ROWS.replace("\n", "\r").encode())
    assert "carriage return alone" in run("--input", "words=w.csv").output


def test_a_quiet_run_names_the_rows_that_it_leaves_out() -> None:
    Path("w.csv").write_text(BAD[".csv"])
    done = run("--input", "words=w.csv", "--on-error", "ledger", "--quiet")
    assert done.exit_code == 0, done.output
    assert "refused: 2 of the lines of w.csv" in done.stderr
    assert "primary key 'word' is null" in done.stderr
    assert not done.stdout


def test_refused_rows_have_the_number_that_the_error_would_have() -> None:
    for first, bad in (("", 'b,?\nc,?\nd,4\n"e,5\n'), ("d,4\nc,3\nb,2\n", '"e,5\n')):
        Path("w.csv").write_text(f"word,n\na,1\n{first}{bad}")
        failed = run("--input", "words=w.csv").output
        done = run("--input", "words=w.csv", "--on-error", "ledger")
        assert done.exit_code == 0
        row = 5 if first else 2
        assert f"the first is row {row}" in done.output
        assert f"row {row}: " in failed


def test_a_stray_quote_costs_its_line_alone() -> None:
    """From a file, from the standard input, and in a file that is followed; the rows after it are read."""
    lines = 'word,n\na,1\n"b,2\nc,3\nsix" d,4\n"e ""f""",5\n"g\nh",6\n"i"j,7\n"k,8\n'
    Path("w.csv").write_text(lines)
    expected = {"a": 1, "c": 3, 'six" d': 4, 'e "f"': 5, "g\nh": 6, "ij": 7}
    options = ("--on-error", "ledger", "--output", "out")
    done = run("--input", "words=w.csv", *options)
    assert done.exit_code == 0, done.output
    assert dict(pl.read_parquet("out/counts.parquet").rows()) == expected
    assert "refused    2 of the lines" in done.output
    done = CliRunner().invoke(app, ["run", "words.py", "--input", "words=-", *options], input=lines)
    assert done.exit_code == 0, done.output
    assert dict(pl.read_parquet("out/counts.parquet").rows()) == expected


def test_a_row_with_an_empty_diff_does_not_end_a_run_that_leaves_out_bad_rows() -> None:
    Path("w.csv").write_text("word,n,_diff\na,1,1\nx,9,\nb,2,1\nc,3,1\n")
    assert "row 2: column '_diff' is empty" in run("--input", "words=w.csv").output
    done = run("--input", "words=w.csv", "--on-error", "ledger", "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


def test_a_followed_file_may_be_away_for_a_while() -> None:
    path = Path("w.csv")
    path.write_text("word,n\na,1\n")
    process = command("--input", "words=w.csv", "--follow", "--deltas", "counts=d.jsonl")
    try:
        wait_for(1)
        path.rename("w.csv.1")
        time.sleep(1)
        with Path("w.csv.1").open("a") as file:
            file.write("b,2\n")
        time.sleep(1)
        assert process.poll() is None, process.communicate()
        path.write_text("")  # It is there, and has no header yet.
        time.sleep(0.5)
        path.unlink()
        time.sleep(0.5)
        path.write_text("word,n\nc,3\n")
        wait_for(3)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_a_locale_without_the_characters_of_the_data_does_not_end_a_run() -> None:
    Path("w.csv").write_text("word,n\nsør,1\n", encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = command("--input", "words=w.csv", "--deltas", "counts=d.jsonl", env={**os.environ, **plain})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert rb"s\xf8r" in out
    assert pl.read_ndjson("d.jsonl")["word"].to_list() == ["sør"]


def test_the_format_of_no_output_is_refused() -> None:
    Path("w.csv").write_text(ROWS)
    done = run("--input", "words=w.csv", "--output-format", "csv")
    assert done.exit_code == 2
    assert "goes with --output" in done.output


def test_an_empty_view_is_one_line_and_no_panel() -> None:
    Path("w.csv").write_text("word,n\n")
    done = run("--input", "words=w.csv")
    assert done.exit_code == 0
    assert "\ncounts: empty\n" in done.output
    frame = pl.DataFrame(schema={"word": pl.String})
    console = Console(width=100, height=30, file=(out := StringIO()), force_terminal=True)
    shown = Shown("counts", lambda: frame, ())
    console.print(LiveScreen(console, shown)._picture(Tally()))
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "counts: empty so far" in text
    assert "last changes of counts: none yet" in text
    assert "─" not in text
    assert "│" not in text
    assert text.count("\n") <= 6


@pytest.mark.parametrize("suffix", [".tsv", ".tab", ".txt", ".json", ".csv.xz", ".tsv.xz", ".json.gz"])
def test_further_suffixes(suffix: str) -> None:
    text = JSON if ".json" in suffix else ROWS
    if suffix.startswith((".tsv", ".tab")):
        text = text.replace(",", "\t")
    packed = {".xz": lzma.compress, ".gz": gzip.compress}.get(Path(suffix).suffix, bytes)
    Path(f"w{suffix}").write_bytes(packed(text.encode()))
    done = run("--input", f"words=w{suffix}", "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == CONTENTS


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("w.zip", "unpack it"),
        ("w.xlsx", "save it as CSV"),
        ("w.db", "export a table"),
        ("w.avro", "convert it to Parquet"),
        ("w", "--input SOURCE=- < w"),
    ],
)
def test_files_that_are_not_read_are_answered_with_a_way(name: str, remedy: str) -> None:
    Path(name).write_text(ROWS)
    done = run("--input", f"words={name}")
    assert done.exit_code == 1
    assert remedy in done.output


def test_a_named_pipe_is_answered_with_a_way() -> None:
    os.mkfifo("w.pipe")
    assert "COMMAND | evercurrent run APP --input SOURCE=-" in " ".join(
        run("--input", "words=w.pipe").output.split()
    )


def test_an_array_of_json_is_answered_with_a_way() -> None:
    Path("w.json").write_text('[{"word": "a", "n": 1}]')
    assert "jq -c '.[]'" in run("--input", "words=w.json").output


def test_a_damaged_xz_file_is_named() -> None:
    Path("w.csv.xz").write_bytes(lzma.compress(ROWS.encode() * 1000)[:-40])
    assert "the file is incomplete or damaged" in run("--input", "words=w.csv.xz").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("apps",),
        ("run", "--help"),
        ("explain", "words.py"),
        ("run", "words.py", "--input", "words=rows.csv"),
        ("run", "words.py", "--input", "words=rows.csv", "--deltas", "counts=-"),
    ],
)
def test_each_command_ends_alike_where_its_reader_has_ended(arguments: tuple[str, ...]) -> None:
    Path("rows.csv").write_text(ROWS)
    reader, writer = os.pipe()
    os.close(reader)
    whole = [sys.executable, "-m", "evercurrent", *arguments]
    ended = subprocess.run(whole, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert ended.returncode == 141
    assert b"rror" not in ended.stderr, ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_ends_within_a_delta_has_not_got_all_of_it(unbuffered: str) -> None:
    """A pipe holds a part of the delta when its reader ends. Python hands on what it does not buffer as often as it is called: once."""
    Path("rows.csv").write_text("word,n\n" + "".join(f"word{number},1\n" for number in range(10_000)))
    whole = [sys.executable, "-m", "evercurrent", "run", "words.py", "--input", "words=rows.csv"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [*whole, "--deltas", "counts=-", "--quiet"], stdout=subprocess.PIPE, bufsize=0, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        time.sleep(0.2)  # The pipe is filled meanwhile, and the process waits for its reader.
        process.stdout.close()
        assert process.wait(60) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments", [("--help",), ("apps",), ("run", "words.py", "--input", "words=rows.csv")]
)
def test_a_full_disk_is_a_sentence(arguments: tuple[str, ...]) -> None:
    Path("rows.csv").write_text(ROWS)
    with Path("/dev/full").open("wb") as full:
        whole = [sys.executable, "-m", "evercurrent", *arguments]
        ended = subprocess.run(whole, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 1
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("error: the output"), line
    assert "No space left on device" in line


def test_a_closed_standard_output_is_named() -> None:
    Path("rows.csv").write_text(ROWS)
    whole = [sys.executable, "-m", "evercurrent", "run", "words.py", "--input", "words=rows.csv"]
    line = f"exec {shlex.join(whole)} --deltas counts=- >&-"
    ended = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == 1
    assert b"error: the standard output is closed" in ended.stderr


@pytest.mark.parametrize("arguments", [(), ("run",), ("explain",), ("checkpoint", "ls"), ("timeline",)])
def test_help_shows_no_value_for_an_option_without_one(arguments: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"}).output
    of_ours = [line for line in shown.splitlines() if " --help " not in line and "-completion" not in line]
    assert not [line for line in of_ours if "<bool>" in line or "BOOLEAN" in line]
