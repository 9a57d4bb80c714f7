"""Entries are sorted by both words of their keys, also where the first words of different keys are equal."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from evercurrent.core.data.columns.kernels import Keys, key_words
from evercurrent.core.data.schema import DIFF, Order
from evercurrent.core.state.entry_order import entry_order
from evercurrent.core.state.row_words import DeferredWords
from evercurrent.core.state.run import Layout, make_run

ENTRIES = st.lists(
    st.tuples(st.sampled_from([0, 7, 2**64 - 1]), st.integers(0, 2), st.integers(0, 5)), max_size=30
)


@given(entries=ENTRIES, descending=st.booleans())
def test_keys_whose_first_words_are_equal_are_kept_apart(
    entries: list[tuple[int, int, int]], descending: bool
) -> None:
    first, second = (np.array([entry[place] for entry in entries], np.uint64) for place in (0, 1))
    keys, values = Keys(first, second), [entry[2] for entry in entries]
    payload = pl.DataFrame({"x": values}, {"x": pl.Int64})
    order = (Order("x", descending=descending),)
    expected = sorted((one, two, -value if descending else value) for one, two, value in entries)

    def shown(index: list[int], rows: list[int]) -> list[tuple[int, int, int]]:
        words = zip(first[index].tolist(), second[index].tolist(), strict=True)
        return [(*each, -rows[row] if descending else rows[row]) for each, row in zip(words, index, strict=True)]  # fmt: skip

    rows = key_words(payload.get_columns(), payload.height)
    assert shown(entry_order(keys, payload, rows, order).tolist(), values) == expected
    layout = Layout(pl.Schema({"x": pl.Int64}), by_row=True, order=order)
    ones = {DIFF: np.ones(len(entries), np.int64)}
    for words in (rows, DeferredWords.of(payload)):
        run = make_run(layout, keys, payload, ones, words)
        kept = zip(run.keys.first.tolist(), run.keys.seconds().tolist(), run.payload["x"].to_list(), strict=True)  # fmt: skip
        assert list(kept) == [
            (one, two, -value if descending else value) for one, two, value in sorted(set(expected))
        ]
