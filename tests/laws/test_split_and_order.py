"""How input is cut into batches, and in which order it comes, changes no final result."""

import random
from collections.abc import Sequence

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import assume, given, settings

import evercurrent as ec
from harness import Running, frame_of_entries
from oracle import Bag, TooLargeError
from strategies import Case, Entries, Epoch, cases, of_profile
from thinned import IS_LONG


def final(case: Case, epochs: Sequence[Epoch]) -> dict[str, Bag]:
    return Running(Case(case.program, list(epochs), trusted=True)).push_all().contents()


def one_by_one(epochs: Sequence[Epoch], shuffle: random.Random | None = None) -> list[Epoch]:
    singles = [{name: [entry]} for epoch in epochs for name, entries in epoch.items() for entry in entries]
    if shuffle is not None:
        shuffle.shuffle(singles)
    return singles


def all_at_once(epochs: Sequence[Epoch]) -> list[Epoch]:
    together: Epoch = {}
    for epoch in epochs:
        for name, entries in epoch.items():
            together[name] = [*together.get(name, []), *entries]
    return [together]


@of_profile(quick=40)
@given(case=cases(max_epochs=4), seed=st.integers(0, 2**32))
def test_one_epoch_or_one_row_at_a_time(case: Case, seed: int) -> None:
    # Entries one by one may pass below zero on the way, so the sources are trusted.
    splits = [all_at_once(case.epochs), one_by_one(case.epochs)]
    signed_on_the_way = one_by_one(case.epochs, random.Random(seed))
    try:
        case.expected()
    except TooLargeError:
        assume(False)
    expected = final(case, case.epochs)
    for split in [*splits, signed_on_the_way]:
        assert final(case, split) == expected


AWKWARD = [
    1e300,
    -1e300,
    1e-300,
    0.1,
    0.2,
    0.3,
    1 / 3,
    -1e16,
    1.0,
    5e-324,
    2.0**53,
    -(2.0**53),
    1e308,
    1e308,
    -1e308,
]
AGGS = [
    pl.col("x").sum().alias("sum"),
    pl.col("x").mean().alias("mean"),
    pl.col("x").var().alias("var"),
    pl.col("x").std().alias("std"),
    pl.col("x").median().alias("median"),
    (pl.col("x") * 0.1).sum().alias("tenth"),
]


def bits(frame: pl.DataFrame) -> list[tuple[str, ...]]:
    """Cells as written in hexadecimal: equal if and only if the bits are (all NaN alike)."""
    return sorted(
        tuple("null" if cell is None else float(cell).hex() for cell in row) for row in frame.iter_rows()
    )


def sums_of(batches: Sequence[Entries]) -> list[tuple[str | None, ...]]:
    engine = ec.Engine()
    columns = {"k": pl.Int64(), "x": pl.Float64()}
    source = engine.source("a", columns, kind="diffs", trusted=True)
    by_key = engine.view("by key", source.group_by("k").agg(*AGGS))
    overall = engine.view("overall", source.group_by().agg(*AGGS))
    for batch in batches:
        engine.push("a", frame_of_entries(columns, batch))
    return bits(pl.concat([by_key.read().drop("k"), overall.read()]))


@settings(
    max_examples=settings().max_examples // 10
)  # Numbers from end to end of the range: some 60 limbs each.
@given(
    given_rows=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(AWKWARD) | st.floats(allow_nan=False)), max_size=12
    ),
    noise=st.lists(st.tuples(st.integers(0, 1), st.floats()), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_float_aggregates_are_bit_equal_however_the_rows_came(
    given_rows: list[tuple[int, float]], noise: list[tuple[int, float]], seed: int
) -> None:
    shuffle = random.Random(seed)
    whole: Entries = [(row, 1) for row in given_rows]
    # The same rows among others that come and go again.
    scattered = [*whole, *((row, 1) for row in noise), *((row, -1) for row in noise)]
    shuffle.shuffle(scattered)
    expected = sums_of([whole])
    assert sums_of([[entry] for entry in scattered]) == expected
    middle = len(scattered) // 2
    assert sums_of([scattered[:middle], [], scattered[middle:]]) == expected


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_a_thousand_epochs_or_one(size: int) -> None:
    """In the quick profile of one row two hundred and fifty: those of seven pile up to as large runs."""
    shuffle = random.Random(7)
    number = 250 if size == 1 and not IS_LONG else 1000
    entries: Entries = [
        ((shuffle.randrange(20), shuffle.random()), shuffle.choice([1, 1, -1])) for _ in range(number)
    ]
    assert sums_of([entries[at : at + size] for at in range(0, number, size)]) == sums_of([entries])
