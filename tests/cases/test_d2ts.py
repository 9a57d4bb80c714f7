"""The cases of d2mini's own tests (`d2ts-operators`), through the public interface.

A row is any JSON value. A number stands in a column ``number``, any other value as JSON in a column ``text``,
so that one column of theirs may hold both. Rows of keyed operators are [key, value]: two such pairs.

Rulings: outputs are compared as sums of deltas, since the cut into messages is up to the engine. d2ts keeps a
key at [key, 0] when its rows are gone, where a SQL engine, and ours, removes the group: so behind ``count``
an expected [key, 0] stands for "there is no row of that key".
"""

import json
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evercurrent as ec
from peer_cases import NOT_BESIDE

FILE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "d2ts-operators" / "cases.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text())["cases"] if FILE.exists() else []

Sum = Counter[tuple[Any, ...]]

SCALAR = {"number": pl.Int64, "text": pl.String}
KEYED = {f"{part} {name}": dtype for part in ("key", "value") for name, dtype in SCALAR.items()}


def is_keyed(case: dict[str, Any]) -> bool:
    """Whether the rows are [key, value]: they are if an operator reads the key."""
    return any(step["op"] in ("count", "distinct") for step in case["pipeline"])


def cells(value: Any) -> tuple[int | None, str | None]:
    return (value, None) if isinstance(value, int) else (None, json.dumps(value))


def encoded(delta: list[list[Any]], keyed: bool) -> pl.DataFrame:
    rows = [
        (*(cell for part in (row if keyed else [row]) for cell in cells(part)), diff) for row, diff in delta
    ]
    return pl.DataFrame(rows, schema={**(KEYED if keyed else SCALAR), "_diff": pl.Int64}, orient="row")


def javascript(text: str) -> pl.Expr:
    """An arithmetic expression over ``x``, the number."""
    parts: list[pl.Expr] = [
        eval(part.replace("===", "=="), {"x": pl.col("number")}) for part in text.split("&&")
    ]
    return reduce(lambda left, right: left & right, parts)


def built(case: dict[str, Any], sources: dict[str, Any]) -> Any:
    result = sources[case["input"]]
    for step in case["pipeline"]:
        match step:
            case {"op": "consolidate"}:
                pass
            case {"op": "concat", "with": other}:
                result = result.concat(sources[other])
            case {"op": "negate"}:
                result = result.negate()
            case {"op": "map", "expr": text}:
                result = result.with_columns(javascript(text).alias("number"))
            case {"op": "filter", "expr": text}:
                result = result.filter(javascript(text))
            case {"op": "count"}:
                result = result.group_by("key number", "key text").agg(pl.len().alias("count"))
            case {"op": "distinct", "by": path}:
                column, name = path.split(".")
                result = result.select(pl.col(f"{column} text").str.json_path_match(f"$.{name}")).unique()
            case {"op": "distinct"}:
                result = result.unique()
            case _:
                raise NotImplementedError(step)
    return result


def summed(frames: list[pl.DataFrame]) -> Sum:
    total: Sum = Counter()
    for frame in frames:
        for *row, diff in frame.drop("_epoch").iter_rows():
            total[tuple(row)] += diff
    return Counter({row: diff for row, diff in total.items() if diff})


def expected_rows(rows: list[list[Any]], counts: bool) -> list[tuple[Any, ...]]:
    """Rows [key, value] as ours; a count is a plain number."""
    return [(*cells(key), *([value] if counts else cells(value))) for key, value in rows]


@pytest.mark.skipif(not CASES, reason=NOT_BESIDE)
def test_all_cases_are_there() -> None:
    assert len(CASES) == 26


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["id"].removeprefix("d2mini/")) for case in CASES]
)
def test_case(case: dict[str, Any]) -> None:
    keyed = is_keyed(case)
    counts = case["pipeline"][-1]["op"] == "count"
    engine = ec.Engine()
    names = [case["input"], *(step["with"] for step in case["pipeline"] if "with" in step)]
    schema = KEYED if keyed else SCALAR
    sources = {name: engine.source(name, schema, kind="diffs", trusted=True) for name in names}
    view = engine.view("result", built(case, sources))
    reset = 0
    sent: list[tuple[str, pl.DataFrame]] = []
    checks = 0
    for step in case["steps"]:
        match step:
            case {"send": name, "delta": delta}:
                sent.append((name, encoded(delta, keyed)))
            case {"run": True}:
                with engine.epoch():
                    for name, frame in sent:
                        engine.push(name, frame)
                sent = []
            case {"reset_tracker": True}:
                reset = engine.epoch_number
            case {"expect_outputs_of_all_runs": deltas}:
                expected = summed([encoded(d, keyed).with_columns(_epoch=pl.lit(0)) for d in deltas])
                assert summed(list(view.deltas())) == expected
                checks += 1
            case {"expect_net_rows_since_reset": rows, "max_messages": most}:
                frames = list(view.deltas(since=reset))
                gone = [row[:-1] for row in expected_rows(rows, counts) if counts and row[-1] == 0]
                there = [row for row in expected_rows(rows, counts) if row[:-1] not in gone]
                assert {row for row, diff in summed(frames).items() if diff > 0} == set(there)
                assert not {row[:-1] for row in view.read().iter_rows()} & set(gone)
                assert sum(frame.height for frame in frames) <= most
                checks += 1
            case {"expect_countries": rows}:
                assert summed(list(view.deltas())) == {(country,): diff for country, diff in rows}
                checks += 1
            case _:
                raise NotImplementedError(step)
    assert checks
    assert not sent
