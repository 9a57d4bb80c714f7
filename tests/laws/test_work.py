"""The cost of an epoch follows the delta and the keys that it touches: not the state, and not the history.

Two measures that are independent of each other: the spines' own counters, and the entries that are expanded out of
runs to be read, counted from outside.
"""

import random
import statistics
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest

import evercurrent as ec
import evercurrent.core.operators.join as join_module
import evercurrent.core.state.lookup as reading_module
import evercurrent.core.state.ranked_runs as ranked_module
from harness import circuit_of
from strategies import evaluate
from thinned import IS_LONG

COLUMNS = {"k": pl.Int64, "x": pl.Int64}
SMALL, LARGE = 2**12, 2**16
PLANS = {
    "unique": "a.unique()",
    "sum": "a.group_by('k').agg(pl.len(), u=pl.col('x').sum())",
    "min": "a.group_by('k').agg(u=pl.col('x').min(), v=pl.col('x').max())",
    "distinct values": "a.group_by('k').agg(u=pl.col('x').n_unique())",
    "median": "a.group_by('k').agg(u=pl.col('x').median())",
    "one maximum of everything": "a.group_by().agg(u=pl.col('x').max())",
    "one sum of everything": "a.group_by().agg(u=pl.col('x').sum())",
    "top 3 of everything": "a.top_k(3, by='x')",
    "top 1 of each": "a.group_by('k').top_k(1, by='x')",
    "inner join": "a.join(b, on='k')",
    "left join": "a.join(b, on='k', how='left')",
    "full join": "a.join(b, on='k', how='full')",
    "semi join": "a.join(b, on='k', how='semi')",
    "anti join": "a.join(b, on='k', how='anti')",
    "self join": "a.join(a, on='k')",
    "chain": "a.group_by('k').agg(u=pl.col('x').max()).join(b, on='k').group_by(g=pl.col('u') % 100).agg(pl.len())",
}

ROUNDS = 5 if IS_LONG else 2
"""So many times twenty epochs more: two of them find entries that stay though they add up to zero."""


@dataclass
class Expanded:
    """How many entries were read out of runs."""

    entries: int = 0
    modules: list[Any] = field(default_factory=lambda: [reading_module, join_module, ranked_module])


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> Expanded:
    counted = Expanded()
    for module in counted.modules:
        original = module.expand

        def counting(lower: Any, upper: Any, original: Any = original) -> Any:
            counted.entries += int((upper - lower).sum())
            return original(lower, upper)

        monkeypatch.setattr(module, "expand", counting)
    return counted


def touched(engine: ec.Engine) -> int:
    return sum(state.touched for state in circuit_of(engine).states if hasattr(state, "touched"))


def loaded(text: str, size: int, *, batch: int | None = None) -> ec.Engine:
    """Groups of four rows in ``a``, one row per key in ``b``."""
    engine = ec.Engine()
    sources = {name: engine.source(name, COLUMNS, kind="diffs", trusted=True) for name in "ab"}
    engine.view("v", evaluate(text, sources))
    a = pl.DataFrame({"k": range(size), "x": range(size)}).with_columns(pl.col("k") // 4)
    engine.push("b", a.unique("k", keep="first", maintain_order=True))
    for rows in a.sample(fraction=1, shuffle=True, seed=1).iter_slices(batch or size):
        engine.push("a", rows)
    return engine


def small_epochs(engine: ec.Engine, size: int, count: int, expanded: Expanded) -> tuple[float, float]:
    """The work of an epoch of ten rows: the median of the counters, and of what was expanded."""
    draw = random.Random(3)
    work, reads = [], []
    for _ in range(count):
        # From the top end too, where minima, maxima and heads are.
        at = sorted(
            {draw.randrange(size) for _ in range(5)} | {size - 1 - draw.randrange(20) for _ in range(5)}
        )
        rows = pl.DataFrame({"k": [i // 4 for i in at], "x": at, "_diff": [draw.choice([1, -1]) for _ in at]})
        before = touched(engine), expanded.entries
        engine.push("a", rows)
        engine.push("a", rows.with_columns(-pl.col("_diff")))
        engine.push("b", rows.select("k", "x").head(2))
        work.append(touched(engine) - before[0])
        reads.append(expanded.entries - before[1])
    return statistics.median(work), statistics.median(reads)


@pytest.mark.parametrize("text", PLANS.values(), ids=PLANS)
def test_an_epoch_costs_the_same_over_sixteen_times_the_state(text: str, expanded: Expanded) -> None:
    small = small_epochs(loaded(text, SMALL), SMALL, 15, expanded)
    large = small_epochs(loaded(text, LARGE), LARGE, 15, expanded)
    assert large[0] <= 2 * small[0] + 100, f"counters {small[0]} -> {large[0]}"
    assert large[1] <= 2 * small[1] + 100, f"entries read {small[1]} -> {large[1]}"


@pytest.mark.parametrize("size", [LARGE, 4 * LARGE])
@pytest.mark.parametrize("kind", ["append", "diffs"])
def test_of_two_large_groups_a_median_reads_few_rows(kind: str, size: int, expanded: Expanded) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"x": pl.Float64}, kind=kind)  # type: ignore[arg-type]
    high = pl.col("x").quantile(0.95)
    by = {"g": pl.col("x") % 0.125 > 0.1}
    view = engine.view("v", source.group_by(**by).agg(pl.col("x").median(), high=high))
    draw = np.random.default_rng(3)
    values = draw.random(size)
    engine.push("s", {"x": values})
    work = []
    for at in range(30):
        rows = pl.DataFrame({"x": draw.random(5)})
        if kind == "diffs":
            gone = pl.DataFrame({"x": values[5 * at :][:5]})
            rows = pl.concat([rows.with_columns(_diff=1), gone.with_columns(_diff=-1)])
        before = touched(engine), expanded.entries
        engine.push("s", rows)
        assert view.lookup(True).height
        work.append((touched(engine) - before[0], expanded.entries - before[1]))
        merged = [state.version.merged for state in circuit_of(engine).states if hasattr(state, "version")]
        assert not any(len(whole) > size // 2 for runs in merged for whole in runs), (
            "a look-up merges no state"
        )
    # Two aggregates before and after the epoch and for a reader, and what an epoch of a few rows merges.
    most = 2 * 3 * (ranked_module.READ_AT_ONCE + 2 * ranked_module.NEAR) + 100
    for counts in zip(*work, strict=True):
        assert statistics.median(counts) <= most, counts


@pytest.mark.parametrize("size", [LARGE, 4 * LARGE])
def test_rows_at_the_end_of_counted_windows_read_no_others(size: int, expanded: Expanded) -> None:
    engine = ec.Engine()
    source = engine.source("s", {"k": pl.Int64, "t": pl.Datetime("us")}, event_time="t")
    engine.view("v", source.window(ec.count_window(5)).group_by("k").agg(pl.len()))
    every = pl.DataFrame({"k": np.arange(size + 300) % 2, "t": np.arange(size + 300) // 4})
    every = every.cast({"t": pl.Datetime("us")})
    engine.push("s", every.head(size))
    work = []
    for rows in every.tail(300).iter_slices(10):
        before = touched(engine), expanded.entries
        engine.push("s", rows)
        work.append((touched(engine) - before[0], expanded.entries - before[1]))
    # To find where the first window begins, and what an epoch of a few rows merges.
    for counts in zip(*work, strict=True):
        assert statistics.median(counts) <= ranked_module.READ_AT_ONCE + 2 * ranked_module.NEAR + 100, counts


@pytest.mark.parametrize(
    "text", ["a.unique()", "a.group_by('k').agg(u=pl.col('x').sum())", "a.top_k(3, by='x')"]
)
def test_a_row_takes_part_in_a_logarithmic_number_of_merges(text: str) -> None:
    costs = [touched(loaded(text, size, batch=512)) / size for size in (SMALL, LARGE)]
    # Sixteen times the rows are two more levels of merges, and a merge costs a row once.
    assert costs[1] <= costs[0] + 4, costs
    assert costs[1] < 20, costs


@pytest.mark.parametrize("text", PLANS.values(), ids=PLANS)
def test_neither_state_nor_work_grows_with_the_length_of_the_history(text: str, expanded: Expanded) -> None:
    engine = loaded(text, 256)
    early = small_epochs(engine, 256, 20, expanded)
    states = sum(state.entries for state in circuit_of(engine).states)
    for _ in range(ROUNDS):
        late = small_epochs(engine, 256, 20, expanded)
    # What is pushed into b is never retracted: two rows an epoch of three.
    pushed = 2 * 20 * ROUNDS * len(circuit_of(engine).states)
    assert sum(state.entries for state in circuit_of(engine).states) <= states + 2 * pushed
    assert late[1] <= 4 * early[1] + 400


def test_nothing_is_read_or_written_for_an_empty_epoch(expanded: Expanded) -> None:
    text = "a.join(b, on='k', how='full').group_by('x').agg(pl.col('k').min(), pl.len()).top_k(2, by='x')"
    engine = loaded(text, SMALL)
    before = touched(engine), expanded.entries, [state.entries for state in circuit_of(engine).states]
    engine.push("a", pl.DataFrame(schema=COLUMNS))
    assert (
        touched(engine),
        expanded.entries,
        [state.entries for state in circuit_of(engine).states],
    ) == before
