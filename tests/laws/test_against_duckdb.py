"""A second truth, at a size at which states have many runs: DuckDB on all rows so far, after every batch."""

import random

import duckdb
import polars as pl
import pytest

import evercurrent as ec
from harness import contents
from oracle import Bag
from strategies import evaluate
from thinned import IS_LONG

A = {"id": pl.Int64, "k": pl.Int64, "x": pl.Int64, "s": pl.String}
B = {"k": pl.Int64, "name": pl.String}

VIEWS = {
    "a.group_by('k').agg(n=pl.len(), u=pl.col('x').sum(), lo=pl.col('x').min(), hi=pl.col('x').max())": (
        "select k, count(*), coalesce(sum(x), 0)::bigint, min(x), max(x) from a group by k"
    ),
    "a.group_by('k').agg(n=pl.len()).group_by('n').agg(keys=pl.len())": (
        "select n, count(*) from (select k, count(*) as n from a group by k) group by n"
    ),
    "a.group_by('s').agg(pl.col('k').n_unique())": "select s, count(distinct k) + max((k is null)::int) from a group by s",
    "a.select('k', 's').unique()": "select distinct k, s from a",
    "a.join(b, on='k').group_by('name').agg(pl.col('x').sum())": (
        "select name, coalesce(sum(x), 0)::bigint from a join b using (k) group by name"
    ),
    "a.join(b, on='k', how='full').select('id', 'x', 'name')": "select id, x, name from a full join b on a.k = b.k",
    "a.join(b, on='k', how='anti').select('id')": (
        "select id from a where not exists (select 1 from b where b.k = a.k)"
    ),
    "a.group_by('s').top_k(2, by=['x', 'id'])": (
        "select id, k, x, s from a qualify row_number() over (partition by s order by x desc nulls last, id desc) <= 2"
    ),
    "a.group_by('k').agg(u=pl.col('x').sort_by('id').last(), v=pl.col('x').median())": (
        "select k, arg_max_null(x, id), median(x) from a group by k"
    ),
}


@pytest.mark.parametrize("text", VIEWS)
def test_every_batch_leaves_what_duckdb_computes_anew(text: str) -> None:
    draw = random.Random(11)
    engine = ec.Engine()
    sources = {"a": engine.source("a", A, kind="diffs"), "b": engine.source("b", B, kind="upsert", key="k")}
    view = engine.view("v", evaluate(text, sources))
    held: dict[int, tuple[int, int | None, int | None, str]] = {}
    names: dict[int, str] = {}
    for batch in range(8 if IS_LONG else 4):
        gone = draw.sample(sorted(held), k=len(held) // 3)
        rows = [(*held.pop(at), -1) for at in gone]
        for at in range(batch * 3000, batch * 3000 + 3000):
            row = (
                at,
                draw.choice([None, *range(800)]),
                draw.choice([None, *range(-50, 50)]),
                draw.choice("pqrst"),
            )
            held[at] = row
            rows.append((*row, 1))
        changed = {draw.randrange(900): draw.choice("uvw") for _ in range(150)}
        names |= changed
        with engine.epoch():
            engine.push("a", pl.DataFrame(rows, schema={**A, "_diff": pl.Int64}, orient="row"))
            engine.push("b", pl.DataFrame(list(changed.items()), schema=B, orient="row"))
        tables = {
            "a": pl.DataFrame(list(held.values()), schema=A, orient="row"),
            "b": pl.DataFrame(list(names.items()), schema=B, orient="row"),
        }
        with duckdb.connect() as database:
            for name, frame in tables.items():
                database.register(name, frame.to_arrow())
            found = pl.DataFrame(database.sql(VIEWS[text]).to_arrow_table())
        expected = Bag.of(found.rename(dict(zip(found.columns, view.columns, strict=True))))
        assert contents(view) == expected
    assert engine.ledger().is_empty()
