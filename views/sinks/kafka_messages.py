"""The messages of Kafka that stand for the deltas of a view: each change, or for each key its row or a tombstone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from evercurrent.core.data.columns.json_texts import has_bytes, json_rows
from evercurrent.core.data.errors import SinkError

from .net_changes import net_change

Mode = Literal["changes", "upserts"]

MODES = ("changes", "upserts")

KEY, VALUE = "key", "value"
"""The columns of messages: JSON objects as text, of which either may be null."""

BEFORE_ALL = -1


def messages_of(delta: pl.DataFrame, keys: Sequence[str], mode: Mode) -> pl.DataFrame:
    """Return the messages of the delta of one epoch, in the order in which they are sent.

    With "changes" each row is a message, with ``_epoch`` and ``_diff``: retractions first, so that of a key the row that is
    there now comes last. With "upserts" each key whose row has changed is a message: its row, or null if it has none now.

    >>> delta = pl.DataFrame({"ip": ["a", "b", "a"], "n": [2, 1, 1], "_epoch": 7, "_diff": [1, -1, -1]})
    >>> messages_of(delta, ["ip"], "upserts").rows()
    [('{"ip":"a"}', '{"ip":"a","n":2}'), ('{"ip":"b"}', None)]
    >>> messages_of(delta, ["ip"], "changes")["value"][2]
    '{"ip":"a","n":2,"_epoch":7,"_diff":1}'
    """
    if mode == "changes":
        ordered = delta.sort("_diff", maintain_order=True)
        return _messages(ordered, keys, json_rows(ordered))
    change = net_change(delta, keys, BEFORE_ALL)
    tombstones = pl.Series(VALUE, [None] * change.gone.height, pl.String)
    return pl.concat(
        [_messages(change.now, keys, json_rows(change.now)), _messages(change.gone, keys, tombstones)]
    )


def _messages(rows: pl.DataFrame, keys: Sequence[str], values: pl.Series) -> pl.DataFrame:
    texts = json_rows(rows.select(keys)) if keys else pl.Series(KEY, [None] * rows.height, pl.String)
    return pl.DataFrame([texts.cast(pl.String).alias(KEY), values.cast(pl.String).alias(VALUE)])


def require_texts(place: str, schema: Mapping[str, pl.DataType]) -> None:
    """Check that JSON represents each value of these columns.

    Raises:
        SinkError: a column holds bytes; names it.
    """
    for name, dtype in schema.items():
        if has_bytes(dtype):
            raise SinkError(
                f"{place}: column {name!r} is {dtype}, which JSON cannot represent; cast it in the view, as with "
                f"pl.col({name!r}).bin.encode('base64')"
            )
