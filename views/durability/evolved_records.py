"""The record of a checkpoint, rewritten as if its sources had always had their present columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evercurrent.core.data.columns.lossless import LossyValueError, exactly
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError
from evercurrent.core.data.schema import DIFF
from evercurrent.core.state.protocol import State

from ..checkpoint import Pieces, Saver
from ..checkpoint.commits import StateRecord
from ..compiler.builder import Compiled
from ..plan.plan import Plan
from ..plan.steadiness import steady_nodes
from .carried_states import CarriedState, carried_states, converted
from .evolution import EarlierPlan, SourceChange, earlier_plan, plan_without_versions

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """The effect of changed columns of sources on a checkpoint.

    ``carried`` are present states, by name, with the names of the states in the checkpoint from which they are made.
    ``reshaped`` are views with other rows or other columns: they begin anew, with all their rows.
    """

    changes: Mapping[str, SourceChange]
    record: Record
    carried: Mapping[str, tuple[str, CarriedState]]
    reshaped: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def description(self) -> str:
        """The changes in words, source by source."""
        changed = [f"source {name!r}: {change.description}" for name, change in self.changes.items()]
        return "; ".join(changed) or "functions have a version that had none"

    def restore(self, saver: Saver, pieces: Pieces, records: Mapping[str, StateRecord], where: str) -> None:
        """Restore the carried states. Cost: the states that are converted; unchanged ones cost nothing.

        Raises:
            CheckpointError: a piece is missing or damaged, or a value does not fit its new type.
        """
        for name, (before, carried) in self.carried.items():
            record = records.get(f"{before}/0")
            if record is None:
                continue
            if carried.is_same:
                saver.restore({f"{name}/0": carried.state}, {f"{name}/0": record})
                continue
            Saver(pieces).restore({before: carried.then}, {before: record})
            carried.state.restore(converted(carried, where))

    def arrived(self, source: str, delta: Delta) -> Delta:
        """Return the delta of a source with its present columns.

        Raises:
            CheckpointError: a value does not fit its new type.
        """
        if source not in self.changes:
            return delta
        change, frame = self.changes[source], delta.frame
        try:
            columns = [
                exactly(frame.get_column(name), dtype)
                if name in change.before
                else pl.Series(name, [None], dtype).new_from_index(0, frame.height)
                for name, dtype in change.after.items()
            ]
        except LossyValueError as lossy:
            raise CheckpointError(f"source {source!r}: {lossy} does not fit") from lossy
        return Delta(pl.DataFrame([*columns, frame.get_column(DIFF)]))


def evolved(
    record: Record,
    now: Record,
    plan: Plan,
    compiled: Compiled,
    names: Mapping[str, State],
    changes: Mapping[str, SourceChange],
    describe: Any,
) -> Evolution | None:
    """Return the effect on a checkpoint of changed sources, and of versions given to functions; None if there is none.

    ``names`` are the present states; ``describe`` returns the record and the states of another plan.
    """
    earlier = earlier_plan(plan, changes) if changes else None
    identities = {name: declared_view["identity"] for name, declared_view in record["views"].items()}
    earlier = plan_without_versions(earlier or plan, identities) or earlier
    if earlier is None:
        return None
    then, others = describe(earlier.plan, earlier.compiled)
    ours, theirs = ({id(state): name for name, state in each.items()} for each in (names, others))
    forms = dict(zip(record["states"], record["forms"], strict=True)) if "forms" in record else {}
    expected = dict(zip(then["states"], then["forms"], strict=True))
    carried: dict[str, tuple[str, CarriedState]] = {}
    for each in carried_states(plan, compiled, earlier):
        name, before = ours[id(each.state)], theirs[id(each.then)]
        if (
            before in record["states"]
            and forms.get(before, expected[before]) == expected[before]
            and name != before
        ):
            carried[name] = before, each
    views = [
        name
        for name, declared_view in record["views"].items()
        if name in then["views"]
        and name in now["views"]
        and declared_view["identity"] == then["views"][name]["identity"]
    ]
    written = _rewritten(record, now, then, changes, carried, views)
    return Evolution(changes, written, carried, tuple(_reshaped(plan, earlier, views)), earlier.failed)


def _reshaped(plan: Plan, earlier: EarlierPlan, views: Collection[str]) -> list[str]:
    steady = steady_nodes(plan, earlier.plan, earlier.places)
    return [
        name
        for name in views
        if plan.views[name] not in steady.rows
        or list(plan[plan.views[name]].schema.items())
        != list(earlier.plan[earlier.plan.views[name]].schema.items())
    ]


def _rewritten(
    record: Record,
    now: Record,
    then: Record,
    changes: Mapping[str, SourceChange],
    carried: Mapping[str, tuple[str, CarriedState]],
    views: Collection[str],
) -> Record:
    """Return the record with carried states under their present names and identities."""
    forms = dict(zip(now["states"], now["forms"], strict=True))
    were = dict(zip(record["states"], record["forms"], strict=True)) if "forms" in record else None
    removed_states = set(then["states"]) - set(now["states"])
    states = sorted({*(name for name in record["states"] if name not in removed_states), *carried})
    nodes = {before.partition(":")[0]: name.partition(":")[0] for name, (before, _) in carried.items()}
    sources = {
        name: {
            **now["sources"][name],
            "retained": now["sources"][name]["retained"] if was["retained"] else None,
        }
        if name in changes
        else was
        for name, was in record["sources"].items()
    }
    written = {
        **record,
        "sources": sources,
        "views": {
            name: now["views"][name] if name in views else was for name, was in record["views"].items()
        },
        "states": states,
        "holds": [nodes.get(each, each) for each in record["holds"]],
    }
    if were is not None:
        written["forms"] = [forms[name] if name in carried else were[name] for name in states]
    return written
