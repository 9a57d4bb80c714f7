"""The sinks, each with a way to write a view there and to read what is there as sorted rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import evercurrent as ec

KINDS = ("sqlite", "delta", "delta log", "iceberg", "parquet", "function")


def ordered(rows: list[tuple]) -> list[tuple]:
    return sorted(rows, key=repr)


def summed(deltas: pl.DataFrame) -> list[tuple]:
    """The contents to which deltas add up."""
    columns = [name for name in deltas.columns if name not in ("_epoch", "_diff")]
    rows = deltas.group_by(columns).agg(pl.col("_diff").sum())
    assert (rows["_diff"] >= 0).all()
    present = rows.filter(pl.col("_diff") > 0)
    return ordered([row[:-1] for row in present.iter_rows() for _ in range(row[-1])])


@dataclass
class Place:
    """A place for the rows of one view, which outlives the engine."""

    kind: str
    folder: Path
    deltas: list[pl.DataFrame]
    failing: list[Exception]

    def deliver(self, view: ec.View, **options: object) -> ec.Delivery:
        retry = ec.Retry(first_seconds=0.02, most_seconds=0.1)
        match self.kind:
            case "sqlite":
                return view.to_sql(f"sqlite:///{self.folder}/x.db", "rows of it", retry=retry, **options)
            case "delta":
                return view.to_delta(self.folder / "delta", retry=retry, **options)
            case "delta log":
                return view.to_delta(self.folder / "log", mode="append", retry=retry)
            case "iceberg":
                return view.to_iceberg("shop.rows", self.catalog, retry=retry, **options)
            case "parquet":
                return view.to_parquet(self.folder / "parquet", retry=retry)
            case _:
                return view.foreach(self.take, name="mine", retry=retry)

    def take(self, delta: pl.DataFrame) -> None:
        if self.failing:
            raise self.failing.pop()
        self.deltas.append(delta)

    @property
    def catalog(self) -> dict[str, str]:
        (self.folder / "warehouse").mkdir(exist_ok=True)
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": f"file://{self.folder}/warehouse",
        }

    def rows(self) -> list[tuple]:
        match self.kind:
            case "sqlite":
                with sqlite3.connect(self.folder / "x.db") as database:
                    return ordered(database.execute('select * from "rows of it"').fetchall())
            case "delta":
                return ordered(pl.read_delta(str(self.folder / "delta")).rows())
            case "delta log":
                return summed(pl.read_delta(str(self.folder / "log")))
            case "iceberg":
                from pyiceberg.catalog import load_catalog

                table = load_catalog("evercurrent", **self.catalog).load_table("shop.rows")
                return ordered(pl.DataFrame(table.scan().to_arrow()).rows())
            case "parquet":
                return summed(pl.read_parquet(f"{self.folder}/parquet/*.parquet"))
            case _:
                return summed(pl.concat(self.deltas))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    needed = {"sqlite": "sqlalchemy", "delta": "deltalake", "delta log": "deltalake", "iceberg": "pyiceberg"}
    if request.param in needed:
        pytest.importorskip(needed[request.param])
    return Place(request.param, tmp_path, [], [])


Declare = Callable[[ec.Engine], ec.View]
