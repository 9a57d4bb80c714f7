"""The retail application against DuckDB, which computes every view anew from all lines so far."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest

from evercurrent.core.data.schema import DIFF
from evercurrent.views.apps import retail
from evercurrent.views.apps.retail_orders import ORDERS, orders
from evercurrent.views.connectors.files import Reader
from evercurrent.views.engine.engine import Engine

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "online_retail.parquet"
REAL_LINES = 541_909

STEPS = {
    "lines": """
        select lines.* exclude _diff
        from (select * exclude _diff, sum(_diff)::bigint as _diff from history group by all) as lines,
            unnest(range(_diff))""",
    "invoices": """
        select InvoiceNo, CustomerID, Country,
            count(*) as lines, exact_sum(list(Quantity * UnitPrice)) as revenue, max(InvoiceDate) as at
        from lines where CustomerID is not null group by all""",
    "customers": """
        select Country, CustomerID, count(*) as invoices, exact_sum(list(revenue)) as revenue
        from invoices group by all""",
    "tiers": """
        select Country,
            case when revenue >= 5000 then 'gold' when revenue >= 1000 then 'silver'
                 when revenue >= 0 then 'bronze' else 'returned' end as tier,
            count(*) as customers, exact_sum(list(revenue)) as revenue
        from customers group by all""",
    "countries": """
        select Country, sum(customers)::bigint as customers, exact_sum(list(revenue)) as revenue
        from tiers group by all order by revenue desc limit 10""",
}
"""The views in SQL, each from the one before; first the lines that are there, from all that came and went.

The sums are rounded once (``math.fsum``): with DuckDB's own a customer can end up on the other side of a tier.
"""

KEYS = {
    "invoices": ["InvoiceNo", "CustomerID", "Country"],
    "customers": ["Country", "CustomerID"],
    "tiers": ["Country", "tier"],
    "countries": ["Country"],
}


def batch_views(history: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Every view by DuckDB, from the lines so far with their diffs."""
    with duckdb.connect() as database:
        database.register("history", history.to_arrow())
        database.create_function("exact_sum", math.fsum, ["DOUBLE[]"], "DOUBLE")
        for name, query in STEPS.items():
            database.execute(f"create temp table {name} as {query}")
        return {name: pl.DataFrame(database.sql(f"from {name}").to_arrow_table()) for name in KEYS}


def check(engine: Engine, history: pl.DataFrame) -> None:
    """Check that every view equals DuckDB's result: keys, counts and times exactly, revenues to nine digits."""
    for name, expected in batch_views(history).items():
        found = engine.views[name].read()
        assert found.columns == expected.columns
        keys = KEYS[name]
        found, expected = found.sort(keys), expected.sort(keys)
        exact = [column for column in found.columns if column != "revenue"]
        kinds = {column: pl.Int64 for column in exact if found.schema[column].is_integer()}
        assert found.select(exact).cast(kinds).equals(expected.select(exact).cast(kinds)), name
        away = (found["revenue"] - expected["revenue"]).abs()
        assert (away <= 1e-9 * expected["revenue"].abs().clip(lower_bound=1)).all(), name


def run_and_check(batches: Iterable[pl.DataFrame], at: set[int]) -> Engine:
    """Push the batches; compare after these epochs and at the end."""
    engine = retail.engine()
    seen: list[pl.DataFrame] = []
    for number, batch in enumerate(batches, 1):
        engine.push("orders", batch)
        seen.append(batch if DIFF in batch.columns else batch.with_columns(pl.lit(1, pl.Int64).alias(DIFF)))
        if number in at:
            check(engine, pl.concat(seen))
    check(engine, pl.concat(seen))
    assert engine.ledger().height == 0
    return engine


@pytest.mark.skipif(not REAL.exists(), reason=f"the real orders are not here: {REAL.name} in ../shared/data")
def test_the_real_orders():
    """541,909 lines, 10,147 of them in groups of exact duplicates; 55 epochs, compared after ten of them."""
    reader = Reader("orders", [REAL], ORDERS, diffs=True, batch_rows=10_000)
    engine = run_and_check((batch.frame for batch in reader.batches()), at=set(range(4, 55, 5)))
    assert engine.epoch_number == 55
    lines = pl.scan_parquet(REAL).filter(pl.col("CustomerID").is_not_null()).select(pl.len()).collect().item()
    assert engine.views["invoices"].read()["lines"].sum() == lines


def test_the_made_up_orders():
    engine = run_and_check((frame for _, frame in retail.inputs(10_000)), at={1, 5, 10, 15})
    assert engine.epoch_number == retail.input_rows / 10_000
    assert set(engine.views["tiers"].read()["tier"]) == {"gold", "silver", "bronze", "returned"}


def test_the_size_of_batches_changes_nothing():
    lines = orders(lines=5000, seed=3)
    contents = []
    for size in (5000, 700, 64):
        engine = run_and_check(lines.iter_slices(size), at=set())
        contents.append({name: view.read().sort(KEYS[name]) for name, view in engine.views.items()})
    for name in KEYS:
        assert contents[0][name].equals(contents[1][name])
        assert contents[0][name].equals(contents[2][name])


LINE = {
    "StockCode": "1",
    "Description": "LANTERN",
    "InvoiceDate": "2024-01-02 10:00:00",
    "CustomerID": 7,
    "Country": "Norway",
}


def line(number: str, quantity: int, price: float, diff: int = 1) -> pl.DataFrame:
    row = {**LINE, "InvoiceNo": number, "Quantity": quantity, "UnitPrice": price, DIFF: diff}
    return pl.DataFrame(row).with_columns(pl.col("InvoiceDate").str.to_datetime()).select(*ORDERS, DIFF)


def tiers_of(engine: Engine) -> list[tuple[str, str, int, float]]:
    return engine.views["tiers"].read().sort("tier").rows()


@pytest.fixture
def engine_and_deltas() -> Iterator[tuple[Engine, list[pl.DataFrame]]]:
    engine = retail.engine()
    deltas: list[pl.DataFrame] = []
    subscription = engine.views["customers"].subscribe(deltas.append)
    yield engine, deltas
    subscription.close()


def test_a_cancellation_moves_a_customer_through_all_views(engine_and_deltas):
    engine, deltas = engine_and_deltas
    engine.push("orders", line("1", 100, 50.0))
    assert tiers_of(engine) == [("Norway", "gold", 1, 5000.0)]
    engine.push("orders", line("C1", -90, 50.0))
    assert engine.views["invoices"].read()["revenue"].sort().to_list() == [-4500.0, 5000.0]
    assert engine.views["customers"].read().rows() == [("Norway", 7, 2, 500.0)]
    assert tiers_of(engine) == [("Norway", "bronze", 1, 500.0)]
    assert engine.views["countries"].read().rows() == [("Norway", 1, 500.0)]
    assert retail.remarks({"customers": deltas[-1]}) == [
        "customer 7 (Norway) falls to bronze: 5000.00 -> 500.00"
    ]


def test_a_correction_moves_a_customer_back(engine_and_deltas):
    engine, deltas = engine_and_deltas
    engine.push("orders", line("1", 100, 20.0))
    engine.push("orders", pl.concat([line("1", 100, 20.0, -1), line("1", 10, 20.0)]))
    assert tiers_of(engine) == [("Norway", "bronze", 1, 200.0)]
    engine.push("orders", line("1", 10, 20.0, -1))
    assert all(view.read().height == 0 for view in engine.views.values())
    assert retail.remarks({"customers": deltas[-1]}) == []
    assert retail.remarks({}) == []


def test_a_retraction_of_a_line_that_never_was_is_in_the_ledger():
    engine = retail.engine()
    engine.push("orders", pl.concat([line("1", 1, 2.0), line("2", 1, 2.0, -1)]))
    assert engine.views["customers"].read().rows() == [("Norway", 7, 1, 2.0)]
    assert engine.ledger("orders")["InvoiceNo"].to_list() == ["2"]


@pytest.mark.parametrize(
    ("revenue", "tier"),
    [
        (5000.0, "gold"),
        (4999.99, "silver"),
        (1000.0, "silver"),
        (999.99, "bronze"),
        (0.0, "bronze"),
        (-0.01, "returned"),
    ],
)
def test_tiers(revenue, tier):
    assert pl.select(retail.tier(pl.lit(revenue))).item() == tier


class TestMadeUpOrders:
    def test_are_the_same_for_a_seed(self):
        assert orders(lines=20_000, seed=5).equals(orders(lines=20_000, seed=5))
        assert not orders(lines=20_000, seed=5).equals(orders(lines=20_000, seed=6))

    @pytest.mark.parametrize("lines", [1, 10, 100, 3000])
    @pytest.mark.parametrize("seed", range(10))
    def test_are_as_many_as_requested(self, lines, seed):
        assert orders(lines=lines, seed=seed).height == lines

    def test_have_what_shops_have(self):
        lines = orders()
        assert lines.schema == pl.Schema({**ORDERS, DIFF: pl.Int64()})
        cancelled = lines["InvoiceNo"].str.starts_with("C")
        assert (lines.filter(cancelled)["Quantity"] < 0).all()
        assert (lines.filter(~cancelled)["Quantity"] > 0).all()
        assert 0.03 < cancelled.mean() < 0.1
        assert 0.1 < lines["CustomerID"].is_null().mean() < 0.3
        assert (lines["InvoiceDate"].diff().dt.total_days() < -1).sum() > 500

    def test_take_back_only_what_is_there(self):
        """Upload order: no line is ever there a negative number of times."""
        lines = orders()
        assert 0.005 < (lines[DIFF] < 0).mean() < 0.02
        assert lines.select(pl.col(DIFF).cum_sum().over(list(ORDERS)).min()).item() == 0
