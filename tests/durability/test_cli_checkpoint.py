"""``evercurrent run APP --checkpoint DIR``: a run goes on where an earlier one ended."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
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


def test_what_cannot_be_kept_is_said_in_a_sentence(words: Path) -> None:
    text = (words / "words.py").read_text()
    refused = run(words, "--checkpoint", str(words))
    assert refused.exit_code == 1
    assert "is no checkpoint and not empty" in refused.output
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
