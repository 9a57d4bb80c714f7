"""Texts with bytes that are not UTF-8 are refused, as neither files nor Python can hold them.

Arrow and polars accept the bytes of a text column unchecked, and only a later read of the row would fail. polars' own check reads
all bytes of the buffers that a column shares with others: of a frame that is pushed slice by slice, those of the whole frame with
each slice. So of many large buffers only those that have texts are looked at, as far as these are ASCII.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from evercurrent.core.data.columns.json_texts import any_leaf
from evercurrent.core.data.errors import InputError

FEW = 256
"""Up to so many texts are decoded together, which takes less than the steps over Arrow's buffers."""

LARGE, LARGEST = 64, 256
"""Buffers are large that have more bytes than this for each text; of the largest ones each text is checked by itself."""

BLOCK = 1 << 15
"""How many texts are looked at together, so that intermediate results stay in the caches of a processor."""

INLINE = 12
"""Texts of up to this many bytes are held in Arrow's views themselves."""

NOT_ASCII = 0x8080808080808080
"""The bits of eight bytes that ASCII does not use."""

Words = npt.NDArray[np.uint32]


def require_utf8(where: str, frame: pl.DataFrame) -> None:
    """Check that every text, at any depth, is UTF-8. Cost: 5 us a column of text; 10 to 20 ns a text, and its bytes.

    Raises:
        InputError: names the column and the row.
    """
    columns = frame.get_columns()
    for column, is_nested in [(each, each.dtype.is_nested()) for each in columns if _has_texts(each)]:
        if any_leaf(column, _is_no_text) if is_nested else _is_no_text(column):
            raise InputError(
                f"{where}: column {column.name!r} holds bytes in row {_first_row(column)} that are not UTF-8 text; decode them "
                "with the encoding that they are in, or declare the column pl.Binary"
            )


def _has_texts(column: pl.Series) -> bool:
    """Return whether a column may hold texts, at some depth."""
    dtype = column.dtype
    return not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean)


def _is_no_text(column: pl.Series) -> bool:
    """Return whether a value of the column is not UTF-8; the bytes behind nulls do not matter."""
    if column.dtype == pl.Categorical:
        column = column.unique().cast(pl.String)
    if column.dtype != pl.String:
        return False
    if len(column) > FEW:
        try:
            _require_text(column)
            return False
        except (pl.exceptions.ComputeError, pa.ArrowInvalid):
            column = column.drop_nulls()  # The bytes behind nulls count for polars.
    texts = column.cast(pl.Binary).to_list()
    # No text goes on behind a line feed: together they are UTF-8 if each of them is.
    together = b"\n".join([text for text in texts if text is not None] if column.has_nulls() else texts)
    return first_odd_byte(together) is not None


def _require_text(column: pl.Series) -> None:
    """Check many texts at once.

    Raises:
        pl.exceptions.ComputeError, pa.ArrowInvalid: one of them is not UTF-8, or the bytes behind a null are not.
    """
    texts = column.to_arrow(compat_level=pl.CompatLevel.newest())
    size = sum([0 if buffer is None else buffer.size for buffer in texts.buffers()[2:]])
    if size > LARGE * len(column) and not column.has_nulls() and _are_ascii(texts):
        return
    if size <= LARGEST * len(column):
        column.cast(pl.Binary).cast(pl.String)
    else:
        texts.validate(full=True)


def _are_ascii(texts: pa.Array) -> bool:
    """Return whether texts, none of which is null, are seen to be ASCII, as are all bytes of the buffers between their first and last one.

    False where these have too many bytes.
    """
    _, views, *buffers = texts.buffers()
    words = np.frombuffer(views, "<u4").reshape(-1, 4)[texts.offset : texts.offset + len(texts)]
    used: set[int] = set()
    for start in range(0, len(words), BLOCK):
        numbers = _buffers_of(words[start : start + BLOCK])
        if numbers is None:
            return False
        used.update(numbers)
    held = [buffers[number] for number in used]
    if sum([buffer.size for buffer in held]) > LARGE * len(texts):
        return False
    return all(_is_ascii(np.frombuffer(buffer, np.uint8)) for buffer in held)


def _buffers_of(views: Words) -> range | None:
    """Return the buffers between the first and last one of some views; None if one of the texts that the views hold is not ASCII.

    A view is the number of bytes, the first four, and eight more, or four more, a buffer and a place in it.
    """
    counts, numbers = views[:, 0], np.ascontiguousarray(views[:, 2])
    is_short = counts <= INLINE
    if is_short.any():
        held = views[:, 1] | views[:, 3]
        held |= numbers
        held *= is_short
        if int(np.bitwise_or.reduce(held)) & NOT_ASCII:
            return None
        longer = is_short.argmin()
        if is_short[longer]:
            return range(0)
        numbers[is_short] = numbers[longer]
    return range(int(numbers.min()), int(numbers.max()) + 1)


def _is_ascii(held: npt.NDArray[np.uint8]) -> bool:
    words = held[: len(held) & -8].view(np.uint64)
    return not (
        int(np.bitwise_or.reduce(words, initial=0)) & NOT_ASCII or (held[8 * len(words) :] > 127).any()
    )


def first_odd_byte(data: bytes) -> int | None:
    """Return the place of the first byte that is not UTF-8 text; None where all of it is."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _first_row(column: pl.Series) -> int:
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        if any_leaf(column.slice(good, middle - good), _is_no_text):
            bad = middle
        else:
            good = middle
    return good
