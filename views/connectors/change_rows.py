"""Changes that come as rows: those before and after in columns side by side, and Delta's change data feed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Mask
from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import EPOCH, listed
from evercurrent.core.data.tags import tagged

from .change_formats import ONLY_INSERTS, Changed, ChangeFormat, Decoded, have_values, refused_of, rows_of

NEITHER = "the change has a row neither before nor after it; correct it, and push it again"
OTHER_TYPE = "_change_type is none of insert, update_preimage, update_postimage and delete; correct it, and push it again"

CHANGE_TYPE = "_change_type"
"""The column in which Delta's change data feed marks what a row is."""

CHANGE = "_change"
"""The column in which change rows of a view have the same."""

COMMIT_COLUMNS = ("_commit_version", "_commit_timestamp")
"""Columns of that feed that a source may declare."""


@tagged("views.connectors:BeforeAfter")
@dataclass(frozen=True, slots=True)
class BeforeAfter(ChangeFormat):
    """Changes as rows that have each column twice: before the change, and after it.

    A side of which all columns are null is not there: the change is an insert without the row before, a delete without the
    row after. A source of kind "diffs" takes the row before back and adds the one after; one of kind "upsert" takes the row after,
    deletes the key without one, and the key before if an update has changed it.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> pets = engine.source("pets", {"id": pl.Int64, "name": pl.String}, kind="diffs", format=ec.BeforeAfter())
    >>> now = engine.view("now", pets)
    >>> _ = pets.push([
    ...     {"before_id": None, "before_name": None, "after_id": 1, "after_name": "Rex"},
    ...     {"before_id": 1, "before_name": "Rex", "after_id": 1, "after_name": "Max"},
    ... ])
    >>> now.read().rows()
    [(1, 'Max')]

    Args:
        before: what the names of columns before the change begin with.
        after: what those after it begin with; the two differ.
    """

    before: str = "before_"
    after: str = "after_"

    def __post_init__(self) -> None:
        for name, prefix in (("before", self.before), ("after", self.after)):
            if not isinstance(prefix, str):
                raise PlanError(
                    f"BeforeAfter: {name}={prefix!r}; give the text with which names of columns begin"
                )
        if self.before == self.after:
            raise PlanError(
                f"BeforeAfter: both sides begin with {self.before!r}; give each a prefix of its own"
            )

    def require(self, into: Changed) -> None:
        """See ``ChangeFormat.require``."""
        names = [f"{prefix}{name}" for prefix in (self.before, self.after) for name in into.schema]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise PlanError(
                f"{into.where}: column {listed(twice)} would be one of both sides; give other prefixes"
            )

    def arriving(self, into: Changed) -> pl.Schema:
        """See ``ChangeFormat.arriving``."""
        sides = (self.before, self.after)
        return pl.Schema({f"{side}{name}": dtype for side in sides for name, dtype in into.schema.items()})

    def is_optional(self, column: str) -> bool:
        """See ``ChangeFormat.is_optional``."""
        return False

    def is_ignored(self, column: str) -> bool:
        """See ``ChangeFormat.is_ignored``."""
        return False

    @property
    def way_out(self) -> str:
        """See ``ChangeFormat.way_out``."""
        return f"name columns as in {self.before}id and {self.after}id, or give BeforeAfter(before=..., after=...)"

    def decoded(self, into: Changed, messages: pl.DataFrame) -> Decoded:
        """See ``ChangeFormat.decoded``."""
        before, after = (
            messages.select(pl.col(f"{side}{name}").alias(name) for name in into.schema)
            for side in (self.before, self.after)
        )
        has_before, has_after = have_values(before), have_values(after)
        faults = {NEITHER: ~has_before & ~has_after}
        if into.kind == "append":
            faults[ONLY_INSERTS] = has_before
        takes_back = has_before
        if into.kind == "upsert":
            takes_back = has_before & (~has_after | other_keys(before, after, into.keys))
        refused, bad, first = refused_of(messages, faults)
        return Decoded(
            rows_of([(before, takes_back, -1), (after, has_after, 1)], into.schema, bad), refused, first
        )


def other_keys(before: pl.DataFrame, after: pl.DataFrame, keys: tuple[str, ...]) -> Mask:
    """Return where two frames of as many rows have different keys, of which the first has no null."""
    other = np.zeros(before.height, np.bool_)
    whole = np.ones(before.height, np.bool_)
    for name in keys:
        other |= before[name].ne_missing(after[name]).to_numpy()
        whole &= before[name].is_not_null().to_numpy()
    return other & whole


@tagged("views.connectors:ChangeFeed")
@dataclass(frozen=True, slots=True)
class ChangeFeed(ChangeFormat):
    """The change data feed of Delta Lake: rows with ``_change_type``; or the ``changes`` of a view, which name it ``_change``.

    ``insert`` and ``update_postimage`` add the row, ``update_preimage`` and ``delete`` take it back. It is for a source of kind
    "diffs", for which the order of rows does not matter: Delta orders commits, and not the rows of one.

    >>> import evercurrent as ec
    >>> import polars as pl
    >>> engine = ec.Engine()
    >>> pets = engine.source("pets", {"id": pl.Int64, "name": pl.String}, kind="diffs", format=ec.ChangeFeed())
    >>> now = engine.view("now", pets)
    >>> _ = pets.push([
    ...     {"id": 1, "name": "Rex", "_change_type": "insert", "_commit_version": 1},
    ...     {"id": 1, "name": "Rex", "_change_type": "update_preimage", "_commit_version": 2},
    ...     {"id": 1, "name": "Max", "_change_type": "update_postimage", "_commit_version": 2},
    ... ])
    >>> now.read().rows()
    [(1, 'Max')]
    """

    def require(self, into: Changed) -> None:
        """See ``ChangeFormat.require``."""
        if CHANGE_TYPE in into.schema:
            raise PlanError(
                f"{into.where}: column {CHANGE_TYPE!r} is of the message and not of the row; leave it out"
            )
        if into.kind == "upsert":
            raise PlanError(
                f"{into.where}: format=ChangeFeed() has rows before and after a change, and those of one commit have no order, so that "
                "the last row of a key is unknown; declare kind='diffs', which needs none"
            )
        if into.kind == "diffs" and (both := [name for name in COMMIT_COLUMNS if name in into.schema]):
            raise PlanError(
                f"{into.where}: column {listed(both)} is of the commit, and a row that is taken back came with another one; "
                "leave the column out"
            )

    def arriving(self, into: Changed) -> pl.Schema:
        """See ``ChangeFormat.arriving``."""
        return pl.Schema({**into.schema, CHANGE_TYPE: pl.String()})

    def is_optional(self, column: str) -> bool:
        """See ``ChangeFormat.is_optional``."""
        return False

    def is_ignored(self, column: str) -> bool:
        """See ``ChangeFormat.is_ignored``."""
        return column in (*COMMIT_COLUMNS, EPOCH)

    def with_columns(self, into: Changed, frame: pl.DataFrame) -> pl.DataFrame:
        """See ``ChangeFormat.with_columns``; rows of ``view.changes()`` have another name for the kind of change."""
        if CHANGE in frame.columns and CHANGE not in into.schema and CHANGE_TYPE not in frame.columns:
            frame = frame.rename({CHANGE: CHANGE_TYPE})
        return ChangeFormat.with_columns(self, into, frame)

    @property
    def way_out(self) -> str:
        """See ``ChangeFormat.way_out``."""
        return "read the table with option readChangeFeed, and select the declared columns and _change_type, which view.changes() names _change"

    def decoded(self, into: Changed, messages: pl.DataFrame) -> Decoded:
        """See ``ChangeFormat.decoded``."""
        types = messages.get_column(CHANGE_TYPE).cast(pl.String)
        adds = types.is_in(["insert", "update_postimage"]).fill_null(value=False).to_numpy()
        replaced = types.eq_missing("update_preimage").to_numpy()
        deleted = types.eq_missing("delete").to_numpy()
        faults = {OTHER_TYPE: ~adds & ~replaced & ~deleted}
        if into.kind == "append":
            faults[ONLY_INSERTS] = ~types.eq_missing("insert").to_numpy()
        refused, bad, first = refused_of(messages, faults)
        sides = [(messages, replaced | deleted, -1), (messages, adds, 1)]
        return Decoded(rows_of(sides, into.schema, bad), refused, first)
