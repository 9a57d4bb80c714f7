"""The proof of the views of a fork, whose states nobody changes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import physical, stack
from evercurrent.core.data.delta import Delta
from evercurrent.core.data.errors import CheckpointError, InputError
from evercurrent.core.data.schema import DIFF, EPOCH
from evercurrent.core.eventtime.triggers.window_columns import PENDING
from evercurrent.core.eventtime.windows.end_timers import closing

from ..compiler.builder import Compiled
from ..dataframe.source import Source
from ..inspection.open_windows import open_windows
from ..inspection.proving.proof import Evaluation, Named, Proof, Proofs, Unsettled, first_epochs, proof
from ..inspection.proving.sampling import Names, copied_from, keys_to_sample, of_sample
from ..inspection.tracing.stages import with_keys
from ..inspection.tracing.window_rows import late_rows
from ..plan.declared_calls import NAMED
from ..plan.nodes import BOUNDS, PlanId
from ..plan.plan import Plan
from ..plan.windowed import panes_of
from .published import Published
from .view import View

WAITING, LATE = "they wait for their trigger", "rows came too late for them"

ALL_TIME = pl.DataFrame({"of": ["all time"]})
"""Shown for a window that has neither keys nor bounds."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The epochs of a checkpoint that have a commit, and a function that returns a prover as of one of them."""

    epochs: Sequence[int]
    at: Callable[[int], Prover]
    has_views: bool = True
    """Whether it is known in which epochs the views began; otherwise all commits are assumed to have them."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """The scope of a proof: the rows as of an epoch (None: now), of a share of the keys (None: all)."""

    epoch: int | None = None
    share: float | None = None
    keys: Names = ()
    sources: Mapping[str, Names] | None = None


class Prover:
    """Proves views of a fork. ``now`` is the object that its origin had published when it was forked."""

    def __init__(
        self,
        plan: Plan,
        compiled: Compiled,
        views: Mapping[str, View],
        now: Published,
        earlier: Earlier | None,
    ) -> None:
        self._plan = plan
        self._compiled = compiled
        self._views = views
        self._now = now
        self._earlier = earlier
        self._kept = {id(view): view for view in views.values()}

    def proof(self, name: str, share: float | None = None) -> Proof:
        """Return the proof of a view, of a share of its keys if one is given, with the first epochs in which rows differ.

        Raises:
            InputError: it cannot be proved.
        """
        place, scope = self._plan.place_of(name), _Scope()
        if share is not None:
            keys = keys_to_sample(self._plan, place)
            sources = {
                self._plan.inputs[at].name: names
                for at, names in copied_from(self._plan, place, keys).items()
            }
            scope = _Scope(None, share, keys, sources)
        undated = self._proof(name, scope)
        return undated if undated else self._with_epochs(name, undated, scope)

    def proofs(self, share: float | None = None) -> Proofs:
        """Return the proofs of all views that can be proved."""
        proofs: dict[str, Proof] = {}
        refused: dict[str, str] = {}
        for name in self._views:
            try:
                proofs[name] = self.proof(name, share)
            except InputError as error:
                refused[name] = str(error)
        return Proofs(proofs, refused)

    def _proof(self, name: str, scope: _Scope) -> Proof:
        evaluation = Evaluation(self._plan.calls, lambda value: self._named(value, scope), self._unsettled)
        kept_rows = self._kept_rows(name, scope.epoch)
        if scope.share is None:
            return proof(self._views[name], self._now.epoch, evaluation, kept_rows)
        chosen = partial(of_sample, keys=scope.keys, share=scope.share)
        if any(self._views[name].schema[key].is_float() for key in scope.keys):
            # Values that differ by rounding alone are equal, and would not be in one sample.
            result = proof(self._views[name], self._now.epoch, evaluation, kept_rows)
            return replace(result, differences=chosen(result.differences))
        result = proof(self._views[name], self._now.epoch, evaluation, kept_rows, chosen)
        if result.rows or not result or not kept_rows.height:
            return result
        remark = f"no key of the view is in the sample, so that nothing is compared; its share, {scope.share}, has to be larger"
        return replace(result, remarks=(*result.remarks, remark))

    # From which epoch on

    def _with_epochs(self, name: str, undated: Proof, scope: _Scope) -> Proof:
        """Return the proof with the first epoch in which each row differs, as far as earlier epochs are kept."""
        epochs = self._epochs(name)
        if isinstance(epochs, str):
            remark = f"from which epoch on they differ is not known: {epochs}"
            return replace(undated, remarks=(*undated.remarks, remark))
        keys = self._plan.keys_of(self._plan.place_of(name))
        try:
            dated = first_epochs(
                undated.differences, keys, epochs, lambda epoch: self._differences_at(name, epoch, scope)
            )
        except (CheckpointError, InputError) as error:
            remark = f"from which epoch on they differ is not known: {error}"
            return replace(undated, remarks=(*undated.remarks, remark))
        remarks = [*undated.remarks]
        if self._earlier is not None:
            remarks.append(f"compared at the commits of epochs {', '.join(map(str, epochs))}")
        elif dated.get_column(EPOCH).max() == self._now.epoch:
            remarks.append(
                "where that is the last epoch, the deltas that were emitted up to it give the definition: the state has changed "
                "since without an epoch, or the epoch has changed it wrongly"
            )
        return replace(undated, differences=dated, remarks=tuple(remarks))

    def _epochs(self, name: str) -> list[int] | str:
        """Return the epochs at which the view can be compared, the last one included; or why there are no others."""
        now = self._now
        if self._earlier is not None:
            born = max(now.begins(name), 0) if self._earlier.has_views else 0
            return [*(epoch for epoch in self._earlier.epochs if born <= epoch < now.epoch), now.epoch]
        least = now.begins(name)
        for place in self._plan.behind(self._plan.place_of(name)) & self._plan.inputs.keys():
            source = self._plan.inputs[place].name
            if self._compiled.retained.get(source) is None:
                continue  # A view is used in its place.
            first_epoch = self._changes_known_from(place)
            if first_epoch is None:
                return (
                    f"the rows of source {source!r} are not kept by epoch; make the engine with Engine(record=True), or with a "
                    "checkpoint, whose commits are compared"
                )
            least = max(least, first_epoch - 1)
        return list(range(max(least, 0), now.epoch + 1))

    def _differences_at(self, name: str, epoch: int, scope: _Scope) -> pl.DataFrame:
        if epoch == self._now.epoch:
            return self._proof(name, scope).differences
        if self._earlier is not None:
            return self._earlier.at(epoch)._proof(name, scope).differences
        return self._proof(name, replace(scope, epoch=epoch)).differences

    def _changes_known_from(self, place: PlanId) -> int | None:
        """Return the first epoch whose changes of a source are kept, as all later ones are; None if they are not."""
        names = [name for name in self._plan.views_at(place) if name in self._views]
        if names:
            return self._now.begins(names[0]) + 1
        return self._now.log.complete_from if self._now.log.records_rows else None

    def _changes_after(self, place: PlanId, epoch: int) -> pl.DataFrame:
        """Return the changes of a source or view after an epoch."""
        schema = self._plan[place].schema
        names = [name for name in self._plan.views_at(place) if name in self._views]
        if names:
            frames = [frame for frame in self._now.deltas(names[0], epoch) if frame.height]
        else:
            recorded = self._now.log.rows(self._plan.inputs[place].name, schema)
            frames = [recorded.filter(pl.col(EPOCH) > epoch)]
        return stack([Delta.empty(schema).frame, *(frame.select(*schema, DIFF) for frame in frames)])

    # What is kept

    def _kept_rows(self, name: str, epoch: int | None) -> pl.DataFrame:
        """Return the rows of the view, or at an earlier epoch the sum of its deltas up to then."""
        rows = self._compiled.contents[name].emitted().frame
        if epoch is None or epoch == self._now.epoch:
            return rows
        place = self._plan.place_of(name)
        if (begins := self._now.begins(name)) < 0:
            frames = [
                frame
                for frame in self._now.deltas(name, begins)
                if frame.height and frame.item(0, EPOCH) <= epoch
            ]
            parts = [frame.select(*self._plan[place].schema, DIFF) for frame in frames]
            return Delta(stack([Delta.empty(self._plan[place].schema).frame, *parts])).consolidate().frame
        return _without(rows, self._changes_after(place, epoch))

    def _named(self, value: Any, scope: _Scope) -> Named | None:
        """Return a source or a view with its kept rows; None for any other value."""
        if isinstance(value, Source):
            return self._source(value, scope)
        view = self._kept.get(id(value))
        if view is None:
            return None
        return Named(
            view.name, f"view {view.name!r}", lambda: self._kept_rows(view.name, scope.epoch), None, ""
        )

    def _source(self, source: Source, scope: _Scope) -> Named:
        retained, place = self._compiled.retained.get(source.name), source._place

        def rows() -> pl.DataFrame | None:
            if retained is None:
                return None
            names, share = (scope.sources or {}).get(source.name), scope.share
            if names is None or share is None:
                frame = retained.changes().frame
                return (
                    frame if scope.epoch is None else _without(frame, self._changes_after(place, scope.epoch))
                )
            frame = retained.chosen(partial(of_sample, keys=names, share=share)).frame
            if scope.epoch is None:
                return frame
            return _without(frame, of_sample(self._changes_after(place, scope.epoch), names, share))

        return Named(
            source.name,
            f"source {source.name!r}",
            rows,
            source.event_time,
            f"source {source.name!r} does not retain its rows; declare it with retained=True before its first rows come",
        )

    def _unsettled(self, collection: Any) -> Unsettled | None:
        """Return the windows of a collection whose panes do not follow from its rows, with the panes that are kept."""
        place = panes_of(self._plan, collection._place)
        if place is None or (
            place not in self._compiled.trackers and self._plan.windowed[place].windowing.lateness is None
        ):
            return None
        grouped = self._plan.windowed[place]
        windows_by_reason: dict[str, pl.DataFrame] = {}
        window, lateness = grouped.windowing.window, grouped.windowing.lateness
        are_merging = window.session_gap is not None or window.merged_by_user
        names = list(grouped.keys) if are_merging else [
            *grouped.keys, *(name for name in BOUNDS if name in self._plan[place].schema and name not in grouped.keys)
        ]  # fmt: skip
        # Where all panes are of one key, it is shown of which windows they are.
        shown = names or [name for name in BOUNDS if name in self._plan[place].schema]
        if place in self._compiled.trackers:
            windows = open_windows(self._compiled, self._plan, place).named()
            is_pending = windows.state[PENDING] != 0
            pending = (
                windows.frame.filter(pl.Series(is_pending)) if shown else ALL_TIME.head(is_pending.sum())
            )
            windows_by_reason[WAITING] = _chosen(pending, shown)
        late = [
            pl.DataFrame(
                [
                    *with_keys(frame, grouped.key_columns),
                    *(frame.get_column(name) for name in shown if name in BOUNDS),
                ]
            )
            for frame in late_rows(self._plan, self._compiled, place)
            if all(key.copies is None or key.copies in frame.columns for key in grouped.key_columns)
        ]
        if late:
            windows_by_reason[LATE] = _chosen(pl.concat(late), shown)
        kept_panes = self._kept_panes(collection)
        if not (are_merging and lateness is not None):
            return Unsettled(windows_by_reason, names, kept_panes)
        now = self._compiled.trackers[place].clock.now
        last_panes = (
            self._last_panes(collection)
            if kept_panes is None or grouped.windowing.mode != "retracting"
            else kept_panes
        )
        if last_panes is None:
            return Unsettled(windows_by_reason, names, kept_panes, now - lateness)
        is_closed = closing(physical(last_panes.get_column(BOUNDS[1])), lateness) <= now
        closed = last_panes.filter(pl.Series(is_closed)).select(*grouped.keys, *BOUNDS)
        return Unsettled(windows_by_reason, names, kept_panes, now - lateness, closed)

    def _kept_panes(self, collection: Any) -> pl.DataFrame | None:
        """Return the rows of a view of a collection; None if there is none."""
        names = [
            name
            for name, view in self._views.items()
            for call in self._plan.calls
            if call.method == NAMED and call.receiver is collection and call.result is view
        ]
        return self._compiled.contents[names[-1]].emitted().frame if names else None

    def _last_panes(self, collection: Any) -> pl.DataFrame | None:
        """Return the rows of a view of the last panes of a collection; None if there is none."""
        views = [
            collection,
            *(
                call.result
                for call in self._plan.calls
                if call.method == NAMED and call.receiver is collection
            ),
        ]
        for call in self._plan.calls:
            if call.method == "latest" and any(call.receiver is view for view in views):
                panes = self._kept_panes(call.result)
                if panes is not None:
                    return panes
        return None


def _chosen(windows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return the keys and bounds of windows, each once."""
    return windows.select(names or windows.columns).unique(maintain_order=True)


def _without(rows: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Return rows as they were before these changes."""
    if not changes.height:
        return rows
    diffs = np.concatenate([rows.get_column(DIFF).to_numpy(), -changes.get_column(DIFF).to_numpy()])
    both = stack([rows.drop(DIFF), changes.drop(DIFF)])
    return Delta.of(both, diffs).consolidate().frame
