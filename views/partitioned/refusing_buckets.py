"""The rows of an epoch over buckets, without those with which it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evercurrent.core.data.clock import Now
from evercurrent.core.data.halving import Span
from evercurrent.core.state.ledger import Refused

from ..epochs.refusing import Refusing
from .bucket_evaluator import BucketInput, BucketResult, SomeRows


class RefusingBuckets(Refusing[BucketInput, BucketResult]):
    """Evaluates epochs over buckets without the rows with which they fail.

    Those with which the first stage fails are refused by its tasks; here it is those with which a later one fails.
    """

    def rows_of(self, now: Now, taken_input: BucketInput) -> RowsOfBatch:
        """See ``Refusing``."""
        assert taken_input.rows is not None, "an epoch without rows is evaluated as it is"
        return RowsOfBatch(taken_input, taken_input.rows())

    def evaluate(self, now: Now, taken_input: BucketInput) -> BucketResult:
        """See ``Evaluator``."""
        if taken_input.rows is None:
            return self._evaluator.evaluate(now, taken_input)
        return super().evaluate(now, taken_input)


class RowsOfBatch:
    """The rows of an epoch over buckets: see ``Rows``."""

    alone: Sequence[Refused] = ()

    def __init__(self, taken_input: BucketInput, rows: SomeRows) -> None:
        self._taken_input = taken_input
        self._rows = rows

    @property
    def height(self) -> int:
        """See ``Rows``."""
        return self._rows.height

    def among(self, spans: Sequence[Span]) -> BucketInput:
        """See ``Rows``."""
        return replace(self._taken_input, arrive=lambda instant: self._rows.arrive(instant, spans))

    def refused(self, places: Sequence[int]) -> Sequence[Refused]:
        """See ``Rows``."""
        return self._rows.refused(places)
