"""``evercurrent run APP --checkpoint DIR``: a run goes on where an earlier one ended."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from commit_cadence import each_epoch_committed
from evercurrent.views.cli import app

WORDS = '''"""Counts words, and those of each day once it is over."""

import polars as pl

import evercurrent as ec

engine = ec.Engine()
words = engine.source("words", {"word": pl.String, "at": pl.Datetime("us")}, event_time="at", watermark=ec.ascending())
counts = engine.view("counts", words.group_by("word").agg(n=pl.len()))
days = words.window(ec.fixed("1d")).trigger(ec.after_watermark(late=ec.each_row())).accumulate("retracting")
engine.view("days", days.group_by("word").agg(n=pl.len()))
show = "counts"
'''


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words.py").write_text(WORDS)
    rows = [f"{'abcd'[number % 4]},2024-01-0{1 + number // 20} 00:00:00" for number in range(100)]
    (tmp_path / "words.csv").write_text("\n".join(["word,at", *rows]) + "\n")
    return tmp_path


def run(folder: Path, *more: str) -> Result:
    words = ["run", str(folder / "words.py"), "--input", f"words={folder / 'words.csv'}", *more]
    return CliRunner().invoke(app, words)


def cut(folder: Path, rows: int) -> None:
    lines = (folder / "words.csv").read_text().splitlines()
    (folder / "words.csv").write_text("\n".join(lines[: rows + 1]) + "\n")


@each_epoch_committed()
def test_it_goes_on_and_writes_the_same(words: Path) -> None:
    kept = ["--batch-rows", "10", "--checkpoint", str(words / "kept")]
    written = ["--deltas", f"counts={words / 'counts.jsonl'}", "--output", str(words / "out")]
    assert run(words, "--batch-rows", "10", *written).exit_code == 0
    expected = (words / "counts.jsonl").read_text(), pl.read_parquet(words / "out" / "days.parquet").rows()
    whole = (words / "words.csv").read_text()
    cut(words, 30)
    first = run(words, *kept)
    assert first.exit_code == 0, first.output
    assert "resumed" not in first.output
    (words / "words.csv").write_text(whole)
    second = run(words, *kept, *written)
    assert second.exit_code == 0, second.output
    assert "resumed" in second.output
    assert "after epoch 4; 30 rows of the input were taken before" in second.output
    assert "rows read   70" in second.output
    assert "the end" in second.output, "the first one had read its input to the end"
    lines = (words / "counts.jsonl").read_text().splitlines()
    assert len(lines) == len(expected[0].splitlines())
    assert pl.read_parquet(words / "out" / "counts.parquet").sort("word").rows() == [
        (word, 25) for word in "abcd"
    ]
    third = run(words, *kept, *written)
    assert third.exit_code == 0, third.output
    assert "100 rows of the input were taken before" in third.output
    assert (words / "counts.jsonl").read_text().splitlines() == lines
    assert len(list((words / "kept" / "commits").iterdir())) == 1 + 3 + 1 + 7


def test_batches_may_be_of_another_size(words: Path) -> None:
    cut(words, 35)
    assert run(words, "--batch-rows", "7", "--checkpoint", str(words / "kept")).exit_code == 0
    cut(words, 35)
    result = run(
        words, "--batch-rows", "20", "--checkpoint", str(words / "kept"), "--output", str(words / "out")
    )
    assert result.exit_code == 0, result.output
    assert sum(pl.read_parquet(words / "out" / "counts.parquet")["n"]) == 35


def test_part_of_a_batch_may_be_known(words: Path) -> None:
    whole = (words / "words.csv").read_text()
    cut(words, 35)
    kept = ["--checkpoint", str(words / "kept"), "--output", str(words / "out")]
    assert run(words, *kept).exit_code == 0
    (words / "words.csv").write_text(whole)
    result = run(words, *kept)
    assert "rows read   65" in result.output
    assert sum(pl.read_parquet(words / "out" / "counts.parquet")["n"]) == 100


def test_a_checkpoint_that_cannot_be_kept_is_refused_in_a_sentence(words: Path) -> None:
    text = (words / "words.py").read_text()
    refused = run(words, "--checkpoint", str(words))
    assert refused.exit_code == 1
    assert "neither empty nor a checkpoint" in refused.output
    assert not (words / "writer.lock").exists()
    (words / "words.py").write_text(text + 'engine.push("words", [("a", None)])\n')
    refused = run(words, "--checkpoint", str(words / "kept"))
    assert refused.exit_code == 1
    assert "inputs(batch_rows)" in refused.output
    (words / "words.py").write_text(
        text.replace("ec.Engine()", f"ec.Engine(checkpoint={str(words / 'own')!r})")
    )
    refused = run(words, "--checkpoint", str(words / "kept"))
    assert "already" in refused.output
    assert run(words).exit_code == 0
    again = run(words)
    assert "100 rows of the input were taken before" in again.output


TALLY = '''"""Counts words of a folder."""

import polars as pl

import evercurrent as ec

engine = ec.Engine()
words = engine.source("words", {"word": pl.String})
counts = engine.view("counts", words.group_by("word").agg(n=pl.len()))
'''


IN_ORDER = """

def arrivals(batches, batch_rows):
    everything = pl.concat(frame for _, frame in batches).sort("word")
    return ((("words", frame)) for frame in everything.iter_slices(batch_rows))
"""


def put(path: Path, words: str) -> None:
    """Write a file of one-letter words; into those that are there, behind them."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text("word\n")
    with path.open("a") as file:
        file.writelines(f"{word}\n" for word in words)


def tally(
    folder: Path, *inputs: Path, text: str = TALLY, stdin: str | None = None
) -> tuple[Result, dict[str, int]]:
    """A run over inputs, and what the view holds after it."""
    (folder / "tally.py").write_text(text)
    given = [word for path in inputs for word in ("--input", f"words={path}")]
    kept = ["--checkpoint", str(folder / "kept"), "--output", str(folder / "out"), "--batch-rows", "2"]
    result = CliRunner().invoke(app, ["run", str(folder / "tally.py"), *given, *kept], input=stdin)
    return result, dict(pl.read_parquet(folder / "out" / "counts.parquet").rows())


def test_a_new_file_is_taken_wherever_its_name_stands(tmp_path: Path) -> None:
    put(tmp_path / "in" / "m.csv", "mmm")
    tally(tmp_path, tmp_path / "in")
    put(tmp_path / "in" / "a.csv", "aaaaa")
    put(tmp_path / "in" / "z.csv", "z")
    result, counts = tally(tmp_path, tmp_path / "in")
    assert result.exit_code == 0, result.output
    assert counts == {"m": 3, "a": 5, "z": 1}


@given(
    histories=st.lists(
        st.lists(st.tuples(st.sampled_from("bcda"), st.text("xyz", max_size=4)), max_size=3), max_size=5
    )
)
@settings(deadline=None, max_examples=15)
def test_every_row_of_a_folder_counts_once_however_its_files_grow(
    histories: list[list[tuple[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("growing")
    put(folder / "in" / "c.csv", "")
    expected: Counter[str] = Counter()
    for round_ in histories:
        for name, words in round_:
            put(folder / "in" / f"{name}.csv", words)
            expected.update(words)
        result, counts = tally(folder, folder / "in")
        assert result.exit_code == 0, result.output
        assert counts == dict(expected)


def test_a_file_whose_name_is_no_text_counts_once(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/\xff %.csv"))
    put(odd, "xx")
    put(tmp_path / "in" / "b.csv", "y")
    for _ in range(2):
        result, counts = tally(tmp_path, tmp_path / "in")
        assert result.exit_code == 0, result.output
        assert counts == {"x": 2, "y": 1}


def test_files_that_cannot_be_distinguished_are_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.csv", "aaa")
    put(tmp_path / "in" / "b.csv", "b")
    assert tally(tmp_path, tmp_path / "in")[1] == {"a": 3, "b": 1}
    put(tmp_path / "other" / "a.csv", "zzzz")
    result, _ = tally(tmp_path, tmp_path / "in", tmp_path / "other")
    assert result.exit_code == 1
    assert "a.csv have the same name" in result.output.replace("\n", " ")
    (tmp_path / "in" / "a.csv").unlink()
    put(tmp_path / "in" / "a.csv", "zz")
    result, _ = tally(tmp_path, tmp_path / "in")
    assert result.exit_code == 1
    assert "a.csv: has 2 rows, but 3 were taken from it before" in result.output.replace("\n", " ")
    assert "to a file with a new name" in result.output.replace("\n", " ")


def test_with_other_files_an_order_of_arrival_is_another_one_and_no_row_is_skipped_for_that(
    tmp_path: Path,
) -> None:
    put(tmp_path / "in" / "a.csv", "mmm")
    put(tmp_path / "in" / "b.csv", "z")
    for _ in range(2):
        result, counts = tally(tmp_path, tmp_path / "in", text=TALLY + IN_ORDER)
        assert result.exit_code == 0, result.output
        assert counts == {"m": 3, "z": 1}
    put(tmp_path / "in" / "c.csv", "aa")
    result, _ = tally(tmp_path, tmp_path / "in", text=TALLY + IN_ORDER)
    assert result.exit_code == 1
    assert "taken rows of other files than these (3 now)" in " ".join(result.output.split())


@pytest.mark.parametrize("given", ["in", "in/a.csv"], ids=["folder", "file"])
def test_an_order_of_arrival_of_files_that_have_grown_is_another_one(tmp_path: Path, given: str) -> None:
    put(tmp_path / "in" / "a.csv", "mmm")
    for _ in range(2):
        result, counts = tally(tmp_path, tmp_path / given, text=TALLY + IN_ORDER)
        assert result.exit_code == 0, result.output
        assert counts == {"m": 3}
    put(tmp_path / "in" / "a.csv", "a")
    result, counts = tally(tmp_path, tmp_path / given, text=TALLY + IN_ORDER)
    assert result.exit_code == 1
    assert "or one had another size then" in " ".join(result.output.split())
    assert counts == {"m": 3}


def test_another_file_in_the_place_of_one_is_taken_whole_and_their_folder_goes_on_from_both(
    tmp_path: Path,
) -> None:
    put(tmp_path / "in" / "monday.csv", "mmm")
    put(tmp_path / "in" / "tuesday.csv", "tttt")
    for file, expected in (("monday.csv", {"m": 3}), ("tuesday.csv", {"m": 3, "t": 4})):
        for _ in range(2):
            result, counts = tally(tmp_path, tmp_path / "in" / file)
            assert result.exit_code == 0, result.output
            assert counts == expected
    put(tmp_path / "in" / "monday.csv", "m")
    put(tmp_path / "in" / "a.csv", "aa")
    result, counts = tally(tmp_path, tmp_path / "in")
    assert result.exit_code == 0, result.output
    assert counts == {"m": 4, "t": 4, "a": 2}


def test_a_folder_in_the_place_of_rows_without_a_name_is_refused(tmp_path: Path) -> None:
    """Earlier versions counted the rows of a single file so too."""
    put(tmp_path / "in" / "m.csv", "mmm")
    text = (tmp_path / "in" / "m.csv").read_text()
    result, counts = tally(tmp_path, Path("-"), stdin=text)
    assert counts == {"m": 3}, result.output
    put(tmp_path / "in" / "a.csv", "aaaa")
    result, _ = tally(tmp_path, tmp_path / "in")
    assert result.exit_code == 1
    assert "give the file that was given then" in result.output.replace("\n", " ")
    put(tmp_path / "in" / "m.csv", "m")
    result, counts = tally(tmp_path, tmp_path / "in" / "m.csv")
    assert result.exit_code == 0, result.output
    assert counts == {"m": 4}
