"""A case run through the engine, and what is asserted of every view after every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.core.circuit.checked import Checked
from evercurrent.core.circuit.circuit import Circuit
from oracle import Bag, Row, freeze, rows_of, without
from strategies import Case, Entries, Epoch, Program


def frame_of_entries(columns: Mapping[str, Any], entries: Entries) -> pl.DataFrame:
    """Rows with diffs as a frame, in the order given, signs of zeros and all."""
    cells = list(zip(*(row for row, _ in entries), strict=True)) or [()] * len(columns)
    data = [
        pl.Series(name, list(column), dtype=dtype)
        for (name, dtype), column in zip(columns.items(), cells, strict=True)
    ]
    return pl.DataFrame([*data, pl.Series("_diff", [diff for _, diff in entries], dtype=pl.Int64)])


def contents(view: Any) -> Bag:
    """What a view holds now."""
    return Bag.of(view.read())


def summed(frames: Iterable[pl.DataFrame]) -> dict[Row, int]:
    """The sum of delta frames, zeros left out."""
    total: dict[Row, int] = {}
    for frame in frames:
        for *cells, diff in without(frame, ["_epoch"]).iter_rows():
            row = tuple(map(freeze, cells))
            total[row] = total.get(row, 0) + diff
    return {row: diff for row, diff in total.items() if diff}


def assert_consolidated(delta: pl.DataFrame, epoch: int) -> None:
    """A delta frame of one epoch: each row once, no zero, the reserved columns last."""
    assert delta.columns[-2:] == ["_epoch", "_diff"]
    assert delta.schema["_epoch"] == pl.UInt64
    assert delta.schema["_diff"] == pl.Int64
    assert delta.height, "an epoch that changes nothing has no delta"
    assert set(delta["_epoch"].to_list()) == {epoch}
    rows = rows_of(without(delta, ["_epoch", "_diff"]))
    assert len(set(rows)) == len(rows), f"a row stands twice in {delta}"
    assert 0 not in delta["_diff"].to_list(), f"a zero diff in {delta}"


def plus(*rows: Row) -> Entries:
    """Each row once more."""
    return [(row, 1) for row in rows]


def minus(*rows: Row) -> Entries:
    """Each row once less."""
    return [(row, -1) for row in rows]


Step = tuple[Entries | Epoch, Entries]
"""What is pushed (to source ``a``, or to each by name), and the delta that this must give."""


def check_steps(
    sources: Mapping[str, Mapping[str, Any]], plan: str, steps: Iterable[Step], *, trusted: bool = False
) -> None:
    """Push step by step and compare each delta, and the contents, with what is expected."""
    running = Running(Case(Program({n: dict(c) for n, c in sources.items()}, (f"v = {plan}",)), [], trusted))
    view = running.views["v"]
    total = summed(view.deltas())
    for number, (pushed, expected) in enumerate(steps, 1):
        epoch = running.push(pushed if isinstance(pushed, dict) else {"a": pushed})
        deltas = list(view.deltas(since=epoch - 1))
        for delta in deltas:
            assert_consolidated(delta, epoch)
        diffs = {tuple(map(freeze, row)): diff for row, diff in expected}
        assert len(diffs) == len(expected), "a row stands twice in what is expected"
        found = summed(deltas)
        assert found == diffs, f"step {number}: {pushed} gave {found}, not {diffs}"
        for row, diff in diffs.items():
            total[row] = total.get(row, 0) + diff
        assert contents(view).counts == {row: diff for row, diff in total.items() if diff > 0}


def circuit_of(engine: ec.Engine) -> Circuit:
    """The circuit behind an engine; it is final from the first epoch on."""
    return engine._current().circuit


def hold_to_contract(engine: ec.Engine) -> None:
    """Check the contract of operators at every node from now on."""
    for node in circuit_of(engine).nodes:
        node.operator = Checked(node.name, node.operator, node.states)


class Running:
    """An engine with the sources and views of a case."""

    def __init__(self, case: Case, *, is_checked: bool = True, **options: Any) -> None:
        self.case = case
        self.engine = ec.Engine(**options)
        self.sources = {
            name: self.engine.source(name, columns, kind="diffs", trusted=case.trusted)
            for name, columns in case.program.sources.items()
        }
        collections = case.program.run(self.sources)
        self.views = {name: self.engine.view(name, collections[name]) for name in case.program.views}
        if is_checked:
            hold_to_contract(self.engine)

    def push(self, epoch: Epoch) -> int:
        """All sources' entries as one epoch; a source without entries gets an empty frame."""
        columns = self.case.program.sources
        before = self.engine.epoch_number
        with self.engine.epoch():
            for name in columns:
                self.engine.push(name, frame_of_entries(columns[name], epoch.get(name, [])))
        assert self.engine.epoch_number == before + 1
        return self.engine.epoch_number

    def push_all(self) -> Running:
        for epoch in self.case.epochs:
            self.push(epoch)
        return self

    def contents(self) -> dict[str, Bag]:
        """The sum of all deltas of each view."""
        return {name: Bag(view.schema, summed(view.deltas())) for name, view in self.views.items()}


def check(case: Case) -> Running:
    """After every epoch and for every view: sum of deltas == contents == oracle; deltas are consolidated."""
    running = Running(case)
    totals: dict[str, dict[Row, int]] = {name: {} for name in running.views}
    for until in range(1 + len(case.epochs)):
        by_view = case.expected(until)  # First: of what is too large for the oracle, the engine gets nothing.
        epoch = running.push(case.epochs[until - 1]) if until else 0
        for name, expected in by_view.items():
            view = running.views[name]
            assert view.schema == expected.schema, name
            deltas = list(view.deltas(since=epoch - 1))
            assert len(deltas) <= 1
            for delta in deltas:
                assert_consolidated(delta, epoch)
            for row, diff in summed(deltas).items():
                totals[name][row] = totals[name].get(row, 0) + diff
            total = Bag(view.schema, totals[name])
            assert total == expected, f"after epoch {until}, {name}:\n deltas {total}\n oracle {expected}"
            read = view.read()
            held = Bag.of(read)
            assert held.counts == expected.part(1).counts, (
                f"after epoch {until}, {name}:\n reads {held}\n oracle {expected}"
            )
            assert read.schema == view.schema
    return running
