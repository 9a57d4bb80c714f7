"""``evercurrent run APP --on spark --on-error ledger`` refuses, reports and remembers what a run in this process does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spark.test_cli_on_spark import STARTING, assert_same_files, run

SHOP = """
import evercurrent as ec
import polars as pl

engine = ec.Engine()
sales = engine.source("sales", {"id": pl.Int64, "price": pl.String}, kind="upsert", key="id")
returns = engine.source("returns", {"id": pl.Int64}, kind="diffs", strict=True)
prices = sales.with_columns(price=pl.col("price").cast(pl.Int64))
engine.view("prices", prices.join(returns, on="id", how="anti"))
"""


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(SHOP)
    Path("sales.csv").write_text("id,price\n1,40\n,7\n2,about 20\nthree,5\n4,6\n5,7\n")
    Path("returns.csv").write_text("id,_diff\n5,1\n4,-1\n")


def test_bad_rows_of_a_run_in_spark_go_to_the_ledger(spark: Any) -> None:
    arguments = [
        "shop.py",
        "--input",
        "sales=sales.csv",
        "--input",
        "returns=returns.csv",
        "--on-error",
        "ledger",
    ]
    printed, _ = run(*arguments, "--output", "here")
    printed_there, others = run(*arguments, "--output", "there", "--on", "spark", "--buckets", 2)
    assert others == STARTING
    among = re.compile(r"out of \d values")  # A row without a key comes as far as that in Spark.
    assert among.sub("", printed_there.replace("there/", "here/")) == among.sub("", printed)
    for reason in ("primary key 'id' is null", '"price":"about 20"', "retraction of a row that is not there"):
        assert reason in printed_there
    assert_same_files(Path("here"), Path("there"))


def test_a_run_in_spark_that_stops_names_the_first_bad_row(spark: Any) -> None:
    arguments = [
        "shop.py",
        "--input",
        "sales=sales.csv",
        "--input",
        "returns=returns.csv",
        "--on-error",
        "stop",
    ]
    _, sentence = run(*arguments, fails=True)
    _, sentence_there = run(*arguments, "--on", "spark", "--buckets", 2, fails=True)
    assert sentence_there == STARTING + sentence
    assert "primary key 'id' is null in row 1" in sentence
