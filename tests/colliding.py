"""Words of keys of which the first ones collide, as those of no two keys do in a lifetime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from evercurrent.core.data.columns.kernels import Keys, is_one_word, key_words


def colliding(columns: Sequence[pl.Series], height: int, routed: int = 0) -> Keys:
    """Return key words of which the first of a hash takes one of three values, the last word among them."""
    words = key_words(columns, height, routed)
    if not columns or is_one_word([column.dtype for column in columns]):
        return words
    few = np.array([0, 1 << 63, 2**64 - 1], np.uint64)
    return Keys(few[(words.first % np.uint64(3)).view(np.int64)], words.seconds() ^ words.first)
