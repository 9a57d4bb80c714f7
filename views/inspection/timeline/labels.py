"""Values as they are written at dots and panes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evercurrent.core.data.columns.json_texts import as_text, is_far, json_values


def labels(column: pl.Series) -> pl.Series:
    """Return the values of a column as short text: floats with four digits, lists and structs as JSON.

    >>> labels(pl.Series([2.0, 3.14159, None])).to_list()
    ['2', '3.142', 'null']
    >>> labels(pl.Series([[1, 2]])).to_list()
    ['[1,2]']
    """
    dtype, named = column.dtype, column.alias("value")
    if isinstance(dtype, pl.Duration) or is_far(column):
        written = as_text(column)
    elif dtype.is_float():
        written = named.round_sig_figs(4).cast(pl.String).str.strip_suffix(".0")
    elif isinstance(dtype, pl.Datetime):
        written = named.dt.to_string("%Y-%m-%d %H:%M:%S%.f").str.replace(r"\.0+$", "")
    elif dtype.is_nested():
        written = json_values(named)
    elif dtype == pl.Binary:
        written = named.bin.encode("hex")
    else:
        written = named.cast(pl.String)
    return written.fill_null("null").alias("label")


def key_labels(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Return the columns of a key as one text."""
    if not keys:
        return pl.Series("key", [""], pl.String).new_from_index(0, frame.height)
    parts = [labels(frame[key]).alias(str(place)) for place, key in enumerate(keys)]
    return pl.DataFrame(parts).select(key=pl.concat_str(pl.all(), separator=", ")).to_series()
