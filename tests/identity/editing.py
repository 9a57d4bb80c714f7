"""An application that is edited: two circuits, and states handed from the one to the other by what they are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

import evercurrent as ec
from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.spine import Spine
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.dataframe.accepted_rows import accepted
from evercurrent.views.dataframe.source import Source, declare
from evercurrent.views.durability.backfill import fill
from evercurrent.views.durability.carried_states import converted
from evercurrent.views.durability.plan_match import PlanMatch, check_plan, plan_record, state_ids
from harness import summed
from oracle import Row

Declare = Callable[["App"], None]
Frames = Mapping[str, Any]

OPTIONS: dict[str, Any] = {
    "kind": "append", "key": None, "event_time": None, "watermark": None, "bounded": False, "strict": False, "trusted": False,
}  # fmt: skip


class App:
    """Declared sources and views, and a circuit of them that is fed by hand."""

    def __init__(self, declare: Declare) -> None:
        self.engine = ec.Engine()
        self.sources: dict[str, Source] = {}
        declare(self)
        self.plan = self.engine._plan
        self.compiled = compile_plan(self.plan, Ledger(1000))
        self.epoch = 0
        self.emitted: dict[str, dict[Row, int]] = {name: {} for name in self.plan.views}

    def source(self, name: str, columns: Mapping[str, Any], **options: Any) -> Source:
        """Declare a source, with all options that there are."""
        self.sources[name] = declare(self.engine._plan, name, columns, **{**OPTIONS, **options})
        return self.sources[name]

    def view(self, name: str, collection: Any) -> Any:
        """Declare a view, and go on with what it is."""
        self.engine.view(name, collection)
        return collection

    def begin(self) -> App:
        """The epoch before any input."""
        self._step(Epoch(0), {})
        return self

    def push(self, frames: Frames) -> dict[str, dict[Row, int]]:
        """One epoch; the deltas of the views."""
        self.epoch += 1
        arrived = {name: accepted(self.sources[name], rows) for name, rows in frames.items()}
        return self._step(Epoch(self.epoch), arrived)

    def _step(self, epoch: Epoch, arrived: Mapping[str, Delta]) -> dict[str, dict[Row, int]]:
        circuit = self.compiled.circuit
        evaluated = circuit.evaluate(
            Now(epoch, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=epoch)), arrived
        )
        circuit.commit(evaluated)
        deltas = {
            name: rows_of(evaluated.deltas[self.compiled.outputs[place]])
            for name, place in self.plan.views.items()
        }
        for name, delta in deltas.items():
            self.emitted[name] = added(self.emitted[name], delta)
        return deltas

    def record(self) -> dict[str, Any]:
        """What a checkpoint keeps of the plan, written and read."""
        found: dict[str, Any] = json.loads(json.dumps(plan_record(self.plan, self.compiled), sort_keys=True))
        return found

    def contents(self, view: str) -> pl.DataFrame:
        """All rows of a view."""
        return self.compiled.contents[view].contents()


def rows_of(delta: Delta) -> dict[Row, int]:
    """The rows of a delta with their diffs, none of them zero."""
    return summed([delta.frame.with_columns(_epoch=pl.lit(0))])


def added(one: Mapping[Row, int], two: Mapping[Row, int]) -> dict[Row, int]:
    """The sum of two collections."""
    total = {row: one.get(row, 0) + two.get(row, 0) for row in {**one, **two}}
    return {row: diff for row, diff in total.items() if diff}


def matched(old: App, declare: Declare, drop: Collection[str] = ()) -> tuple[App, PlanMatch]:
    """The edited application over the states of the old one, before anything is filled."""
    new = App(declare)
    match = check_plan(old.record(), new.plan, new.compiled, drop)
    ours, theirs = state_ids(new.compiled), state_ids(old.compiled)
    carried = {} if match.evolution is None else match.evolution.carried
    for name in match.unchanged - carried.keys():
        ours[name].restore(theirs[name].saved())
    for before, state in carried.values():
        state.then.restore(theirs[before].saved())
        state.state.restore(theirs[before].saved() if state.is_same else converted(state, "test"))
    new.epoch = old.epoch
    return new, match


def edited(old: App, declare: Declare, drop: Collection[str] = ()) -> tuple[App, PlanMatch]:
    """The edited application over the states of the old one, new views filled."""
    new, match = matched(old, declare, drop)
    filled = fill(new.plan, new.compiled, match, new.compiled.retained)
    assert set(filled) == set(match.to_fill)
    for name in new.plan.views:
        new.emitted[name] = rows_of(filled[name]) if name in filled else old.emitted[name]
    return new, match


def assert_same(one: App, two: App) -> None:
    """Both hold the same: what views emitted and what can be read, and all states, entry by entry."""
    for name in two.plan.views:
        assert one.emitted[name] == two.emitted[name], name
        assert rows_of(positive(one, name)) == rows_of(positive(two, name)), name
    ours, theirs = state_ids(one.compiled), state_ids(two.compiled)
    assert ours.keys() == theirs.keys()
    for name, state in ours.items():
        other = theirs[name]
        if isinstance(state, Spine) and isinstance(other, Spine):
            assert entries(state) == entries(other), name


def positive(app: App, name: str) -> Delta:
    """The rows of a view as a delta."""
    rows = app.contents(name)
    return Delta(rows.with_columns(pl.lit(1, pl.Int64).alias("_diff")))


def entries(spine: Spine) -> dict[str, dict[str, int]]:
    """What a state holds, whatever runs it is made of: for each key with its row, what adds up there."""
    run = spine.merged()
    rows = run.payload.rows() if run.payload.width else [()] * len(run)
    total: dict[str, Counter[str]] = {}
    words = list(zip(run.keys.first.tolist(), run.keys.seconds().tolist(), strict=True))
    if run.payload.width and not spine.layout.by_row:
        # The payload holds it all; the words of rows of sessions hold when they came.
        words = [(0, 0)] * len(run)
    for place, key in enumerate(zip(words, rows, strict=True)):
        counted = total.setdefault(repr(key), Counter())
        for name, column in run.sums.items():
            counted[name] += int(column[place])
    # Sums of limbs are numbers modulo 2^64.
    kept = {key: {name: sum_ for name, sum_ in found.items() if sum_ % 2**64} for key, found in total.items()}
    return {key: found for key, found in kept.items() if found}
