"""Quotes in CSV: where a record ends, and quotes that are stray, so that they do not swallow the lines after them.

As pyarrow reads it, a quote opens a value only at its begin; elsewhere it is a character like others. After the quote that
closes a value further characters belong to it; in a record of several lines they show that a quote is stray.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

STRAY = "a quoted value that begins here is not closed, or a quote inside a value is not doubled"
"""The reason for which a line with a stray quote is refused."""

LINES_OF_PROOF = 16
"""So many lines after an open quote, each with the separators of a row and no quote, show that the quote is stray."""


@lru_cache(maxsize=16)
def _record(separator: str) -> re.Pattern[bytes]:
    """Return the pattern of a record with the end of its line; it never goes back, and matches any bytes.

    Its groups ``open`` match if a quoted value goes on after the data, ``more`` if characters follow a closing quote.
    """
    sep = re.escape(separator.encode())
    inner, last = (
        rb'(?:"(?:[^"]++|"")*+(?:"(?:(?P<more%d>[^%b\r\n])[^%b\r\n]*+)?+|(?P<open%d>\Z))|[^%b"\r\n][^%b\r\n]*+|)'
        % (place, sep, sep, place, sep, sep)
        for place in (1, 2)
    )
    return re.compile(rb"(?:%b%b)*+%b(?:\r\n|\r|\n|\Z)" % (inner, sep, last))


@lru_cache(maxsize=16)
def _value(separator: str) -> re.Pattern[bytes]:
    """Return the pattern of one value."""
    sep = re.escape(separator.encode())
    return re.compile(rb'"(?:[^"]++|"")*+"?+[^%b\r\n]*+|[^%b"\r\n][^%b\r\n]*+|' % (sep, sep, sep))


def is_open(data: bytes, separator: str) -> bool:
    """Return whether the record with which the data begins has a quoted value that is not closed in them.

    >>> is_open(b'a,"b', ","), is_open(b'a,b" tv', ","), is_open(b'"a",\\n"', ",")
    (True, False, False)
    """
    match = _record(separator).match(data)
    assert match is not None
    return _is_open(match)


def _is_open(match: re.Match[bytes]) -> bool:
    return match["open1"] is not None or match["open2"] is not None


def end_of_records(data: bytes, separator: str) -> int:
    """Return the length of the longest part that ends with the line of a record.

    Where the quotes up to the last line are even, that is its end, as in nearly all blocks. Else the last lines are read
    character by character, since a quote within a value opens nothing.
    """
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while quotes % 2:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    pattern = _record(separator)
    while (match := pattern.match(data, end)) is not None and data[match.end() - 1 : match.end()] == b"\n":
        if _is_open(match) or match.end() == end:
            break
        end = match.end()
    return end


def is_shown_stray(data: bytes, separator: str, columns: int) -> bool:
    """Return whether the lines after an open quote show that it is a stray one: many in a row look like rows by themselves."""
    following = data.split(b"\n", LINES_OF_PROOF + 1)[1:-1]
    return (
        columns > 1
        and len(following) == LINES_OF_PROOF
        and all(line.count(separator.encode()) == columns - 1 and b'"' not in line for line in following)
    )


def records(block: bytes, separator: str, columns: int) -> Iterator[tuple[bytes, str | None]]:
    """Yield the records of a block, as bytes that end with their lines, with the reason for which one is refused, or None.

    A record of several lines with a stray quote is refused up to the end of its first line, and the next one begins after that.
    Lines that are no rows are left out: empty ones, unless there is one column only.
    """
    pattern, place = _record(separator), 0
    while place < len(block):
        match = pattern.match(block, place)
        assert match is not None
        record, reason = match.group(), None
        first = _first_line(record)
        if _is_open(match) or (len(first) < len(record) and _is_stray(match, separator, columns)):
            record, reason = first, STRAY
        place += len(record)
        if columns == 1 or record.strip(b"\r\n"):
            yield record, reason


def _first_line(record: bytes) -> bytes:
    return record[: record.find(b"\n") + 1 or len(record)]


def _is_stray(match: re.Match[bytes], separator: str, columns: int) -> bool:
    """Return whether a record of several lines has characters after a closing quote, or not as many values as there are columns."""
    if match["more1"] is not None or match["more2"] is not None:
        return True
    record, value, place, values = match.group(), _value(separator), 0, 1
    while (end := value.match(record, place)) is not None and record[
        end.end() : end.end() + 1
    ] == separator.encode():
        place, values = end.end() + 1, values + 1
    return values != columns
