"""Logs of web servers, in the common and the combined format, are read as rows of a source.

A line of the combined format, of which the common format is the beginning::

    192.0.2.7 - ada [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326 "http://example.org/" "Mozilla/5.0"

Anybody can make a server write malformed lines into its log, so such a line does not end the reading: it is refused and
kept, with its number and the reason. A request may be malformed without its line being refused: see ``COLUMNS``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from evercurrent.core.data.errors import FileError
from evercurrent.core.data.schema import listed

from .file_columns import Target
from .followed_lines import FollowedLines, plain_lines

COLUMNS = {
    "ip": "the client's address or name",
    "ident": "its identity by RFC 1413; null where the log has -",
    "user": "who logged in; null where the log has -",
    "at": "the time of the request, as an instant: in UTC where the column has no time zone",
    "method": "the first word of the request; null where the request does not begin with a word and a space",
    "path": "the requested path; the whole request where it has no method; null where the log has -",
    "protocol": "the end of the request, such as HTTP/1.1; null where it has none",
    "status": "the status of the answer; null where the log has -",
    "bytes": "the size of the answer; 0 where the log has -, which means that none was sent",
    "referer": "where the client came from; null where the log has - or nothing",
    "agent": "the client by its own name; null where the log has - or nothing",
}
"""The columns of a log that a source may declare. Escapes such as ``\\"`` and ``\\x16`` stay as the server wrote them."""

TEXT = r'(?:[^"\\\r\n]|\\.)*'
"""The text between quotes, where quotes and backslashes have a backslash before them."""

LINE = (
    (r"^(?P<ip>[^ ]+) (?P<ident>[^ ]+) (?P<user>[^ ]+(?: [^ \[][^ ]*)*) ", "no host, identity and user"),
    (r"\[(?P<at>[0-9]{2}/[A-Za-z]{3}/[0-9]{4}:[0-9:]{8} [+-][0-9]{4})\] ", "no time in brackets"),
    (rf'"(?P<request>{TEXT})" ', "no request in quotes"),
    (r"(?P<status>[0-9]{3}|-) (?P<bytes>[0-9]+|-)", "no status and size"),
    (
        rf'(?: "(?P<referer>{TEXT})(?:"(?: "(?P<agent>{TEXT})"?)?)?)?\r?\n?$',
        "something else than referer and agent in quotes after the size",
    ),
)
"""The parts of a line, each with the reason to refuse a line that matches only the parts before.

At every place the next character decides how to continue, so a line is read in one pass (three times as fast). The last
quote may be missing: then the end of the referer or of the agent was cut off.
"""

WHOLE = "".join(part for part, _ in LINE)

SHORT = "".join(part for part, _ in LINE[:-1])
"""A line up to the size. The rest is most of a line, and extracting texts takes longer than matching them."""

REQUEST = r"^(?P<method>[A-Za-z]+(?:-[A-Za-z]+)*) (?P<path>.*?)(?: (?P<protocol>HTTP/[0-9.]+))?$"

TIME = "%d/%b/%Y:%H:%M:%S %z"

HOPELESS = 100
"""A file whose first lines, this many, are all refused is not a log."""

KEPT_LINES = 1_000_000
"""The most refused lines of a file that are kept; all are counted."""

REFUSED = pl.Schema({"file": pl.String(), "line": pl.Int64(), "reason": pl.String(), "text": pl.String()})
"""The columns of refused lines: the file, the number in the file from 1, the reason, and the text."""


class LogFile:
    """One log, which may still grow. Empty lines are counted, but are not rows."""

    def __init__(self, path: Path, target: Target) -> None:
        self.path = path
        self.rows = 0
        self.refused_for: Counter[str] = Counter()
        """How many lines were refused, by reason."""
        self._schema = target.schema
        self._reading = target.reading
        self._lines = plain_lines(path, target.reading)
        self._number = 0
        """The lines read so far."""
        self._rows_before = 0
        """The rows of the files that had this name before."""
        self._refused: list[pl.DataFrame] = []
        _check_columns(path, target)

    @property
    def done_bytes(self) -> float:
        """Return the number of bytes from which its rows were read."""
        return self._lines.bytes_of(self.rows - self._rows_before)

    @property
    def is_open(self) -> bool:
        """Return whether it can be read while no file has its name."""
        return isinstance(self._lines, FollowedLines)

    @property
    def refused(self) -> pl.DataFrame:
        """Return the refused lines: file, line, reason, text."""
        return pl.concat([REFUSED.to_frame(), *self._refused])

    def frames(self, batch_rows: int, *, final: bool) -> Iterator[pl.DataFrame]:
        """Yield the rows of lines that were not read before, a block of lines at a time.

        Raises:
            FileError: the file became shorter and is not followed, or is not a log.
        """
        if isinstance(self._lines, FollowedLines) and self._lines.is_replaced:
            if not self._lines.is_rewritten:
                yield from self._frames(final=True)
            self._rows_before += self._lines.rows
            self._lines, self._number = plain_lines(self.path, self._reading), 0
        yield from self._frames(final=final)
        if final and not self._lines.rows and self._lines.refused:
            self._give_up()

    def _frames(self, *, final: bool) -> Iterator[pl.DataFrame]:
        self._lines.require_grown()
        for block in self._lines.blocks(final=final):
            lines = _lines_of(block)
            rows, refused = log_rows(lines, self._schema)
            self._refuse(refused)
            self._number += len(lines)
            self._lines.rows += rows.height
            self._lines.refused += refused.height
            if not self._lines.rows and self._lines.refused >= HOPELESS:
                self._give_up()
            if rows.height:
                yield rows

    def _refuse(self, refused: pl.DataFrame) -> None:
        self.refused_for.update(dict(refused["reason"].value_counts().iter_rows()))
        room = KEPT_LINES - sum(frame.height for frame in self._refused)
        if refused.height and room > 0:
            name = pl.lit(str(self.path)).alias("file")
            self._refused.append(
                refused.head(room).select(name, pl.col("line") + self._number, "reason", "text")
            )

    def _give_up(self) -> None:
        _, line, reason, text = self.refused.row(0)
        raise FileError(
            f"{self.path}: none of the first {self._number} lines can be read as a web server's log in the common or "
            f"combined format; line {line}: {reason} ({text[:60]}): check the path, or the server's log format"
        )


def log_rows(lines: pl.Series, schema: pl.Schema) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of these lines, with the columns of the schema, and the refused lines: ``line`` (from 1), reason, text."""
    parts = _parts(lines, schema)
    fits = parts["at"].is_not_null()
    columns, misfits = [], []
    for name, dtype in schema.items():
        column = _typed(parts[name], dtype)
        columns.append(column)
        if column.null_count() > parts[name].null_count():
            wrong = parts[name].is_not_null() & column.is_null()
            misfits.append((wrong, "no such time" if name == "at" else f"{name} that does not fit {dtype}"))
            fits &= ~wrong
    frame = pl.DataFrame(columns)
    if fits.all():
        return frame, _refused(lines.clear(), fits.clear(), [])
    blank = lines.str.contains(r"^\s*$")
    return frame.filter(fits), _refused(lines, ~fits & ~blank, misfits)


def _parts(lines: pl.Series, schema: pl.Schema) -> pl.DataFrame:
    """Return ``COLUMNS`` as texts of the log, with null for missing parts; in refused lines all are null."""
    absent = pl.all().exclude("ip", "at", "bytes")
    parts = (
        lines.str.extract_groups(WHOLE if schema.keys() & {"referer", "agent"} else SHORT)
        .struct.unnest()
        .with_columns(pl.when(lines.str.contains(WHOLE)).then(pl.all()))
        .with_columns(pl.when(absent != "-").then(absent), pl.col("bytes").replace("-", "0"))
    )
    if schema.keys() & {"method", "path", "protocol"}:
        words = parts["request"].str.extract_groups(REQUEST).struct.unnest()
        parts = parts.hstack(words).with_columns(pl.col("path").fill_null(pl.col("request")))
    return parts


def _typed(text: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return texts as values of the declared type, null where they are not valid."""
    if not isinstance(dtype, pl.Datetime):
        return text.cast(dtype, strict=False)
    instant = text.str.to_datetime(TIME, time_unit=dtype.time_unit, strict=False)
    return (
        instant.dt.convert_time_zone(dtype.time_zone)
        if dtype.time_zone
        else instant.dt.replace_time_zone(None)
    )


def _refused(lines: pl.Series, chosen: pl.Series, misfits: Sequence[tuple[pl.Series, str]]) -> pl.DataFrame:
    """Return the chosen lines with number and reason: the first missing part, else the first value that does not fit."""
    text = lines.filter(chosen).str.strip_chars_end("\r\n").alias("text")
    reason = pl.Series("reason", [], pl.String).clear(len(text))
    for count, (_, why) in enumerate(LINE, 1):
        wrong = ~text.str.contains("".join(part for part, _ in LINE[:count]))
        reason = reason.set(wrong & reason.is_null(), why)
    for wrong, why in misfits:
        reason = reason.set(wrong.filter(chosen) & reason.is_null(), why)
    return pl.DataFrame([pl.Series("line", chosen.arg_true() + 1, pl.Int64), reason, text])


def _lines_of(block: bytes) -> pl.Series:
    """Return the lines of a block with their ends: views of its bytes. What is not UTF-8 becomes ``\\xe9``, as servers have it."""
    try:
        block.decode()
    except UnicodeDecodeError:
        block = block.decode(errors="backslashreplace").encode()
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    starts = np.concatenate([[0], ends, [] if block.endswith(b"\n") else [len(block)]]).astype(np.int64)
    array = pa.LargeStringArray.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(block))
    return pl.Series(array)


def _check_columns(path: Path, target: Target) -> None:
    """Check that a log has the columns of the source, and in types that can hold them.

    Raises:
        FileError: naming the column.
    """
    if unknown := [name for name in target.schema if name not in COLUMNS]:
        raise FileError(
            f"{path}: a web server's log has no column {listed(unknown)}, which source {target.source!r} declares; "
            f"it has {listed(COLUMNS)}: rename the column, or compute it from these"
        )
    for name, dtype in target.schema.items():
        kinds: tuple[type[pl.DataType], ...] = (pl.String, pl.Categorical, pl.Enum)
        instead = "pl.String"
        if name == "at":
            kinds, instead = (pl.Datetime,), "pl.Datetime('us', 'UTC')"
        fits = dtype.is_numeric() if name in ("status", "bytes") else isinstance(dtype, kinds)
        if not fits:
            instead = "pl.Int64" if name in ("status", "bytes") else instead
            raise FileError(
                f"{path}: column {name!r} of source {target.source!r} is {dtype}, which a web server's log does not "
                f"have; declare it as {instead}"
            )
