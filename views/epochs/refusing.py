"""An epoch that fails with some of its rows is evaluated without them, and they go to the ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from evercurrent.core.data.clock import Epoch, Now
from evercurrent.core.data.errors import InputError, RetractionError, first_line
from evercurrent.core.data.halving import Span, spans_together
from evercurrent.core.state.ledger import Ledger, Refused

from .choreography import Evaluator, Input, Result
from .run_events import LOG

NOT_COMPUTED = "the views cannot be computed with the row; correct the row, or the view, and push it again"
"""The reason of rows with which an epoch fails. It is kept in checkpoints, so its text never changes."""


def is_of_rows(error: Exception) -> bool:
    """Return whether an epoch may be evaluated without some of its rows after this error; for strict sources it is raised."""
    return isinstance(error, InputError) and not isinstance(error, RetractionError)


Input_co = TypeVar("Input_co", covariant=True)


class Rows(Protocol[Input_co]):
    """The rows of an epoch's input, in order, some of which can be left out.

    ``alone`` are those that have been left out before, as the epoch fails with each of them alone.
    """

    @property
    def alone(self) -> Sequence[Refused]:
        """Return the rows that are left out already."""
        ...

    @property
    def height(self) -> int:
        """Return the number of the others."""
        ...

    def among(self, spans: Sequence[Span]) -> Input_co:
        """Return the input with these rows only."""
        ...

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """Return these rows as they are refused."""
        ...


class Refusing(ABC, Generic[Input, Result]):
    """Evaluates epochs by another evaluator; rows with which that fails are left out, and staged for the ledger.

    First each row with which the epoch would fail whatever the others are. If it fails without them, as where a sum overflows,
    rows are taken in order as long as it does not. Which those are follows from the input and the states alone, so that an
    epoch that is evaluated again refuses the same ones. Cost: nothing as long as no epoch fails, and then for each bad row as
    many evaluations as the rows can be halved.
    """

    def __init__(self, evaluator: Evaluator[Input, Result], ledger: Ledger) -> None:
        self._evaluator = evaluator
        self._ledger = ledger

    @abstractmethod
    def rows_of(self, now: Now, taken_input: Input) -> Rows[Input]:
        """Return the rows of an input with which an epoch has failed."""

    def promise(self, taken_input: Input) -> None:
        """See ``Evaluator``."""
        self._evaluator.promise(taken_input)

    def evaluate(self, now: Now, taken_input: Input) -> Result:
        """See ``Evaluator``."""
        try:
            return self._evaluator.evaluate(now, taken_input)
        except InputError as error:
            if not is_of_rows(error):
                raise
            failure = error
        self._evaluator.discard()
        rows = self.rows_of(now, taken_input)
        spans, bad = [(0, rows.height)], list[int]()
        evaluated = self._tried(now, rows.among(spans)) if rows.alone else None
        if evaluated is None:
            if self._tried(now, rows.among([])) is None:
                self._evaluator.discard()
                raise failure
            spans, bad = spans_together(rows.height, lambda some: self._is_fine(now, rows, some))
            self._evaluator.discard()
            self._evaluator.promise(taken_input)
            evaluated = self._evaluator.evaluate(now, rows.among(spans))
        self.stage(now, [*rows.alone, *(rows.refused(bad) if bad else ())])
        LOG.warning(
            "epoch %d is evaluated without the rows with which it fails: %s", now.epoch, first_line(failure),
            extra={"event": "bad rows", "epoch": int(now.epoch), "error": type(failure).__name__},
        )  # fmt: skip
        return evaluated

    def stage(self, now: Now, refused: Iterable[Refused]) -> None:
        """Stage refused rows for the ledger."""
        for each in refused:
            self._ledger.stage(replace(each, epoch=Epoch(now.epoch)))

    def commit(self, evaluated: Result) -> None:
        """See ``Evaluator``."""
        self._evaluator.commit(evaluated)
        self._ledger.commit()  # Of a plan none of whose operators refuses rows, nothing else commits it.

    def discard(self) -> None:
        """See ``Evaluator``."""
        self._evaluator.discard()
        self._ledger.discard()

    def _is_fine(self, now: Now, rows: Rows[Input], spans: Sequence[Span]) -> bool:
        return self._tried(now, rows.among(spans)) is not None

    def _tried(self, now: Now, some_input: Input) -> Result | None:
        """Return the result of some rows; None if it fails with them."""
        self._evaluator.discard()
        self._evaluator.promise(some_input)
        try:
            return self._evaluator.evaluate(now, some_input)
        except InputError as error:
            if not is_of_rows(error):
                raise
            return None
