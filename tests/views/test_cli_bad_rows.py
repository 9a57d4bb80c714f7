"""A run with ``--on-error ledger`` refuses bad rows as an engine with ``on_bad_rows="ledger"`` does: in the epoch of the others."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evercurrent.views.cli import app

SHOP = """
import evercurrent as ec
import polars as pl

engine = ec.Engine({engine})
sales = engine.source("sales", {{"id": pl.Int64, "price": pl.String}}, {source})
engine.view("prices", sales.with_columns(price=pl.col("price").cast(pl.Int64)))
"""
UPSERT = "kind='upsert', key='id'"
ROWS = "id,price\n1,40\n,7\n2,about 20\nthree,5\n4,6\n"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    declare()
    Path("sales.csv").write_text(ROWS)


def declare(engine: str = "", source: str = UPSERT) -> None:
    Path("shop.py").write_text(SHOP.format(engine=engine, source=source))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", "shop.py", "--input", "sales=sales.csv", *arguments])


def contents() -> list[tuple[Any, ...]]:
    return pl.read_parquet("out/prices.parquet").sort("id").rows()


def test_the_rows_of_a_batch_are_one_epoch_whatever_is_refused() -> None:
    done = run("--on-error", "ledger", "--output", "out", "--deltas", "prices=d.jsonl")
    assert done.exit_code == 0, done.output
    assert contents() == [(1, 40), (4, 6)]
    assert {json.loads(line)["_epoch"] for line in Path("d.jsonl").read_text().splitlines()} == {1}


def test_the_summary_has_each_reason_with_its_first_row_and_the_error_of_the_views() -> None:
    done = run("--on-error", "ledger")
    assert "1 of sales: primary key 'id' is null" in done.output
    assert 'the first is {"id":null,"price":"7"}' in done.output
    assert 'the first is {"id":2,"price":"about 20"}' in done.output
    assert "view 'prices': conversion from `str` to `i64` failed in column 'price'" in done.output
    assert '["about 20"]' in done.output, "the value once, and no other one"
    assert "sales.csv: cannot be read; the first is row 4: column 'id': 'three' is not" in done.output


def test_a_quiet_run_lists_them_on_the_standard_error() -> None:
    done = run("--on-error", "ledger", "--quiet")
    assert not done.stdout
    for part in ("primary key 'id' is null", '"price":"about 20"', "view 'prices': conversion", "row 4: "):
        assert part in done.stderr


def test_a_run_that_goes_on_reports_its_own_rows_and_refuses_none_twice() -> None:
    first = run("--on-error", "ledger", "--checkpoint", "state", "--quiet")
    assert "primary key 'id' is null" in first.stderr
    with Path("sales.csv").open("a") as file:
        file.write("5,nine\n6,9\n")
    again = run("--on-error", "ledger", "--checkpoint", "state", "--output", "out", "--quiet")
    assert contents() == [(1, 40), (4, 6), (6, 9)]
    assert '"price":"nine"' in again.stderr
    assert "primary key" not in again.stderr


def test_a_strict_source_does_not_end_a_run_that_leaves_out_bad_rows() -> None:
    declare(source="kind='diffs', strict=True")
    Path("sales.csv").write_text("id,price,_diff\n1,40,1\n2,7,-1\n3,9,1\n")
    done = run("--on-error", "ledger", "--output", "out")
    assert done.exit_code == 0, done.output
    assert contents() == [(1, 40), (3, 9)]
    assert "1 of sales: retraction of a row that is not there" in done.output
    stopped = run()
    assert stopped.exit_code == 1
    assert "rows 1 to 3: source 'sales': retraction of a row that is not there" in stopped.output


def test_an_application_can_choose_it_and_an_option_overrides_that() -> None:
    declare("on_bad_rows='ledger'")
    assert run("--output", "out").exit_code == 0
    assert contents() == [(1, 40), (4, 6)]
    stopped = run("--on-error", "stop")
    assert stopped.exit_code == 1
    assert "sales.csv: " in stopped.output


def test_many_bad_rows_are_a_line_for_each_reason() -> None:
    rows = [f"{n},{'x' if n % 10 == 0 else n}" for n in range(3_000)]
    Path("sales.csv").write_text("\n".join(["id,price", *rows, ""]))
    done = run("--on-error", "ledger", "--output", "out", "--batch-rows", "1000")
    assert len(contents()) == 2_700
    assert "300 of sales: the views cannot be computed with the row" in done.output
    assert done.output.count("conversion from") == 1
