"""What a format of change messages is: it names in which columns messages come, and makes rows with diffs of them.

Texts of reasons are kept in checkpoints, so they never change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Mask
from evercurrent.core.data.errors import InputError, PlanError
from evercurrent.core.data.schema import DIFF, columns_are, listed

NO_BEFORE = (
    "the change has no row before it, which a source of kind 'diffs' takes back; have it sent (REPLICA IDENTITY FULL, full row images), "
    "or declare kind='upsert'"
)
NO_AFTER = "the change has no row after it; correct the message, and push it again"
ONLY_INSERTS = "the source only takes rows that are added; declare it with kind='diffs' or kind='upsert'"


@dataclass(frozen=True, slots=True)
class Changed:
    """The source that changes are for, as far as their format depends on it."""

    where: str
    schema: pl.Schema
    kind: str
    keys: tuple[str, ...]
    sequence: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Rows with ``_diff`` in the order of their messages, and the messages that are refused, by reason."""

    rows: pl.DataFrame
    refused: tuple[tuple[str, pl.DataFrame], ...] = ()
    first: int = 0
    """The place of the first message that is refused."""

    def require_all(self, where: str) -> None:
        """Check that no message is refused.

        Raises:
            InputError: one is; names it, and the reason.
        """
        if self.refused:
            raise InputError(f"{where}: message {self.first} of the batch: {self.refused[0][0]}")


class ChangeFormat(ABC):
    """A format of the messages in which changes of rows come: ``engine.source(..., format=)``.

    Messages are decoded where rows are checked, in the task that reads them, and refused ones go where rows do that do not fit.
    """

    __slots__ = ()

    @abstractmethod
    def require(self, into: Changed) -> None:
        """Check that changes of this format fit the source.

        Raises:
            PlanError: they do not.
        """

    @abstractmethod
    def arriving(self, into: Changed) -> pl.Schema:
        """Return the columns in which messages come."""

    @abstractmethod
    def is_optional(self, column: str) -> bool:
        """Return whether a column of ``arriving`` may be missing."""

    @abstractmethod
    def is_ignored(self, column: str) -> bool:
        """Return whether a column that is not one of ``arriving`` may be there."""

    @abstractmethod
    def decoded(self, into: Changed, messages: pl.DataFrame) -> Decoded:
        """Return the rows of messages that have all columns of ``arriving``."""

    def decoded_frame(self, into: Changed, frame: pl.DataFrame) -> Decoded:
        """Return the rows of the messages in a frame as it is pushed.

        Raises:
            InputError: a column is missing, or one too many.
        """
        return self.decoded(into, self.with_columns(into, frame))

    def with_columns(self, into: Changed, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame as it is pushed with the columns of ``arriving``, of whatever types.

        Raises:
            InputError: a column is missing, or one too many.
        """
        expected = self.arriving(into)
        missing = [name for name in expected if name not in frame.columns]
        if lacking := [name for name in missing if not self.is_optional(name)]:
            raise InputError(
                f"{into.where}: {columns_are(lacking)} missing, in which messages come; the frame has {listed(frame.columns)}: "
                f"{self.way_out}"
            )
        extra = [name for name in frame.columns if name not in expected and not self.is_ignored(name)]
        if extra:
            raise InputError(f"{into.where}: {columns_are(extra)} no part of a message; drop it")
        added = frame.with_columns(pl.lit(None, expected[name]).alias(name) for name in missing)
        return added.select(list(expected))

    @property
    @abstractmethod
    def way_out(self) -> str:
        """What to do with a frame that has other columns."""


def rows_of(
    sides: Sequence[tuple[pl.DataFrame, Mask, int]], schema: Iterable[str], bad: Mask
) -> pl.DataFrame:
    """Return the rows of the messages that are not bad, in the order of messages, and of sides within one.

    A side is a frame with a row for each message, which of these count, and their diff.
    """
    parts = []
    for number, (frame, counts, diff) in enumerate(sides):
        places = np.flatnonzero(counts & ~bad)
        order = pl.Series("", places * len(sides) + number, pl.Int64)
        part = frame.select(list(schema))[places]
        parts.append((part.with_columns(pl.lit(diff, pl.Int64).alias(DIFF)), order))
    together = pl.concat([part for part, _ in parts])
    return together[pl.concat([order for _, order in parts]).arg_sort()]


def refused_of(
    messages: pl.DataFrame, faults: Mapping[str, Mask]
) -> tuple[tuple[tuple[str, pl.DataFrame], ...], Mask, int]:
    """Return the messages with a fault by the first reason of each, which those are, and the place of the first."""
    remaining = np.ones(messages.height, np.bool_)
    by_reason: dict[int, tuple[str, pl.DataFrame]] = {}
    for reason, fault in faults.items():
        bad = np.flatnonzero(fault & remaining)
        if len(bad):
            by_reason[int(bad[0])] = (reason, messages[bad].with_columns(pl.lit(1, pl.Int64).alias(DIFF)))
            remaining[bad] = False
    first = min(by_reason, default=0)
    return tuple(by_reason[place] for place in sorted(by_reason)), ~remaining, first


def have_values(frame: pl.DataFrame) -> Mask:
    """Return which rows have a value in any column."""
    return np.asarray(frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy())


def require_changes(what: str, into: Changed, columns: Iterable[str]) -> None:
    """Check the columns whose values are of a message and not of a row.

    Raises:
        PlanError: one is not declared, or the source retracts rows, which have the values of earlier messages.
    """
    names = list(columns)
    if unknown := [name for name in names if name not in into.schema]:
        raise PlanError(
            f"{into.where}: {what}: column {listed(unknown)} is not declared; there are {listed(into.schema)}"
        )
    if names and into.kind == "diffs":
        raise PlanError(
            f"{into.where}: {what}: column {listed(names)} is of the message, and a row that is taken back came with another one; "
            "declare kind='upsert', or leave the column out"
        )
    if set(names) & set(into.keys):
        raise PlanError(
            f"{into.where}: {what}: column {listed(names)} is the key, which is of the row; leave it out"
        )
