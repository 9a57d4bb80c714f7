"""The proof of a view: its calls repeated over retained rows, evaluated by polars, against the rows that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from evercurrent.core.data.columns.nulls import nulls_as
from evercurrent.core.data.errors import InputError, first_line
from evercurrent.core.data.schema import EPOCH, counted

from ...plan.declared_calls import NAMED, DeclaredCall, by_results, in_order
from .batch import DIFF, OF_EACH, Batch, Groups
from .merging import Closed
from .row_frames import is_among
from .windows import UnprovableError

CLOSE = 1e-9
"""Floats that differ by less than this part of them are equal: polars adds them up in another order."""

CLOSED_BEFORE = "they had closed, and their rows were purged, when rows came that would be merged into them"
"""The reason for which the bounds of windows are taken as they are kept; what is aggregated in them is compared."""

Rows = Callable[[], "pl.DataFrame | None"]
"""Gives rows with ``_diff``, or None where they are not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """The comparison of a view with its definition: true if they are equal.

    ``differences`` are the rows that would have to be added to the view, with ``_diff`` 1, or taken away, with -1, to have
    what the definition gives, and in ``_epoch`` the epoch from which on, null where that is not known; ``remarks`` are the reasons.
    ``over`` are the sources and views with whose rows it was evaluated, ``rows`` how many it gave. ``unproved`` are the
    windows that were left out, by the reason: those that wait for their trigger, and those for which rows came too late;
    and those that merge and had closed before, whose bounds are as they are kept.
    """

    view: str
    epoch: int
    rows: int
    over: tuple[str, ...]
    differences: pl.DataFrame = field(repr=False)
    unproved: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    remarks: tuple[str, ...] = ()

    @property
    def since(self) -> int | None:
        """The first epoch from which on a row differs; None if none does, or if it is not known."""
        first = self.differences.get_column(EPOCH).min() if self.differences.height else None
        return first if isinstance(first, int) else None

    def __bool__(self) -> bool:
        """Return whether what is kept is what the definition gives."""
        return not self.differences.height

    def __repr__(self) -> str:
        """Show what was compared, and what differs."""
        over = ", ".join(self.over) or "nothing"
        head = f"view {self.view!r} at epoch {self.epoch}: {counted(self.rows)} evaluated over {over}"
        left = [
            f"not proved, as {reason}: {_windows(rows)}"
            for reason, rows in self.unproved.items()
            if rows.height
        ]
        if self:
            return "\n".join([f"{head}: equal", *left, *self.remarks])
        since = "" if self.since is None else f", from epoch {self.since} on"
        height = self.differences.height
        differ = f"{counted(height)} {'differs' if height == 1 else 'differ'}{since}"
        return "\n".join([f"{head}: {differ}", f"{self.differences}", *left, *self.remarks])


@dataclass(frozen=True, slots=True, eq=False)
class Proofs(Mapping[str, Proof]):
    """The proofs of several views, by name: true if all are. ``refused`` are the views that cannot be proved, and why."""

    proofs: Mapping[str, Proof]
    refused: Mapping[str, str]

    def __getitem__(self, view: str) -> Proof:
        """Return the proof of a view."""
        return self.proofs[view]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the views that were proved."""
        return iter(self.proofs)

    def __len__(self) -> int:
        """Return how many views were proved."""
        return len(self.proofs)

    def __bool__(self) -> bool:
        """Return whether all views that were evaluated are equal to their definitions."""
        return all(self.proofs.values())

    def __repr__(self) -> str:
        """Show each proof, and why others are refused."""
        return "\n".join([*map(repr, self.proofs.values()), *self.refused.values()])


def _windows(rows: pl.DataFrame) -> str:
    first = ", ".join(f"{name} {value}" for name, value in rows.row(0, named=True).items())
    return f"window {first}" if rows.height == 1 else f"{rows.height:,} windows, {first} among them"


@dataclass(frozen=True, slots=True, eq=False)
class Unsettled:
    """The panes that do not follow from rows: those of windows with these values, by the reason; and their kept rows.

    ``names`` are the columns by which panes are those of these windows; without them all panes are.
    ``kept`` is None where the panes are not those of a view.
    """

    windows: Mapping[str, pl.DataFrame]
    names: Sequence[str]
    kept: pl.DataFrame | None
    closed_until: int | None = None
    """Up to which instant windows that merge have closed, which ended by then; None for other windows."""
    closed: pl.DataFrame | None = None
    """Those that did, by key and bounds; None where there is no view of them."""


@dataclass(frozen=True, slots=True)
class Named:
    """A source or a view, and its rows if they are kept."""

    name: str
    label: str
    rows: Rows
    event_time: str | None
    missing: str
    """Why there are none, and the way out."""


class Evaluation:
    """Repeats the calls that declared a view over batches of rows.

    ``named`` returns what is kept of a source or a view, None for any other value. Of a view its definition is evaluated; its kept rows stand in
    for it where that cannot be done, but not for the view that is proved.
    """

    def __init__(
        self,
        calls: Iterable[DeclaredCall],
        named: Callable[[Any], Named | None],
        unsettled: Callable[[Any], Unsettled | None] = lambda collection: None,
    ) -> None:
        self._calls = by_results(calls)
        self._named_of = named
        self._named: dict[int, Named] = {}
        self._values: dict[int, Any] = {}
        self.over: dict[str, None] = {}
        self._unsettled = unsettled
        self.unproved: dict[str, pl.DataFrame] = {}

    def of(self, view: Any) -> Batch:
        """Return the rows that the definition of a view gives.

        Raises:
            UnprovableError: it cannot be evaluated; it names the reason.
        """
        for value in in_order(self._calls, [view]):
            if (named := self._named_of(value)) is not None:
                self._named[id(value)] = named
            if id(value) in self._calls or named is not None:
                self._values[id(value)] = self._evaluated(id(value), is_proved=value is view)
        batch = self._values[id(view)]
        if isinstance(batch, UnprovableError):
            raise batch
        assert isinstance(batch, Batch), "a view is a collection"
        if batch.log:
            raise UnprovableError(_is_log(batch.log))
        return batch.consolidated()

    def _evaluated(self, value_id: int, *, is_proved: bool) -> Batch | Any:
        """Return the value of a call, of a source or view, or why there is none."""
        try:
            if value_id in self._calls:
                return self._again(self._calls[value_id])
            return self._kept(self._named[value_id])
        except UnprovableError as reason:
            if value_id in self._named and value_id in self._calls and not is_proved:
                try:
                    return self._kept(self._named[value_id])
                except UnprovableError:
                    return reason
            return reason

    def _again(self, call: DeclaredCall) -> Any:
        receiver = self._standing(call.receiver, logs=call.method in (NAMED, "latest"))
        if call.method == NAMED:
            return receiver
        args, kwargs = self._standing(call.args), self._standing(dict(call.kwargs))
        unsettled = (
            self._unsettled(call.result) if call.method in ("agg", "len", "latest", *OF_EACH) else None
        )
        if isinstance(receiver, Groups) and unsettled is not None and unsettled.closed_until is not None:
            receiver = receiver.around(Closed(unsettled.closed_until, unsettled.closed, self._closed_before))
        try:
            result = getattr(receiver, call.method)(*args, **kwargs)
        except UnprovableError:
            raise
        except Exception as error:  # Whatever polars or a user's function raises.
            raise UnprovableError(f"polars does not evaluate {call.method}: {first_line(error)}") from error
        if isinstance(result, Batch):
            declared = self._as_declared(result, call.result.schema)
            return declared if declared.log else self._settled(unsettled, declared)
        return result

    def _closed_before(self, windows: pl.DataFrame) -> None:
        self.unproved[CLOSED_BEFORE] = windows

    def _settled(self, unsettled: Unsettled | None, batch: Batch) -> Batch:
        """Return the panes, those that do not follow from rows as they are kept."""
        for reason, windows in {} if unsettled is None else unsettled.windows.items():
            if not windows.height:
                continue
            if unsettled is None or unsettled.kept is None:
                raise UnprovableError(f"{reason} in panes of which there is no view, {_windows(windows)}")
            self.unproved[reason] = windows
            kept_panes = unsettled.kept.select(batch.frame.columns)
            if unsettled.names:
                ours, theirs = (
                    is_among(frame.select(unsettled.names), windows.select(unsettled.names))
                    for frame in (batch.frame, kept_panes)
                )
                kept_panes = pl.concat([batch.frame.filter(~ours), kept_panes.filter(theirs)])
            batch = batch._of(kept_panes)
        return batch

    def _as_declared(self, result: Batch, schema: pl.Schema) -> Batch:
        """Return the rows with the types that they have in views, where polars has others for counts."""
        if result.schema == schema:
            return result
        if result.columns != schema.names():
            raise UnprovableError(
                f"polars gives the columns {result.columns}, and the view has {schema.names()}"
            )
        frame = result.frame.cast(pl.Schema({**schema, DIFF: pl.Int64()}))
        return Batch(frame, result.event_time, result.shift, result.windows, result.log)

    def _kept(self, named: Named) -> Batch:
        rows = named.rows()
        if rows is None:
            raise UnprovableError(named.missing)
        self.over[named.label] = None
        return Batch(rows, named.event_time).consolidated()

    def _standing(self, value: Any, *, logs: bool = False) -> Any:
        """Return a value with all collections in it replaced, of which ``logs`` may be logs of panes.

        Raises:
            UnprovableError: one of them cannot be evaluated, or is a log.
        """
        replacement = self._values.get(id(value))
        if isinstance(replacement, UnprovableError):
            raise replacement
        if isinstance(replacement, Batch) and replacement.log and not logs:
            raise UnprovableError(_is_log(replacement.log))
        if replacement is not None:
            return replacement
        if isinstance(value, dict):
            return {key: self._standing(each) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self._standing, value))
        return value


def differences(expected: Batch, contents: Batch) -> pl.DataFrame:
    """Return the changes from the kept rows to the expected ones; floats that are nearly equal are equal."""
    changed = expected.concat(contents.negate()).consolidated().frame
    floats = [name for name, dtype in expected.schema.items() if dtype.is_float()]
    if not floats or not changed.height:
        return changed
    others = [name for name in expected.columns if name not in floats]
    sides = [
        changed.filter(pl.col(DIFF) * sign > 0).with_columns(pl.col(DIFF) * sign).sort([*others, *floats])
        for sign in (1, -1)
    ]
    if sides[0].height != sides[1].height or not sides[0].select(*others, DIFF).equals(
        sides[1].select(*others, DIFF)
    ):
        return changed
    for name in floats:
        one, other = (side.get_column(name) for side in sides)
        if not one.is_null().equals(other.is_null()):
            return changed
        values = [nulls_as(0, column).cast(pl.Float64).to_numpy() for column in (one, other)]
        if not np.isclose(values[0], values[1], rtol=CLOSE, atol=0, equal_nan=True).all():
            return changed
    return changed.clear()


def _is_log(mode: str) -> str:
    return (
        f"a view of {mode} panes is a log of when they were emitted, which the rows do not show; prove a view of .latest(), or "
        'of .accumulate("retracting")'
    )


def proof(
    view: Any,
    epoch: int,
    evaluation: Evaluation,
    kept_rows: pl.DataFrame,
    choose: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows,
) -> Proof:
    """Return the proof of one view, of the rows that ``choose`` returns; from which epochs on rows differ is not in it.

    Raises:
        InputError: its definition cannot be evaluated; names the view, the reason and the way out.
    """
    try:
        expected = evaluation.of(view)
    except UnprovableError as reason:
        raise InputError(f"view {view.name!r} cannot be proved: {reason}") from reason
    over = tuple(sorted(evaluation.over))
    differing = differences(Batch(choose(expected.frame)), Batch(choose(kept_rows)))
    differing = differing.with_columns(pl.lit(None, pl.UInt64).alias(EPOCH))
    return Proof(view.name, epoch, expected.frame.height, over, differing, evaluation.unproved)


def first_epochs(
    differing: pl.DataFrame, keys: Sequence[str], epochs: Sequence[int], at: Callable[[int], pl.DataFrame]
) -> pl.DataFrame:
    """Return the differing rows with the first epoch in which their key differs, or the row if rows have no keys.

    ``at`` returns the rows that differ at an epoch; these differ at the last of the epochs. Cost: what ``at`` costs, a logarithmic number of times if all began in one epoch.
    """
    by = list(keys) or [name for name in differing.columns if name != EPOCH]
    differing_at: dict[int, pl.DataFrame] = {}
    dated_parts: list[pl.DataFrame] = []
    pending = [(differing.drop(EPOCH), 0, len(epochs) - 1)]
    while pending:
        rows, low, high = pending.pop()
        if not rows.height:
            continue
        if low == high:
            dated_parts.append(rows.with_columns(pl.lit(epochs[high], pl.UInt64).alias(EPOCH)))
            continue
        middle = (low + high) // 2
        if middle not in differing_at:
            differing_at[middle] = at(epochs[middle]).drop(EPOCH)
        there = (
            is_among(rows.select(by), differing_at[middle].select(by))
            if differing_at[middle].height
            else pl.repeat(False, rows.height, eager=True)
        )
        pending += [(rows.filter(there), low, middle), (rows.filter(~there), middle + 1, high)]
    return pl.concat(dated_parts).sort(EPOCH, maintain_order=True)
