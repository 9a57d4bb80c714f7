"""The command: what it runs, reads, writes and shows; what its errors name; how it ends."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console
from typer.testing import CliRunner, Result

from evercurrent.views.apps import retail, retail_orders
from evercurrent.views.cli import app
from evercurrent.views.cli.screens import LiveScreen, PlainScreen, Shown, Tally
from evercurrent.views.cli.tables import ordered, table_of

WORDS = '''"""Counts words.

More about it.
"""

import polars as pl

import evercurrent as ec

engine = ec.Engine()
words = engine.source("words", {"word": pl.String, "at": pl.Datetime("us")}, kind="diffs", event_time="at")
counts = engine.view("counts", words.group_by("word").agg(n=pl.len()))
engine.view("totals", counts.group_by("n").agg(words=pl.len()))
order = {"counts": ["-n", "word"]}
'''

ARRIVALS = '''
from datetime import UTC, datetime

pushed = []
push = engine.push
engine.push = lambda *rows, at: (pushed.append(at), push(*rows, at=at))


def arrivals(batches, batch_rows):
    """The rows from the last one, in twos, at seconds of a day."""
    (pair,) = batches
    assert batch_rows == 10_000
    for number, frame in enumerate(pair[1].reverse().iter_slices(2)):
        yield pair[0], frame, datetime(2020, 1, 1, second=number, tzinfo=UTC)
    assert [at.second for at in pushed] == [0, 1, 2]
'''

DAYS = """
days = words.window(ec.fixed("1d")).trigger(ec.after_watermark(late=ec.each_row())).accumulate("retracting")
engine.view("days", days.group_by("word").agg(n=pl.len()))
"""

SECONDS = """
days = words.window(ec.fixed("1d")).trigger(ec.every("1s")).accumulate("retracting")
engine.view("days", days.group_by("word").agg(n=pl.len()))
"""

TWO = """
import polars as pl

import evercurrent as ec


def engine():
    made = ec.Engine()
    for name in ("left", "right"):
        rows = made.source(name, {"k": pl.Int64})
        made.view(f"{name}s", rows.group_by("k").agg(n=pl.len()))
    return made
"""


@pytest.fixture
def words(tmp_path) -> Path:
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return path


@pytest.fixture(autouse=True)
def no_width_given(monkeypatch) -> None:
    """A test runner may set how wide its own terminal is."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def rows(tmp_path) -> Path:
    """Five rows of words, a third "b" among them taken back."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "word,at,_diff\na,2020-01-01 10:00:00,1\nb,2020-01-01 11:00:00,1\nb,2020-01-02 00:00:00,1\n"
        "b,2020-01-03 00:00:00,1\nb,2020-01-03 00:00:00,-1\n"
    )
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: str | Path) -> str:
    """What a run prints that ends well, with single spaces."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return re.sub(" +", " ", result.stdout)


def refused(*arguments: str | Path) -> str:
    """The one sentence on standard error of a run that fails."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


class TestRun:
    def test_shows_what_was_done(self, words, rows):
        printed = done("run", words, "--input", f"words={rows}", "--show", "counts")
        assert "counts\nword n\nb 2\na 1" in printed
        assert "rows read 5" in printed
        assert "epochs 1" in printed
        assert "event time 2020-01-01 10:00:00 to 2020-01-03 00:00:00" in printed
        assert "refused no row" in printed
        assert "views counts: 2 rows\n totals: 2 rows" in printed

    def test_names_used_for_something_else_are_left_alone(self, words, rows):
        words.write_text(WORDS + "order = show = inputs = remarks = input_rows = words\n")
        assert "rows read 5" in done("run", words, "--input", f"words={rows}")

    def test_several_views_with_bars(self, words, rows):
        words.write_text(WORDS + "show = ['counts', 'totals']\nbars = {'counts': 'n', 'totals': 'words'}\n")
        printed = done("run", words, "--input", f"words={rows}")
        assert (
            f"counts\nword n\nb 2 {'█' * 20}\na 1 {'█' * 10}\n\ntotals\nn words\n1 1 {'█' * 20}\n" in printed
        )
        printed = done("run", words, "--input", f"words={rows}", "--show", "totals")
        assert "counts\nword" not in printed

    def test_an_application_may_let_rows_arrive_in_its_own_way(self, words, rows, tmp_path):
        words.write_text(WORDS + ARRIVALS)
        printed = done("run", words, "--input", f"words={rows}", "--deltas", f"counts={tmp_path / 'd.jsonl'}")
        assert "rows read 5" in printed
        assert "epochs 3" in printed
        deltas = pl.read_ndjson(tmp_path / "d.jsonl")
        assert deltas.select("word", "n", "_epoch").rows() == [("b", 2, 2), ("a", 1, 3)]

    def test_windows_fire_when_the_input_has_ended(self, words, rows):
        words.write_text(WORDS + DAYS)
        printed = done("run", words, "--input", f"words={rows}", "--show", "days", "--batch-rows", "1")
        assert "3 rows" in printed

    def test_shows_the_last_declared_view_by_default(self, words, rows):
        assert "totals\nn words" in done("run", words, "--input", f"words={rows}")

    def test_refused_rows_are_counted_by_reason(self, words, tmp_path):
        path = tmp_path / "rows.jsonl"
        path.write_text('{"word": "a"}\n{"word": "gone", "_diff": -1}\n{"word": "never", "_diff": -2}\n')
        printed = done("run", words, "--input", f"words={path}")
        assert re.search(r"refused 3 of words: \w+", printed)

    def test_a_module_a_function_and_the_working_folder(self, tmp_path, monkeypatch):
        (tmp_path / "two_sources_app.py").write_text(TWO)
        (tmp_path / "k.csv").write_text("k\n1\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert "rows read 1" in done("run", "two_sources_app", "--input", "left=k.csv")

    def test_a_file_may_import_its_neighbours(self, words, rows, monkeypatch):
        monkeypatch.setattr(sys, "path", list(sys.path))
        words.with_name("neighbour_of_words.py").write_text("VIEW = 'counts'\n")
        words.write_text(WORDS + "import neighbour_of_words\nshow = neighbour_of_words.VIEW\n")
        assert "counts\nword n" in done("run", words, "--input", f"words={rows}")

    def test_batches_of_several_sources_take_turns(self, tmp_path):
        (tmp_path / "two.py").write_text(TWO)
        (tmp_path / "left.csv").write_text("k\n1\n2\n3\n4\n5\n")
        (tmp_path / "right.csv").write_text("k\n6\n7\n")
        epochs = {}
        printed = done(
            "run",
            tmp_path / "two.py",
            *("--input", f"left={tmp_path / 'left.csv'}", "--input", f"right={tmp_path / 'right.csv'}"),
            *("--deltas", f"lefts={tmp_path / 'l.parquet'}", "--deltas", f"rights={tmp_path / 'r.parquet'}"),
            *("--batch-rows", "2"),
        )
        epochs = {name: pl.read_parquet(tmp_path / f"{name}.parquet") for name in "lr"}
        assert epochs["l"].select("k", "_epoch").sort("k").rows() == [(1, 1), (2, 1), (3, 3), (4, 3), (5, 4)]
        assert epochs["r"].select("k", "_epoch").sort("k").rows() == [(6, 2), (7, 2)]
        assert "rows read 7 (left 5, right 2)" in printed

    def test_an_input_can_be_given_twice_and_be_a_folder(self, tmp_path, words, rows):
        (tmp_path / "more").mkdir()
        pl.read_csv(rows, try_parse_dates=True).write_parquet(tmp_path / "more" / "a.parquet")
        printed = done("run", words, "--input", f"words={rows}", "--input", f"words={tmp_path / 'more'}")
        assert "rows read 10" in printed
        assert "epochs 2" in printed

    @pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
    def test_deltas_add_up_to_the_output(self, tmp_path, words, rows, suffix):
        path = tmp_path / f"deltas{suffix}"
        printed = done(
            *("run", words, "--input", f"words={rows}", "--batch-rows", "1"),
            *("--deltas", f"counts={path}", "--output", tmp_path / "out"),
        )
        deltas = pl.read_parquet(path) if suffix == ".parquet" else pl.read_ndjson(path)
        assert deltas.columns == ["word", "n", "_epoch", "_diff"]
        assert deltas["_epoch"].is_sorted()
        summed = deltas.group_by("word", "n").agg(pl.col("_diff").sum()).filter(pl.col("_diff") != 0)
        out = pl.read_parquet(tmp_path / "out" / "counts.parquet")
        assert sorted(summed.select("word", "n").rows()) == sorted(out.rows()) == [("a", 1), ("b", 2)]
        assert pl.read_parquet(tmp_path / "out" / "totals.parquet").height == 2
        assert str(path) in printed
        assert "totals.parquet" in printed

    def test_the_bundled_shop(self):
        printed = done("run", "retail", "--batch-rows", "20000")
        assert "rows read 200,000" in printed
        assert "epochs 10" in printed
        assert re.search(r"customer \d+ \(.*\) falls to \w+: [-\d.]+ -> [-\d.]+", printed)
        assert "tiers, the first 10 of" in printed
        assert len(re.findall("^epoch ", printed, re.MULTILINE)) == 10


class TestOtherCommands:
    def test_apps(self):
        assert re.search(r"^retail Orders of a shop", done("apps"))

    @pytest.mark.parametrize("arguments", [[], ["--format", "text"], ["--format", "mermaid"]])
    def test_explain_names_sources_and_views(self, words, arguments):
        printed = done("explain", words, *arguments)
        assert "words" in printed
        assert "counts" in printed

    def test_version(self):
        assert re.match(r"evercurrent \d", done("--version"))

    def test_help_explains_that_batches_take_turns(self):
        assert "interleaved" in run("run", "--help").stdout


NUMBERS = """import polars as pl

import evercurrent as ec

engine = ec.Engine()
numbers = engine.source("numbers", {"t": pl.String, "x": pl.Float64, "l": pl.List(pl.Float64)}, kind="diffs")
engine.view("all", numbers)
"""

LINES = """{"t":"NaN","x":"NaN","l":["Infinity",null,1.5]}
{"t":null,"x":null,"l":null}
{"t":"a","x":1.5,"l":[]}
{"t":"a","x":"-Infinity","l":[]}
{"t":"a","x":1.5,"l":[],"_diff":-1}
"""


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_deltas_of_a_run_are_an_input_of_the_next(tmp_path, suffix):
    """A run over the deltas that another run has written holds the same rows; NaN and infinity stay what they are in JSON too."""
    (tmp_path / "app.py").write_text(NUMBERS)
    (tmp_path / "in.jsonl").write_text(LINES)
    given, outputs = tmp_path / "in.jsonl", []
    for number in (1, 2):
        deltas, output = tmp_path / f"deltas-{number}{suffix}", tmp_path / f"output-{number}"
        options = ("--deltas", f"all={deltas}", "--output", output)
        done("run", tmp_path / "app.py", "--input", f"numbers={given}", *options)
        outputs.append(pl.read_parquet(output / "all.parquet").sort("t", "x"))
        given = deltas
    assert_frame_equal(*outputs)
    infinity, nan = float("inf"), float("nan")
    columns = {"t": [None, "NaN", "a"], "x": [None, nan, -infinity], "l": [None, [infinity, None, 1.5], []]}
    assert_frame_equal(outputs[0], pl.DataFrame(columns, schema=outputs[0].schema))


class TestErrors:
    def of_app(self, tmp_path: Path, source: str, *more: str) -> str:
        path = tmp_path / "broken.py"
        path.write_text(source)
        return refused("run", path, *more)

    def test_no_engine(self, tmp_path):
        assert "the application has no engine" in self.of_app(tmp_path, "x = 1\n")

    def test_an_engine_of_another_name(self, tmp_path):
        assert "'shop'" in self.of_app(tmp_path, "import evercurrent as ec\nshop = ec.Engine()\n")

    def test_an_engine_that_is_none(self, tmp_path):
        assert "'engine' is int" in self.of_app(tmp_path, "engine = 3\n")
        assert "'engine' is str" in self.of_app(tmp_path, "def engine(): return 'x'\n")

    def test_an_engine_without_views(self, tmp_path):
        assert "no view" in self.of_app(tmp_path, "import evercurrent as ec\nengine = ec.Engine()\n")

    def test_code_that_fails(self, tmp_path):
        error = self.of_app(tmp_path, "x = 1\ny = x / 0\n")
        assert "ZeroDivisionError: division by zero (broken.py, line 2)" in error
        assert "line 2" in self.of_app(tmp_path, "def engine():\n    return nothing\n")
        assert "SyntaxError" in self.of_app(tmp_path, "def engine(:\n")

    def test_a_bundled_one_that_fails(self, monkeypatch):
        monkeypatch.delitem(sys.modules, retail.__name__)
        monkeypatch.delattr(retail_orders, "ORDERS")
        error = refused("run", "retail")
        assert re.search(
            r"retail: cannot be loaded: ImportError: .*ORDERS.* \(retail\.py, line \d+\)", error
        ), error

    def test_an_order_by_what_is_not_there(self, words, rows):
        words.write_text(WORDS + "order = {'counts': ['-size']}\n")
        assert "by '-size'; it has 'word', 'n'" in refused("run", words, "--input", f"words={rows}")
        for line in ("order = {'sizes': ['n']}", "show = ['counts', 'sizes']", "bars = {'sizes': 'n'}"):
            words.write_text(WORDS + line + "\n")
            assert "no view 'sizes'" in refused("run", words, "--input", f"words={rows}")
        words.write_text(WORDS + "bars = {'counts': 'word'}\n")
        assert "'bars' draws 'word' of view 'counts'; its columns of numbers are 'n'" in refused(
            "run", words, "--input", f"words={rows}"
        )

    def test_nothing_of_that_name(self):
        assert "'retail'" in refused("run", "no_such_app")
        assert "no such file" in refused("run", "no/such.py")

    def test_nothing_to_read(self, words):
        assert "--input words=PATH" in refused("run", words)

    def test_an_empty_folder(self, words, rows, tmp_path):
        (folder := tmp_path / "new").mkdir()
        (folder / "_SUCCESS").touch()
        error = refused("run", words, "--input", f"words={rows}", "--input", f"words={folder}")
        assert "new: there is nothing to read for source 'words'" in error
        assert "--follow" in error

    def test_files_without_rows(self, words, tmp_path):
        """Files that have a header or nothing are accepted, and the run reports that no row was read; a CSV file without a header is refused."""
        (tmp_path / "a.csv").write_text("word,at\n")
        (tmp_path / "b.jsonl").touch()
        for file in ("a.csv", "b.jsonl"):
            assert "no row of source 'words' was read" in done(
                "run", words, "--input", f"words={tmp_path / file}"
            )
        (tmp_path / "c.csv").touch()
        assert "the file is empty" in refused("run", words, "--input", f"words={tmp_path / 'c.csv'}")

    def test_unknown_names(self, words, rows):
        given = ("--input", f"words={rows}")
        assert "no source 'orders'; there are 'words'" in refused("run", words, "--input", f"orders={rows}")
        assert "no view 'sums'; there are 'counts', 'totals'" in refused(
            "run", words, *given, "--show", "sums"
        )
        assert "no view 'sums'" in refused("run", words, *given, "--deltas", "sums=x.jsonl")

    def test_a_file_that_is_not_there(self, words):
        assert "gone.csv: there is no such file" in refused("run", words, "--input", "words=gone.csv")

    def test_a_torn_file_keeps_what_was_pushed(self, words, rows, tmp_path):
        rows.write_text(rows.read_text() + "c")
        result = run(
            "run", words, "--input", f"words={rows}", "--batch-rows", "2", "--output", tmp_path / "out"
        )
        assert result.exit_code == 1
        assert f"{rows}: row 6: 1 of 3 fields" in result.stderr
        assert re.search(r"rows read +5\n", re.sub(" +\n", "\n", result.stdout))
        assert not (tmp_path / "out").exists()

    def test_a_column_that_is_wrong(self, words, tmp_path):
        (tmp_path / "a.csv").write_text("word,when\na,2020-01-01\n")
        error = refused("run", words, "--input", f"words={tmp_path / 'a.csv'}")
        assert "a.csv: there is no column 'at'" in error

    def test_a_batch_that_the_engine_refuses_names_the_rows(self, tmp_path):
        (tmp_path / "app.py").write_text(
            "import polars as pl\nimport evercurrent as ec\nengine = ec.Engine()\n"
            "rows = engine.source('rows', {'k': pl.Int64}, kind='diffs', strict=True)\nengine.view('all', rows)\n"
        )
        (tmp_path / "a.csv").write_text("k,_diff\n1,1\n2,1\n3,-1\n")
        error = refused(
            "run", tmp_path / "app.py", "--input", f"rows={tmp_path / 'a.csv'}", "--batch-rows", "2"
        )
        assert "a.csv: rows 3 to 3:" in error

    def test_debug_shows_where(self, tmp_path):
        (tmp_path / "broken.py").write_text("1 / 0\n")
        result = run("run", tmp_path / "broken.py", "--debug")
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("error: ")

    @pytest.mark.parametrize(
        "arguments",
        [
            ["run"],
            ["run", "retail", "--input", "orders"],
            ["run", "retail", "--input", "=x.csv"],
            ["run", "retail", "--batch-rows", "0"],
            ["run", "retail", "--follow"],
            ["run", "retail", "--deltas", "tiers=x.txt"],
            ["run", "retail", "--deltas", "tiers=x.jsonl", "--deltas", "tiers=y.jsonl"],
            ["run", "retail", "--no-such-option"],
            ["explain", "retail", "--format", "svg"],
            ["no-such-command"],
        ],
    )
    def test_wrong_usage(self, arguments):
        assert run(*arguments).exit_code == 2


ENTRY = "from evercurrent.views.cli import app; app(prog_name='evercurrent')"

SLOW = (
    WORDS
    + '''
import time

def inputs(batch_rows):
    """Forever."""
    while True:
        time.sleep(0.05)
        yield "words", pl.DataFrame({"word": ["a"], "at": [None]}, schema={"word": pl.String, "at": pl.Datetime("us")})
'''
)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str | Path, **options) -> subprocess.Popen[str]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        paths = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": paths, "TERM": "xterm-256color"},
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 900
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not happen within a quarter of an hour"
        time.sleep(0.05)


class TestProcess:
    def test_ends_with_a_summary(self, start, words, rows):
        out, err = start("run", words, "--input", f"words={rows}").communicate(timeout=900)
        assert "rows read" in out
        assert err == ""

    def test_an_error_is_an_exit_code(self, start, tmp_path):
        process = start("run", tmp_path / "none.py")
        out, err = process.communicate(timeout=900)
        assert (process.returncode, out) == (1, "")
        assert err.startswith("error: ")

    def test_follow_until_interrupted(self, start, words, tmp_path):
        folder, deltas = tmp_path / "in", tmp_path / "deltas.jsonl"
        folder.mkdir()
        first = folder / "a.csv"
        first.write_text("word,at\nfirst,2020-01-01\nhal")
        process = start(
            "run", words, "--input", f"words={folder}", "--follow", "--deltas", f"counts={deltas}",
            "--output", tmp_path / "out",
        )  # fmt: skip

        def has(word: str) -> Callable[[], bool]:
            return lambda: deltas.exists() and f'"{word}"' in deltas.read_text()

        wait_for(has("first"), process)
        with first.open("a") as file:
            file.write("f,2020-01-02\n")
        wait_for(has("half"), process)
        (folder / "b.jsonl").write_text('{"word": "second", "at": "2020-01-03 00:00:00"}\n{"word": "unfini')
        wait_for(has("second"), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
        assert (process.returncode, err) == (0, "")
        assert out.count("waiting for new rows") >= 1
        assert re.search(r"rows read +3", out)
        assert "b.jsonl: not read to its end" in out
        assert pl.read_parquet(tmp_path / "out" / "counts.parquet")["word"].sort().to_list() == [
            "first",
            "half",
            "second",
        ]

    def test_time_goes_on_while_nothing_comes(self, start, words, rows, tmp_path):
        words.write_text(WORDS + SECONDS)
        deltas = tmp_path / "deltas.jsonl"
        process = start("run", words, "--input", f"words={rows}", "--follow", "--deltas", f"days={deltas}")
        wait_for(lambda: deltas.exists() and deltas.read_text().count("\n") == 3, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
        assert (process.returncode, err) == (0, "")
        assert re.search(r"epochs +1\n", out)

    def test_stopping_before_the_end_is_reported(self, start, words):
        words.write_text(SLOW)
        process = start("run", words)
        assert process.stdout.readline().startswith("epoch 1 ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
        assert (process.returncode, err) == (130, "")
        assert "rows read" in out

    def test_on_a_terminal_the_screen_is_live(self, start, words):
        words.write_text(SLOW)
        ours, theirs = pty.openpty()
        process = start("run", words, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = b""
        while b"last changes of" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGTERM)
        while b"rows read" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)
        assert process.wait(timeout=900) in (130, -signal.SIGHUP)


class TestScreens:
    ROWS = pl.DataFrame({"word": ["a", "b"], "n": [1, 2], "x": [0.5, 1234.5]})
    DELTA = ROWS.with_columns(_epoch=pl.lit(3, pl.UInt64), _diff=pl.Series([-1, 1]))

    def console(self, width: int = 140, height: int = 40, *, terminal: bool = True) -> Console:
        return Console(
            file=io.StringIO(), width=width, height=height, force_terminal=terminal, color_system=None
        )

    def shown(self) -> Shown:
        return Shown("counts", lambda: self.ROWS, ["-n"])

    @pytest.mark.parametrize(("width", "height"), [(140, 40), (80, 24), (40, 10)])
    def test_live(self, width, height):
        console = self.console(width, height)
        screen = LiveScreen(console, self.shown())
        tally = Tally(rows=10, epochs=3, epoch=3, seconds=1.0, share=0.25)
        screen.epoch(tally, self.DELTA, lambda: ["b is new"] * 50)
        screen.close()
        printed = console.file.getvalue()
        for words in (
            "25%",
            "3.0 s left",
            "counts (2 rows)",
            "last changes of counts",
            "b is new",
            "1,234.50",
            "-1",
        ):
            assert words in printed or width < 80

    @pytest.mark.parametrize(
        ("width", "height", "seen"), [(140, 40, True), (80, 24, False), (140, 12, False)]
    )
    def test_live_shows_other_views_beside_where_there_is_room(self, width, height, seen):
        console = self.console(width, height)
        screen = LiveScreen(console, self.shown(), [Shown("others", lambda: self.ROWS, [], "x")])
        screen.epoch(Tally(), self.DELTA, list)
        screen.close()
        printed = console.file.getvalue()
        assert ("others (2 rows)" in printed) is seen
        assert ("█" * 20 in printed) is seen

    def test_live_shows_that_it_waits(self):
        console = self.console()
        screen = LiveScreen(console, self.shown())
        screen.idle(Tally())
        screen.close()
        assert "waiting for new rows" in console.file.getvalue()

    def test_plain_lines_at_the_first_epoch_at_tenths_and_at_the_end(self):
        console = self.console(terminal=False)
        screen = PlainScreen(console, self.shown())
        drawn = []
        for epoch in range(1, 96):
            tally = Tally(seconds=1.0, epochs=epoch, epoch=epoch, rows=epoch * 10, share=epoch / 100)
            screen.epoch(tally, None, lambda epoch=epoch: drawn.append(epoch) or [f"remark {epoch}"] * 5)
        screen.close()
        expected = [1, *range(10, 100, 10), 95]
        assert drawn == expected
        lines = console.file.getvalue().splitlines()
        assert [line.split("  ")[0] for line in lines if line.startswith("epoch")] == [
            f"epoch {n}" for n in expected
        ]
        assert lines[1:5] == ["    remark 1"] * 3 + ["    and 2 more"]

    def test_plain_lines_show_changes_where_nothing_is_remarked(self):
        console = self.console(terminal=False)
        screen = PlainScreen(console, self.shown())
        screen.epoch(Tally(epochs=1, rows=2, seconds=1.0), self.DELTA, list)
        assert console.file.getvalue().splitlines()[1:] == ["    +1  b  2  1,234.50", "    -1  a  1  0.50"]

    def test_plain_shows_once_that_it_waits(self):
        console = self.console(terminal=False)
        screen = PlainScreen(console, self.shown())
        for _ in range(3):
            screen.idle(Tally())
        assert console.file.getvalue().count("waiting") == 1

    def test_the_order_of_rows(self):
        rows = pl.DataFrame({"k": ["b", "a", None], "n": [1, 2, 3]})
        assert ordered(rows, [])["k"].to_list() == ["a", "b", None]
        assert ordered(rows, ["-n"])["n"].to_list() == [3, 2, 1]
        nested = pl.DataFrame({"v": [[2], [1]]})
        assert ordered(nested, []).equals(nested)

    def test_values_that_look_like_markup_stay_as_they_are(self):
        console = self.console()
        console.print(table_of(pl.DataFrame({"v": ["[red]x[/]"], "l": [[1, 2]], "z": [None]}), 5))
        assert "[red]x[/]" in console.file.getvalue()
