"""Orders of a shop as four chained views: invoices, customers, tiers, countries.

The lines of orders come late, are cancelled (an invoice number with C and a negative quantity) and are corrected (the
line with ``_diff`` -1, then the right one). So the revenue of a customer goes up and down, and the customer moves from one
tier to another, in every view at once.
"""

from collections.abc import Iterator, Mapping

import polars as pl

from ..engine.engine import Engine
from .retail_orders import LINES, ORDERS, orders_in_batches

show = "tiers"
order = {
    "invoices": ["-revenue"],
    "customers": ["-revenue"],
    "tiers": ["-revenue"],
    "countries": ["-revenue"],
}
input_rows = LINES

TOP_COUNTRIES = 10
CENTS = pl.Decimal(20, 2)


def engine() -> Engine:
    """Return an engine with the source ``orders`` and the four views over it."""
    shop = Engine()
    orders = shop.source("orders", ORDERS, kind="diffs", event_time="InvoiceDate")
    invoices = shop.view(
        "invoices",
        orders.filter(pl.col("CustomerID").is_not_null())
        .group_by("InvoiceNo", "CustomerID", "Country")
        .agg(
            lines=pl.len(),
            revenue=(pl.col("Quantity") * pl.col("UnitPrice")).sum(),
            at=pl.col("InvoiceDate").max(),
        ),
    )
    customers = shop.view(
        "customers",
        invoices.group_by("Country", "CustomerID").agg(invoices=pl.len(), revenue=pl.col("revenue").sum()),
    )
    tiers = shop.view(
        "tiers",
        customers.with_columns(tier=tier(pl.col("revenue")))
        .group_by("Country", "tier")
        .agg(customers=pl.len(), revenue=pl.col("revenue").sum()),
    )
    shop.view(
        "countries",
        tiers.group_by("Country")
        .agg(customers=pl.col("customers").sum(), revenue=pl.col("revenue").sum())
        .top_k(TOP_COUNTRIES, by="revenue"),
    )
    return shop


def tier(revenue: pl.Expr) -> pl.Expr:
    """Return the tier of a customer with this revenue."""
    return (
        pl.when(revenue >= 5000)
        .then(pl.lit("gold"))
        .when(revenue >= 1000)
        .then(pl.lit("silver"))
        .when(revenue >= 0)
        .then(pl.lit("bronze"))
        .otherwise(pl.lit("returned"))
    )


def inputs(batch_rows: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield generated orders, in batches of this many lines."""
    return (("orders", batch) for batch in orders_in_batches(batch_rows))


def remarks(deltas: Mapping[str, pl.DataFrame]) -> list[str]:
    """Name the customers who moved from one tier to another; moves down come first, as only retractions cause them."""
    if "customers" not in deltas:
        return []
    change = deltas["customers"].with_columns(tier=tier(pl.col("revenue")))
    before, after = change.filter(pl.col("_diff") < 0), change.filter(pl.col("_diff") > 0)
    moved = (
        before.join(after, on=["Country", "CustomerID"], suffix="_after")
        .filter(pl.col("tier") != pl.col("tier_after"))
        .with_columns(gain=pl.col("revenue_after") - pl.col("revenue"))
        .sort("gain")
    )
    sentences = pl.format(
        "customer {} ({}) {} to {}: {} -> {}",
        "CustomerID",
        "Country",
        pl.when(pl.col("gain") < 0).then(pl.lit("falls")).otherwise(pl.lit("rises")),
        "tier_after",
        pl.col("revenue").cast(CENTS),
        pl.col("revenue_after").cast(CENTS),
    )
    return moved.select(sentences).to_series().to_list()
