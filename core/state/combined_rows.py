"""Changes are consolidated before they are sent to a state that is the sum of them, where equal rows are many."""

from __future__ import annotations

import numpy as np

from ..data.columns.kernels import key_words
from ..data.delta import Delta

FEW = 256
"""So few rows are sent as they are: consolidating them costs more."""

SAMPLE = 1_024
"""About how many rows are compared to estimate how many different ones there are."""


def consolidated_if_fewer(delta: Delta) -> Delta | None:
    """Return the change consolidated if that seems to leave at most half of its rows; None if it does not.

    Of a sample of ``n`` rows about ``n * n / 2d`` are equal to an earlier one if there are ``d`` different ones, as long as
    these are many. The estimate decides about the work alone, as the sums are the same.
    """
    if delta.is_consolidated or delta.height <= FEW:
        return None
    places = np.arange(0, delta.height, -(-delta.height // SAMPLE))
    sample = [column.gather(places) for column in delta.rows.get_columns()]
    equal = len(places) - len(np.unique(key_words(sample, len(places)).first))
    are_many = 2 * equal >= len(places) or equal * delta.height >= len(places) ** 2
    return delta.consolidate() if are_many else None
