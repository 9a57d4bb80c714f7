"""A circuit driven by hand, epoch by epoch: without an engine, so that its states can be taken away and given back."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eventtime.pipelines import Both, Run
from evercurrent.core.circuit.circuit import NodeId
from evercurrent.core.data.clock import END_OF_TIME, Epoch, Now
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.schema import DIFF
from evercurrent.core.operators.arrange import Materialize
from evercurrent.core.state.ledger import Ledger
from evercurrent.core.state.partitioning import Columns, Route
from evercurrent.core.state.protocol import State
from evercurrent.core.state.snapshot import Saved
from evercurrent.views.compiler.compiler import compile_plan
from evercurrent.views.plan.plan import Plan
from harness import frame_of_entries
from oracle import freeze
from strategies import Case

START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Step:
    """The input of one epoch: rows by source, watermarks by hand in microseconds, processing time, requests to fire windows."""

    rows: Mapping[str, pl.DataFrame]
    watermarks: Mapping[str, int] = field(default_factory=dict)
    at: int = 0
    fires: bool = False


class Driven:
    """The circuit of a plan, with states of its own. ``number`` is that of its last epoch, -1 before the first."""

    def __init__(self, plan: Plan, number: int = -1) -> None:
        self.plan = plan
        self.compiled = compile_plan(plan, Ledger(10_000))
        self.number = number
        self.circuit = self.compiled.circuit
        if number < 0:
            self.step(Step({}))

    @property
    def states(self) -> list[State]:
        """All states, each once."""
        return self.circuit.states

    @property
    def named(self) -> Iterator[tuple[str, State]]:
        """The states with the names of the nodes that keep them."""
        for node in self.circuit.nodes:
            for state in node.states:
                yield node.name, state

    def step(self, step: Step) -> list[pl.DataFrame]:
        """One epoch: the delta of every node."""
        self.number += 1
        for name, watermark in step.watermarks.items():
            self.compiled.clocks[name].promise(watermark)
        trackers = self.compiled.trackers.values() if step.fires else ()
        for tracker in trackers:
            tracker.signal(tracker.spine.merged().keys)
        now = Now(Epoch(self.number), START + timedelta(microseconds=step.at))
        arrived = {name: Delta(frame) for name, frame in step.rows.items()}
        evaluated = self.circuit.evaluate(now, arrived)
        self.circuit.commit(evaluated)
        for tracker in trackers:
            tracker.forget_signals()
        return [evaluated.deltas[NodeId(place)].frame for place in range(len(self.circuit.nodes))]

    def saved(self) -> list[Saved]:
        """What is kept of each state."""
        return [state.saved() for state in self.states]

    def contents(self) -> list[pl.DataFrame]:
        """What the views hold."""
        return [readable.contents() for readable in self.compiled.contents.values()]

    def output(self, name: str, deltas: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The delta of a view, of those of all nodes."""
        return deltas[self.compiled.outputs[self.plan.views[name]]]


def written(columns: pl.DataFrame) -> pl.DataFrame:
    """The columns as they come back from an uncompressed file: read only, and no copies."""
    table = columns.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    frame = pl.from_arrow(pa.ipc.open_file(sink.getvalue()).read_all(), rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema == columns.schema
    return frame


def as_columns(state: State, saved: Saved) -> Columns:
    """What is kept of a state as it comes back from files."""
    facts = json.loads(json.dumps(saved.facts, allow_nan=False))
    assert facts == saved.facts
    return [written(state.columns_of(piece)) for piece in saved.pieces], facts


def given_back(state: State, saved: Columns) -> None:
    """A state that is what was kept."""
    state.restore(Saved(tuple(map(state.piece_of, saved[0])), saved[1]))


def route_of(driven: Driven, state: State, keep_by: Sequence[str] | None = None) -> Route:
    """How a state is cut; that of a view by its rows, or by these columns."""
    for node in driven.circuit.nodes:
        if isinstance(node.operator, Materialize) and node.operator.spine is state:
            return Route("columns", tuple(node.operator.schema) if keep_by is None else tuple(keep_by))
    assert state.route is not None, "only what a view keeps has no route of its own"
    return state.route


# Random cases as steps


def steps_of(case: Case) -> list[Step]:
    columns = case.program.sources
    return [
        Step({name: frame_of_entries(columns[name], epoch.get(name, [])) for name in columns})
        for epoch in case.epochs
    ]


def plan_of(run: Run) -> Plan:
    return Both(run).engine._plan


def steps_in(run: Run) -> list[Step]:
    both, steps = Both(run), []
    for epoch in run.epochs:
        frame = both.frame(epoch)
        rows = frame if DIFF in frame.columns else frame.with_columns(pl.lit(1, pl.Int64).alias(DIFF))
        watermarks = {}
        if epoch.watermark is not None:
            inf = epoch.watermark == float("inf")
            watermarks["a"] = END_OF_TIME if inf else int((run.origin + epoch.watermark) * 1_000_000)
        at = (run.origin + epoch.at) * 1_000_000
        steps.append(Step({"a": rows}, watermarks, at, epoch.fires))
    return steps


def frame_bytes(frame: pl.DataFrame) -> bytes:
    """The frame, to be compared byte by byte."""
    stream = io.BytesIO()
    frame.rechunk().write_ipc_stream(stream)
    return stream.getvalue()


def value_bytes(frame: pl.DataFrame) -> bytes:
    """The values of a frame that was read out of states, to be compared byte by byte.

    Such a frame is cut out of columns of states, which are others after a restart: bits behind the last value, and whether
    each value is declared to be no null, are left open by Arrow and follow from these.
    """
    return frame_bytes(pl.DataFrame(frame.to_dict(as_series=False), frame.schema))


def counted(frames: Sequence[pl.DataFrame]) -> Counter[Any]:
    """The rows of deltas with the sums of their diffs, zeros left out."""
    total: Counter[Any] = Counter()
    for frame in frames:
        for *cells, diff in frame.iter_rows():
            total[tuple(map(freeze, cells))] += diff
    return Counter({row: diff for row, diff in total.items() if diff})


def parts(frame: pl.DataFrame, bucket: Callable[[pl.DataFrame], Any], buckets: int) -> list[pl.DataFrame]:
    """The rows of a frame by bucket."""
    numbers = np.asarray(bucket(frame))
    return [frame.filter(pl.Series(numbers == number)) for number in range(buckets)]
