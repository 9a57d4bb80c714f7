"""The bank of the internal-consistency case: transfers -> credits and debits -> balances -> one total, which is always zero.

One declaration for the engine in one process and in Spark; the checks read deltas, so that everything that was ever
shown is looked at, and not only what stands at the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import polars as pl

import evercurrent as ec

ACCOUNTS = 10
BEGIN = datetime(2026, 1, 1)
TRANSFERS = {
    "id": pl.Int64(),
    "from_account": pl.Int64(),
    "to_account": pl.Int64(),
    "amount": pl.Int64(),
    "at": pl.Datetime("us"),
}
VIEWS = (
    "accepted",
    "outer_join_with_time",
    "outer_join_without_time",
    "credits",
    "debits",
    "balance",
    "total",
)


def declare(engine: ec.Engine) -> None:
    """The source ``transfers`` and the views of the case, built on each other."""
    transfers = engine.source("transfers", TRANSFERS, event_time="at", bounded=True)
    accepted = engine.view("accepted", transfers.select(*TRANSFERS))
    sides = accepted.select("id", "at")
    engine.view(
        "outer_join_with_time",
        accepted.join(sides.with_columns(other=pl.col("id")), on=["id", "at"], how="left"),
    )
    others = accepted.select("id", other=pl.col("id"))
    engine.view(
        "outer_join_without_time", accepted.filter(pl.col("amount") > 0).join(others, on="id", how="left")
    )
    credits = engine.view(
        "credits", accepted.group_by(account="to_account").agg(credits=pl.col("amount").sum())
    )
    debits = engine.view(
        "debits", accepted.group_by(account="from_account").agg(debits=pl.col("amount").sum())
    )
    balance = engine.view(
        "balance",
        credits.join(debits, on="account", how="full", coalesce=True).select(
            "account", balance=pl.col("credits").fill_null(0) - pl.col("debits").fill_null(0)
        ),
    )
    engine.view("total", balance.group_by().agg(total=pl.col("balance").sum()))


def transfers(count: int, *, simplified: bool = False, seed: int = 7) -> pl.DataFrame:
    """So many transfers of one unit each; ``simplified``: there and back in turn, so that no balance exceeds one."""
    draw = random.Random(seed)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        there, back = draw.randrange(ACCOUNTS), draw.randrange(ACCOUNTS)
        if simplified and number % 2:
            back, there = rows[-1][1:3]
        at = BEGIN + timedelta(seconds=number, milliseconds=draw.randrange(-3000, 3000))
        rows.append((number, there, back, 1, at))
    return pl.DataFrame(rows, schema=TRANSFERS, orient="row")


def batches(rows: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    """The rows in frames of so many."""
    return rows.iter_slices(size)


def wrong(
    deltas: dict[str, Iterable[pl.DataFrame]], rows: pl.DataFrame, *, simplified: bool = False
) -> list[str]:
    """Which invariants do not hold in any epoch, by the deltas of all views from the beginning.

    ``rows`` are all transfers, of which each has to be in ``accepted`` once. ``simplified``: no balance exceeds one.
    """
    faults: list[str] = []
    for epoch, shown in states_of(deltas["total"]):
        if any(total not in (0, None) for (total,) in shown):
            faults.append(f"epoch {epoch}: the total is {shown}")
        if len(shown) > 1:
            faults.append(f"epoch {epoch}: there are {len(shown)} totals")
    for epoch, shown in states_of(deltas["balance"]):
        if sum(balance for _, balance in shown):
            faults.append(f"epoch {epoch}: the balances add up to {sum(balance for _, balance in shown)}")
        if simplified and any(abs(balance) > 1 for _, balance in shown):
            faults.append(f"epoch {epoch}: a balance exceeds one: {shown}")
    for name in ("outer_join_with_time", "outer_join_without_time"):
        faults += [
            f"{name}: a row without its other side, or one that was taken back: {frame}"
            for frame in deltas[name]
            if frame["other"].null_count() or (frame["_diff"] < 0).any()
        ]
    accepted = pl.concat([*deltas["accepted"]])
    if sorted(accepted["id"]) != sorted(rows["id"]) or not (accepted["_diff"] == 1).all():
        faults.append("not every transfer is there once")
    return faults


def states_of(deltas: Iterable[pl.DataFrame]) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    """The contents of a view after each epoch that changed it."""
    held: dict[tuple[Any, ...], int] = {}
    for frame in deltas:
        for *cells, diff in frame.drop("_epoch").iter_rows():
            row = tuple(cells)
            held[row] = held.get(row, 0) + diff
        held = {row: count for row, count in held.items() if count}
        assert all(count == 1 for count in held.values()), held
        yield int(frame["_epoch"][0]), list(held)
