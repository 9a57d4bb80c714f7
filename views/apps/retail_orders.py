"""Generated orders of a shop, the same for the same seed: sold, uploaded late, cancelled and corrected."""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

ORDERS = pl.Schema(
    {
        "InvoiceNo": pl.String(),
        "StockCode": pl.String(),
        "Description": pl.String(),
        "Quantity": pl.Int64(),
        "InvoiceDate": pl.Datetime("us"),
        "UnitPrice": pl.Float64(),
        "CustomerID": pl.Int64(),
        "Country": pl.String(),
    }
)
"""The columns of an order line."""

LINES = 200_000
CUSTOMERS = 3_000
WALK_IN = 0.2
"""Share of invoices without a customer's number."""
LATE = 0.05
"""Share of invoices that are uploaded up to twelve days late."""
CANCELLED_LINES = 0.02
CANCELLED_INVOICES = 0.03
"""Share of the invoices that are cancelled as a whole; large ones more often."""
CORRECTED = 0.01
"""Share of the lines that are retracted and written again, with another quantity."""

OPENS = datetime(2024, 1, 2, 8)
DAYS = 360
DAY = 86_400

SIZES = ("Tiny", "Small", "Tall", "Large", "Pair of", "Boxed")
LOOKS = ("Copper", "Walnut", "Linen", "Striped", "Enamel", "Mossy", "Amber", "Cobalt", "Woven", "Speckled")
THINGS = (
    "Kettle", "Lantern", "Apron", "Bookend", "Bird Feeder", "Mug", "Doorstop",
    "Garden Twine", "Tea Tray", "Candle", "Coat Hook", "Letter Rack", "Jam Jar", "Wind Chime",
)  # fmt: skip
COUNTRIES = {
    "United Kingdom": 0.70,
    "Germany": 0.06,
    "France": 0.06,
    "Ireland": 0.04,
    "Netherlands": 0.03,
    "Spain": 0.03,
    "Belgium": 0.02,
    "Portugal": 0.02,
    "Norway": 0.015,
    "Italy": 0.01,
    "Finland": 0.005,
    "Japan": 0.005,
    "Iceland": 0.005,
}


def orders_in_batches(batch_rows: int, *, lines: int = LINES, seed: int = 1) -> Iterator[pl.DataFrame]:
    """Yield the generated lines in the order of their upload, in frames of this many rows."""
    return orders(lines=lines, seed=seed).iter_slices(batch_rows)


def orders(*, lines: int = LINES, seed: int = 1) -> pl.DataFrame:
    """Return this many lines of orders, with ``_diff``, in the order of their upload.

    A line with ``_diff`` -1 retracts a line uploaded before it; the corrected one follows at once.
    """
    random = np.random.default_rng(seed)
    added = 1 + CANCELLED_LINES + CANCELLED_INVOICES + 2 * CORRECTED
    sold = _sold(random, int(lines / added) + 100)
    cancelled = _cancelled(random, sold)
    everything = pl.concat([sold, cancelled, _corrected(random, sold)]).sort("upload", maintain_order=True)
    assert everything.height >= lines
    return everything.select(*ORDERS, "_diff").head(lines)


def _sold(random: np.random.Generator, lines: int) -> pl.DataFrame:
    """Return lines as they were first written, with ``upload``: when they arrive, in seconds from ``OPENS``."""
    sizes = random.geometric(1 / 18, lines // 15 + 10)
    of = np.repeat(np.arange(sizes.size), sizes)[:lines]
    assert of.size == lines
    invoices = _invoices(random, int(of[-1]) + 1)
    products = _products(random)
    bought = random.choice(products.height, lines, p=_falling(products.height, 0.6))
    quantity = np.ceil(np.exp(random.normal(1.0, 0.9, lines)) * invoices["appetite"].to_numpy()[of])
    return pl.concat(
        [
            invoices.drop("appetite")[of],
            products[bought],
            pl.DataFrame({"Quantity": quantity.astype(np.int64), "_diff": np.ones(lines, np.int64)}),
        ],
        how="horizontal",
    )


def _invoices(random: np.random.Generator, count: int) -> pl.DataFrame:
    """Return invoices in the order of their dates, each of a customer with a country and a factor for its quantities."""
    country = random.choice(list(COUNTRIES), CUSTOMERS, p=list(COUNTRIES.values()))
    customer = random.choice(CUSTOMERS, count, p=random.permutation(_falling(CUSTOMERS, 0.5)))
    appetite = random.lognormal(0.0, 0.7, CUSTOMERS)
    at = np.sort(random.integers(0, DAYS, count) * DAY + random.integers(0, 10 * 3600, count))
    late = np.where(random.random(count) < LATE, random.uniform(1, 12, count) * DAY, 0)
    return pl.DataFrame(
        {
            "InvoiceNo": np.arange(100_001, 100_001 + count).astype(str),
            "InvoiceDate": _dates(at),
            "CustomerID": pl.Series(customer + 10_001).set(pl.Series(random.random(count) < WALK_IN), None),
            "Country": country[customer],
            "appetite": appetite[customer],
            "upload": at + random.uniform(0, 3600, count) + late,
        }
    )


def _cancelled(random: np.random.Generator, sold: pl.DataFrame) -> pl.DataFrame:
    """Return lines that undo sold ones some days later: single lines, and whole invoices."""
    worth = sold.group_by("InvoiceNo", maintain_order=True).agg(
        worth=(pl.col("Quantity") * pl.col("UnitPrice")).sum().sqrt()
    )
    chance = worth["worth"].to_numpy() / worth["worth"].sum()
    whole = random.choice(worth.height, int(CANCELLED_INVOICES * worth.height), replace=False, p=chance)
    is_whole = sold["InvoiceNo"].is_in(worth["InvoiceNo"][whole].implode()).to_numpy()
    chosen = sold.filter(is_whole | (random.random(sold.height) < CANCELLED_LINES))
    # One date per invoice: its number determines how many days later.
    days = random.integers(1, 20, worth.height)
    place = worth.select("InvoiceNo", days=pl.Series(days))
    wait = chosen.join(place, on="InvoiceNo", how="left", maintain_order="left")["days"]
    return chosen.with_columns(
        InvoiceNo="C" + pl.col("InvoiceNo"),
        Quantity=-pl.col("Quantity"),
        InvoiceDate=pl.col("InvoiceDate") + pl.duration(days=pl.lit(wait)),
        upload=pl.col("upload") + wait * DAY,
    )


def _corrected(random: np.random.Generator, sold: pl.DataFrame) -> pl.DataFrame:
    """Return retractions of sold lines within some days, each followed by the line with the right quantity."""
    wrong = sold.filter(random.random(sold.height) < CORRECTED).with_columns(
        upload=pl.col("upload") + random.uniform(60, 5 * DAY)
    )
    factor = pl.Series(random.choice([0.1, 0.5, 2.0, 10.0], wrong.height))
    quantity = (pl.col("Quantity") * factor).ceil().cast(pl.Int64)
    quantity += (quantity == pl.col("Quantity")).cast(pl.Int64)
    right = wrong.with_columns(Quantity=quantity)
    return pl.concat([wrong.with_columns(_diff=pl.lit(-1, pl.Int64)), right])


def _products(random: np.random.Generator) -> pl.DataFrame:
    """Return every size, look and kind of product, with a code and a price."""
    names = [f"{size} {look} {thing}".upper() for size in SIZES for look in LOOKS for thing in THINGS]
    price = np.clip(np.exp(random.normal(1.0, 0.8, len(names))), 0.19, 60).round(2)
    codes = random.permutation(np.arange(20_000, 20_000 + len(names))).astype(str)
    return pl.DataFrame({"StockCode": codes, "Description": names, "UnitPrice": price})


def _dates(seconds: npt.NDArray[np.int64]) -> pl.Series:
    return pl.select(
        pl.lit(OPENS, pl.Datetime("us")) + pl.duration(seconds=pl.lit(pl.Series(seconds)))
    ).to_series()


def _falling(count: int, power: float) -> npt.NDArray[np.float64]:
    """Return probabilities that fall with rank and add up to 1: a few are chosen often, many seldom."""
    weight = np.arange(1, count + 1, dtype=np.float64) ** -power
    weight /= weight.sum()
    return weight
