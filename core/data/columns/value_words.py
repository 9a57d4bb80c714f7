"""The hash by which keys are sorted, found and cut into buckets: two 64-bit words for each row, by its values alone.

It is our own, so that the words are the same in every process, on every machine and with every version of polars, and
persisted entries are found again. All arithmetic is modulo 2^64, and texts are read as little-endian words.

    item(x, place) = x += (place + 1) * SPREAD; x *= MIX_1; x ^= x >> 32; x *= MIX_2; x ^= x >> 32
    first          = sum of item(v, place) over the values of a row, from place 0 on, + their number
    second         = sum of (item(v, place) + (place + 1) * SPREAD + u)^2

A value is (v, u). Where it has 64 bits or fewer, v is the value and u is 0; a null is (``NULL_WORD``, ``NULL_WORD``). A
value of several parts is hashed as a row is, v being its first and u its second word: the parts of a struct are its
fields, of a list or array its items, of a text its bytes, eight at a time and the last ones filled up with zeros; to the
first word of a text or list its number of bytes or items is added.

Values that are equal in a key have equal words (null and null, -0.0 and 0.0, all NaN), and so does one number in columns
of different widths, be they integers or floats; instants are counted in the unit of their column.

It does not withstand keys that are constructed to collide (SECURITY.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .nulls import nulls_as, nulls_in
from .polars_versions import MAP, is_map, of_arrow
from .whole_columns import Ints, physical

Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]

Value = tuple[Words, Words | None]
"""The values of a column as (v, u); None: u is 0 throughout."""

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, odd: multiplying by it permutes the 64-bit words and spreads runs of integers."""

NULL_WORD = np.uint64(0xD1B54A32D192ED03)
"""The first word of a null: a word that hardly any integer has, so that the second word is rarely compared."""

MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Odd factors, those of splitmix64 (Steele et al., 2014): an item is a permutation of the words, and each bit depends on many."""

HALF, ONE = np.uint64(32), np.uint64(1)

BLOCK = 1 << 15
"""How many words are computed at a time, so that intermediate results stay in the caches of a processor."""

INLINE = 12
"""Texts of up to this many bytes are held in Arrow's views themselves."""

FEW, SIDE_BY_SIDE = 16, (1 << 16) - 1
"""While at least ``FEW`` texts have a further word, a word of each is taken at once, up to ``SIDE_BY_SIDE`` words of a text."""

FEW_TEXTS, FEW_LONG_TEXTS, FEW_WORDS = 128, 1024, 8
"""Up to so many texts, of up to so many words, are read as bytes of Python: that takes less than the steps over Arrow's buffers."""

BEYOND = 16
"""How many bytes beyond the end of a text are read where words of many texts are taken at once."""

STARTS = (np.arange(FEW_WORDS, dtype=np.uint64) * np.uint64(8))[:, None]
"""The first byte of each word of a text."""

MOST_WORDS = 1 << 14
"""How many words of one text are taken at a time where it is longer, or where there are few texts."""

PLACES = (np.arange(1, 1025, dtype=np.uint64) * SPREAD)[:, None]
"""The numbers added to values at the first places."""

NEWEST, OLDEST = pl.CompatLevel.newest(), pl.CompatLevel.oldest()

LEADING = np.array([(1 << (8 * count)) - 1 for count in range(8)] + [2**64 - 1], np.uint64)
"""The mask of the first bytes of a word, by their number."""


def row_words(columns: Sequence[pl.Series], height: int) -> tuple[Words, Words]:
    """Return the two words of each of ``height`` rows. Cost: some 3 ns a value, and 1 to 2 ns a byte of texts that are not short.

    Computed in the calling thread, without a query of polars; a column of another type than the plain ones costs one.
    """
    most = max(BLOCK // max(1, len(columns)), 1)
    if height <= most:
        return _of_values([_values(column) for column in columns], height)
    first, second = np.empty(height, np.uint64), np.empty(height, np.uint64)
    for start in range(0, height, most):
        part = [_values(column.slice(start, most)) for column in columns]
        end = min(height, start + most)
        first[start:end], second[start:end] = _of_values(part, end - start)
    return first, second


def _of_values(values: Sequence[Value], height: int) -> tuple[Words, Words]:
    """Return the words of rows of these values."""
    items = np.empty((len(values), height), np.uint64)
    for place, (own, _) in enumerate(values):
        items[place] = own
    many = len(values) > len(PLACES)
    places = _places(np.arange(len(values)))[:, None] if many else PLACES[: len(values)]
    _mix(items, places)
    first = items.sum(axis=0) + np.uint64(len(values)) if len(values) != 1 else items[0] + ONE
    for place, (_, further) in enumerate(values):
        if further is not None:
            items[place] += further
    _square(items, places)
    return first, items[0] if len(values) == 1 else items.sum(axis=0)


def _places(numbers: Index) -> Words:
    return (numbers + 1).astype(np.uint64) * SPREAD


def _mix(words: Words, places: Words) -> None:
    """Turn words into items, each at its place."""
    words += places
    words *= MIX_1
    words ^= words >> HALF
    words *= MIX_2
    words ^= words >> HALF


def _square(items: Words, places: Words) -> None:
    """Turn items into the terms of the second word: exchanging two items changes the sum."""
    items += places
    items *= items


def _values(column: pl.Series) -> Value:
    """Return the values of a column."""
    own, further = _OF_TYPE.get(type(column.dtype), _printed)(column)
    if not column.has_nulls():
        return own, further
    nulls = nulls_in(column)
    further = np.zeros(len(own), np.uint64) if further is None else further
    return np.where(nulls, NULL_WORD, own), np.where(nulls, NULL_WORD, further)


def _whole(column: pl.Series) -> Value:
    if not column.has_nulls():
        return physical(column).view(np.uint64), None
    if column.dtype not in (pl.Int64, pl.UInt64):
        column = column.cast(pl.Int64)
    values = column.to_arrow()  # The values behind nulls may be anything: filling them would cost a query.
    return np.frombuffer(values.buffers()[1], np.uint64)[values.offset : values.offset + len(values)], None


def _nothing(column: pl.Series) -> Value:
    nothing = np.full(len(column), NULL_WORD)
    return nothing, nothing


def _floating(column: pl.Series) -> Value:
    return one_of_each(column).view(np.uint64), None


def one_of_each(floats: pl.Series) -> npt.NDArray[np.float64]:
    """Return floats of any width as a new array in which equal ones have equal bits: -0.0 as 0.0, and one NaN for all.

    Other systems write signalling NaN: numpy warns when it computes with them, and a warning may be raised as an error.
    """
    with np.errstate(invalid="ignore"):
        values: npt.NDArray[np.float64] = floats.to_numpy().astype(np.float64, copy=False) + 0.0
    nans = np.isnan(values)
    if nans.any():
        values[nans] = np.nan
    return values


def _decimal(column: pl.Series) -> Value:
    """Return the words of decimals of 128 bits; u is the difference of the upper 64 bits from mere sign bits."""
    values = column.to_arrow(compat_level=NEWEST)
    halves = np.frombuffer(values.buffers()[1] or b"", np.int64).reshape(-1, 2)
    low, high = halves[values.offset : values.offset + len(values)].T
    beyond = (high - (low >> 63)).view(np.uint64)
    return low.view(np.uint64) + beyond * SPREAD, beyond


def _struct(column: pl.Series) -> Value:
    fields = column.struct.unnest().get_columns()
    return _of_values([_values(field) for field in fields], len(column))


def _array(column: pl.Series) -> Value:
    return _list(column.arr.to_list())


def _map(column: pl.Series) -> Value:
    """Return the words of maps, as of the list of their entries: maps of the same entries in another order are other values."""
    dtype = column.dtype
    assert is_map(dtype)
    return _list(column.cast(pl.List(pl.Struct({"key": dtype.key, "value": dtype.value}))))


def _list(column: pl.Series) -> Value:
    held, starts, counts = _items(column)
    own, further = _values(held)
    items = own.copy()
    places = _places(np.arange(len(held)) - np.repeat(starts, counts))
    _mix(items, places)
    sums = _sums(items, starts, counts) + counts.astype(np.uint64)
    if further is not None:
        items += further
    _square(items, places)
    return sums, _sums(items, starts, counts)


def _items(column: pl.Series) -> tuple[pl.Series, Ints, Ints]:
    """Return the items of all lists, where each list begins in them, and how many items it has."""
    try:
        lists = column.to_arrow(compat_level=NEWEST)
    except (pa.ArrowException, pl.exceptions.PolarsError):  # Arrow has no such items: two queries.
        counts = column.list.len().fill_null(0).cast(pl.Int64).to_numpy()
        return (
            column.filter(pl.Series(counts > 0)).explode(empty_as_null=False),
            np.cumsum(counts) - counts,
            counts,
        )
    offsets = np.frombuffer(lists.buffers()[1], np.int64)[lists.offset : lists.offset + len(lists) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    return of_arrow(lists.values.slice(first, end - first)), offsets[:-1] - first, np.diff(offsets)


def _sums(items: Words, starts: Ints, counts: Ints) -> Words:
    """Return the sums of ``counts`` items each, from ``starts`` on."""
    # Differences of a running sum are exact modulo 2^64.
    running = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(items, out=running[1:])
    sums: Words = running[starts + counts] - running[starts]
    return sums


def _printed(column: pl.Series) -> Value:
    """Return the words of a column's texts, for types without words of their own, as 128-bit integers."""
    return _bytes(column.cast(pl.String))


def _categories(column: pl.Series) -> Value:
    """Return the words of the texts of categories, each of which is read once."""
    if len(column) <= FEW_TEXTS:
        return _printed(column)
    rows = np.flatnonzero(~nulls_in(column)) if column.has_nulls() else np.arange(len(column))
    codes = nulls_as(0, column.to_physical()).to_numpy().astype(np.intp)
    most = int(codes.max())
    if most > len(column):  # The codes of all categories of a process are counted together.
        return _printed(column)
    row_of = np.full(most + 1, -1)
    row_of[codes[rows]] = rows
    used = np.flatnonzero(row_of >= 0)
    both = np.zeros(most + 1, np.uint64), np.zeros(most + 1, np.uint64)
    own, further = _bytes(column[row_of[used]].cast(pl.String))
    both[0][used] = own
    both[1][used] = 0 if further is None else further
    return both[0].take(codes), both[1].take(codes)


def _bytes(column: pl.Series) -> Value:
    """Return the words of texts or bytes, from Arrow's views: these hold the number of bytes, and short texts themselves."""
    if 0 < len(column) <= FEW_TEXTS and (few := _few_bytes(column)) is not None:
        return few
    array = column.to_arrow(compat_level=NEWEST)
    start = 2 * array.offset
    views = np.frombuffer(array.buffers()[1] or b"", "<u8")[start : start + 2 * len(array)]
    low, high = np.ascontiguousarray(views[::2]), np.ascontiguousarray(views[1::2])
    counts = low & LEADING[4]
    longer = np.flatnonzero(counts > INLINE)
    if len(longer) and column.has_nulls():  # The value behind a null may be anything.
        longer = longer[~nulls_in(column)[longer]]
    if len(longer) == len(counts) > 0:
        return _longer(column, array, high, counts, longer)
    if 2 * len(longer) <= len(counts):
        own, items = _short(low, high, counts)
    else:
        own, items = np.empty(len(counts), np.uint64), np.empty(len(counts), np.uint64)
        others = np.delete(np.arange(len(counts)), longer)
        own[others], items[others] = _short(low[others], high[others], counts[others])
    if len(longer):
        own[longer], items[longer] = _longer(column, array, high, counts, longer)
    return own, items


def _few_bytes(column: pl.Series) -> tuple[Words, Words] | None:
    """Return the words of a few texts, all words at once; None if one of them has too many. The same as those of many."""
    texts = column.cast(pl.Binary).to_list()
    if column.has_nulls():
        texts = [text or b"" for text in texts]
    counts = np.array([*map(len, texts)], np.uint64)
    most = max(int(counts.max()) + 7 >> 3, 1)
    if most > FEW_WORDS:
        return None
    # Texts of numpy are filled up with zeros.
    filled = np.array(texts, f"S{8 * most}")
    items = filled.view("<u8").reshape(-1, most).T.astype(np.uint64, order="C")
    beyond = counts <= STARTS[:most]
    _mix(items, PLACES[:most])
    items[beyond] = 0
    own = items.sum(axis=0) + counts
    _square(items, PLACES[:most])
    items[beyond] = 0
    return own, items.sum(axis=0)


def _longer(
    column: pl.Series, array: pa.Array, high: Words, counts: Words, longer: Index
) -> tuple[Words, Words]:
    """Return the words of texts longer than ``INLINE``, where they are: in views, ``high`` is the buffer and the place in it."""
    if len(longer) <= FEW_LONG_TEXTS and (few := _few_bytes(column[longer])) is not None:
        return few
    views = high[longer]
    numbers, starts = (views & LEADING[4]).view(np.int64), (views >> HALF).view(np.int64)
    if (numbers != numbers[0]).any():
        return _copied(column[longer])
    return _of_texts(array.buffers()[2 + int(numbers[0])], starts, counts[longer].view(np.int64))


def _short(low: Words, high: Words, counts: Words) -> tuple[Words, Words]:
    """Return the words of texts held in their views: four bytes in the upper half of ``low``, and eight in ``high``."""
    items = low >> HALF
    items |= high << HALF
    _mix(items, PLACES[0])
    lacks = counts == 0
    if lacks.any():
        items[lacks] = 0
    own = items + counts
    _square(items, PLACES[0])
    if lacks.any():
        items[lacks] = 0
    longer = np.flatnonzero(counts > 8)
    if len(longer):
        both = high[longer] >> HALF
        _mix(both, PLACES[1])
        own[longer] += both
        _square(both, PLACES[1])
        items[longer] += both
    return own, items


def _copied(column: pl.Series) -> tuple[Words, Words]:
    """Return the words of texts longer than ``INLINE``, copied to one buffer."""
    array = column.to_arrow(compat_level=OLDEST)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    return _of_texts(array.buffers()[2], offsets[:-1], np.diff(offsets))


def _of_texts(buffer: pa.Buffer, starts: Ints, counts: Ints) -> tuple[Words, Words]:
    """Return the words of texts of eight bytes and more, given where they start in a buffer."""
    sums = counts.astype(np.uint64), np.zeros(len(counts), np.uint64)
    # ``_side_by_side`` reads up to two words beyond the end of a text.
    reaching = np.flatnonzero(starts + counts > (buffer.size & -8) - BEYOND)
    others = np.arange(len(counts))
    if len(reaching) >= FEW:  # Many rows may have one text, the last one of the buffer.
        first = int(starts[reaching].min())
        longer = pa.py_buffer(bytes(buffer[first:]) + bytes(BEYOND + 8))
        if len(reaching) == len(counts):
            return _of_texts(longer, starts - first, counts)
        others = np.delete(others, reaching)
        for rows, held, start in ((others, buffer, 0), (reaching, longer, first)):
            sums[0][rows], sums[1][rows] = _of_texts(held, starts[rows] - start, counts[rows])
        return sums
    if len(reaching):
        others = np.delete(others, reaching)
    if len(others) < FEW:
        _one_by_one(buffer, starts, counts, 0, sums)
        return sums
    sizes = (counts + 7) >> 3
    if len(reaching) or sizes.min() != sizes.max():
        shorter_last = (SIDE_BY_SIDE - np.minimum(sizes[others], SIDE_BY_SIDE)).astype(np.uint16)
        others = others[np.argsort(shorter_last, kind="stable")]
        for rows, add in ((others, _side_by_side), (reaching, _one_by_one)):
            if len(rows):
                row_sums = sums[0][rows], sums[1][rows]
                add(buffer, starts[rows], counts[rows], 0, row_sums)
                sums[0][rows], sums[1][rows] = row_sums
        return sums
    _side_by_side(buffer, starts, counts, 0, sums)
    return sums


def _side_by_side(
    buffer: pa.Buffer, starts: Ints, counts: Ints, next_word: int, sums: tuple[Words, Words]
) -> None:
    """Add the words of texts to their sums: first one word of every text, then the next. Texts descend by their number of words."""
    words, sizes = np.frombuffer(buffer, "<u8", buffer.size >> 3), (counts + 7) >> 3
    # A word is put together from two aligned ones, which take a quarter of the time to fetch.
    at, down = starts >> 3, ((starts & 7) << 3).view(np.uint64)
    up, low = np.uint64(64) - down, words[at]
    left = len(counts)
    while left >= FEW and next_word < SIDE_BY_SIDE - 1:
        at = at[:left] + 1
        high = words[at]
        items = (low[:left] >> down[:left]) | (high << up[:left])  # numpy shifts by 64 to zero.
        low, next_word = high, next_word + 1
        going_on = int(np.searchsorted(-sizes[:left], -next_word)) if sizes[left - 1] <= next_word else left
        if going_on < left:
            items[going_on:] &= LEADING[((counts[going_on:left] - 1) & 7) + 1]
        place = _places(np.array([next_word - 1]))
        _mix(items, place)
        sums[0][:left] += items
        _square(items, place)
        sums[1][:left] += items
        left = going_on
    if left:
        _one_by_one(buffer, starts[:left], counts[:left], next_word, (sums[0][:left], sums[1][:left]))


def _one_by_one(
    buffer: pa.Buffer, starts: Ints, counts: Ints, first_word: int, sums: tuple[Words, Words]
) -> None:
    """Add the words of texts to their sums, from ``first_word`` of each on: first all words of a text, then the next text."""
    data = np.frombuffer(buffer, np.uint8)
    for text, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        for place in range(first_word, (count + 7) >> 3, MOST_WORDS):
            held = data[start + 8 * place : start + min(count, 8 * (place + MOST_WORDS))]
            items = np.zeros((len(held) + 7) >> 3, "<u8")
            items.view(np.uint8)[: len(held)] = held
            places = _places(np.arange(place, place + len(items)))
            _mix(items, places)
            sums[0][text : text + 1] += items.sum()
            _square(items, places)
            sums[1][text : text + 1] += items.sum()


_OF_TYPE: dict[type, Callable[[pl.Series], Value]] = {
    **dict.fromkeys(
        (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64), _whole
    ),
    **dict.fromkeys((pl.Boolean, pl.Date, pl.Time, pl.Datetime, pl.Duration), _whole),
    getattr(pl, "Float16", pl.Float32): _floating,  # Some versions of polars have it.
    pl.Float32: _floating,
    pl.Float64: _floating,
    pl.String: _bytes,
    pl.Binary: _bytes,
    pl.Decimal: _decimal,
    pl.Struct: _struct,
    pl.List: _list,
    pl.Array: _array,
    pl.Null: _nothing,
    **dict.fromkeys((pl.Categorical, pl.Enum), _categories),
    **({} if MAP is None else {MAP: _map}),
}
