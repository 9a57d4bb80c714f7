"""``evercurrent run APP --on spark``: what it shows, writes and remembers is what the embedded command does."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import evercurrent as ec
from evercurrent.spark_bridge.cli_driver import on_spark
from evercurrent.spark_bridge.execution.arrivals import Arrivals
from evercurrent.spark_bridge.execution.options import Planned, instant_of
from evercurrent.views.apps.retail_orders import orders_in_batches
from evercurrent.views.cli import app
from evercurrent.views.store import store_at

LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "access.log"

STARTING = "starting spark ...\n"


@pytest.fixture(autouse=True)
def no_width_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test runner may set how wide its own terminal is."""
    monkeypatch.delenv("COLUMNS", raising=False)


def run(*arguments: object, fails: bool = False) -> tuple[str, str]:
    """What a run prints on its two streams, without what hangs on how fast it was."""
    result = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert result.exit_code == (1 if fails else 0), result.output
    timeless = re.sub(r"[\d.,]+ rows/s|[\d.:]+( s)? left|(?<=^time) .*", "~", result.stdout, flags=re.M)
    return timeless, result.stderr


def assert_same(folder: Path, view: str, *arguments: object) -> None:
    """Both ways of running print the same and leave the same contents of all views and the same deltas of one."""
    here, there = folder / "here", folder / "there"
    written = [["--output", path, "--deltas", f"{view}={path}/deltas.parquet"] for path in (here, there)]
    printed, complaints = run(*arguments, *written[0])
    printed_there, printed_first = run(*arguments, *written[1], "--on", "spark", "--buckets", 4)
    assert printed_there.replace(str(there), str(here)) == printed
    assert (complaints, printed_first) == ("", STARTING)
    assert_same_files(here, there)


def assert_same_files(here: Path, there: Path) -> None:
    assert {path.name for path in here.iterdir()} == {path.name for path in there.iterdir()} != set()
    for path in here.iterdir():
        own = pl.read_parquet(path)
        assert own.height
        assert_frame_equal(own, pl.read_parquet(there / path.name), check_row_order=False, check_exact=True)


def test_retail(spark: Any, tmp_path: Path) -> None:
    """A163: an application with retractions, chained groupings and remarks."""
    orders = tmp_path / "orders.parquet"
    pl.concat(itertools.islice(orders_in_batches(600), 4)).write_parquet(orders)
    assert_same(tmp_path, "tiers", "retail", "--input", f"orders={orders}", "--batch-rows", 600)


@pytest.mark.skipif(not LOG.is_file(), reason="the access log is not here: ../shared/data")
def test_visits(spark: Any, tmp_path: Path) -> None:
    """A163: sessions over requests that arrive late at recorded processing times, to the end of time."""
    log = tmp_path / "access.log"
    with LOG.open() as lines:
        log.write_text("".join(itertools.islice(lines, 2_000)))
    assert_same(tmp_path, "depth", "visits", "--input", f"hits={log}", "--batch-rows", 500)


STOCK = """
import polars as pl

import evercurrent as ec

engine = ec.Engine()
sales = engine.source("sales", {"shop": pl.String, "price": pl.Int64})
shops = engine.source("all.shops", {"shop": pl.String, "town`s": pl.Int64}, kind="upsert", key="shop")
narrow = sales.with_columns(pl.col("price").cast(pl.UInt8))
engine.view("sold", narrow.join(shops, on="shop", how="left").group_by("town`s").agg(n=pl.len()))
"""


def test_a_run_goes_on(spark: Any, tmp_path: Path) -> None:
    """A161, A163: two sources, a batch that is refused, and the same input mended, on a checkpoint."""
    stock, sales, shops = (tmp_path / name for name in ("stock.py", "sales.csv", "shops.csv"))
    stock.write_text(STOCK)
    shops.write_text("shop,town`s\na,1\nb,2\na,3\n")
    sales.write_text("shop,price\na,1\nb,2\nc,3\nd,-4\na,5\nb,6\n")
    arguments = [stock, "--input", f"sales={sales}", "--input", f"all.shops={shops}", "--batch-rows", 2]
    here, there = ([*arguments, "--checkpoint", tmp_path / name] for name in ("h", "t"))
    (_, sentence), (_, sentence_there) = run(*here, fails=True), run(*there, "--on", "spark", fails=True)
    assert "rows 3 to 4" in sentence
    assert "[-4]" in sentence
    assert sentence_there == STARTING + sentence
    sales.write_text(sales.read_text().replace("-4", "4"))
    run(*here, "--output", tmp_path / "here")
    printed, _ = run(*there, "--on", "spark", "--output", tmp_path / "there")
    assert "after epoch 3; 4 rows of the input were taken before" in printed
    assert_same_files(tmp_path / "here", tmp_path / "there")


def test_rows_that_were_put_and_not_taken(spark: Any, checkpoint: Path) -> None:
    """A run that is killed between the two has them as its next epoch, at their time."""

    def declared() -> ec.Engine:
        engine = ec.Engine()
        engine.view("counts", engine.source("words", {"word": pl.String}).group_by("word").agg(n=pl.len()))
        return engine

    at = datetime(2026, 1, 31, tzinfo=UTC)
    rows = pl.DataFrame({"word": ["a", "b"]})
    with on_spark(declared(), checkpoint=str(checkpoint), buckets=2) as driver:
        driver.push("words", rows, at=at, position=2)
        received: list[pl.DataFrame] = []
        driver.views["counts"].subscribe(received.append)
        assert driver.push("words", rows[:0], position=2) == 2  # an epoch, in which nothing happens
    arrivals = Arrivals(store_at(checkpoint), declared().sources)
    arrivals.put(2, {"words": rows[:1]}, Planned(instant_of(at), {"words": 3}))
    with on_spark(declared(), checkpoint=str(checkpoint), buckets=2) as driver:
        assert driver.positions == {"words": 3}
        assert sorted(driver.views["counts"].read().rows()) == [("a", 2), ("b", 1)]
        driver.views["counts"].subscribe(received.append)
        assert driver.push("words", rows[1:], at=at, position=4) == 4
    assert [sorted(frame.rows()) for frame in received] == [[("b", 1, 4, -1), ("b", 2, 4, 1)]]


def test_the_error_for_a_driver_that_is_not_there() -> None:
    _, sentence = run("retail", "--on", "flink", fails=True)
    assert sentence == (
        "error: --on flink: there is no driver of this name; there are 'spark'; leave out --on to run in this process\n"
    )
