"""Nothing is lost: what was pushed is in the contents or in the ledger, row for row."""

from collections import Counter

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import given

import evercurrent as ec
from harness import contents, frame_of_entries
from oracle import Bag, Row, freeze
from strategies import Entries, entries, rows, schemas


def net(batch: Entries) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for row, diff in batch:
        counts[tuple(map(freeze, row))] += diff
    return counts


@given(columns=schemas(), data=st.data())
def test_accepted_and_refused_add_up_to_what_was_pushed(
    columns: dict[str, pl.DataType], data: st.DataObject
) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", columns, kind="diffs"))
    pool = data.draw(st.lists(rows(columns), min_size=1, max_size=4))
    held: Counter[Row] = Counter()
    for epoch, batch in enumerate(data.draw(st.lists(entries(pool), max_size=6)), 1):
        engine.push("a", frame_of_entries(columns, batch))
        refused: dict[Row, int] = {}
        for row, diff in net(batch).items():
            accepted = max(diff, -held[row])
            held[row] += accepted
            if accepted != diff:
                refused[row] = diff - accepted
        assert contents(view) == Bag(columns, held)
        ledger = engine.ledger("a").filter(pl.col("_epoch") == epoch)
        assert Bag.of(ledger.select(*columns, "_diff")).counts == refused
        assert ledger.height == len(refused)


@given(columns=schemas(), data=st.data())
def test_a_strict_source_accepts_an_epoch_whole_or_not_at_all(
    columns: dict[str, pl.DataType], data: st.DataObject
) -> None:
    engine = ec.Engine()
    view = engine.view("v", engine.source("a", columns, kind="diffs", strict=True))
    pool = data.draw(st.lists(rows(columns), min_size=1, max_size=4))
    held = Bag(columns, {})
    for batch in data.draw(st.lists(entries(pool), max_size=6)):
        changed = held.concat(Bag(columns, net(batch)))
        frame = frame_of_entries(columns, batch)
        before = engine.epoch_number
        if any(diff < 0 for diff in changed.diffs):
            with pytest.raises(ec.RetractionError, match="'a'"):
                engine.push("a", frame)
            assert engine.epoch_number == before
        else:
            engine.push("a", frame)
            held = changed
        assert contents(view) == held
    assert engine.ledger().is_empty()
