"""The rows that a view emits: read from its deltas, matched with expectations, and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

import polars as pl

from evercurrent.core.data.errors import InputError
from evercurrent.core.data.schema import DIFF, listed

from .matching import Attribute, Expectation, left_over
from .times import Times

Row = dict[str, Any]
"""A row by column, with ``_epoch`` and ``_diff`` (1 or -1). Instants are microseconds since 1970-01-01 UTC."""

Window = tuple[int, int] | None
"""Start and end of a window, the end not included; None for the global window."""

START, END = "window_start", "window_end"
AT = "pane_processing_time"

_FLAGS = {
    "early": ("timing", "EARLY"),
    "on_time": ("timing", "ON_TIME"),
    "late": ("timing", "LATE"),
}
_OTHER_NAMES = {"final": "is_last", "index": "pane_index", "at": AT}
_PANE_COLUMNS = (
    "timing", "pane_index", "nonspeculative_index", "is_first", "is_last", AT, "pane_watermark",
)  # fmt: skip


class RowWords:
    """The words for attributes of rows of one view: its columns, and shorter words for those of panes.

    ``window``: [start, end], the end not included, or "global". ``early``, ``on_time``, ``late``: true or false.
    ``index``: ``pane_index``. ``final``: ``is_last``. ``at``: the processing time of a pane. ``values``: the list in the
    column ``value``, in any order. ``_diff``: -1 for a retracted row; by default 1.
    """

    def __init__(self, where: str, schema: pl.Schema, times: Times) -> None:
        self._where = where
        self._schema = schema
        self._times = times
        self._instants = {name for name, dtype in schema.items() if isinstance(dtype, pl.Datetime)}

    def read(self, frame: pl.DataFrame) -> list[Row]:
        """Return the rows of a delta or of contents, each as many times as its diff."""
        instants = [pl.col(name).dt.epoch("us") for name in self._instants]
        rows: list[Row] = []
        for row in frame.with_columns(instants).iter_rows(named=True):
            diff = row.get(DIFF, 1)
            rows += [{**row, DIFF: 1 if diff > 0 else -1}] * abs(diff)
        return rows

    def expectation(self, expected: Mapping[str, Any]) -> Expectation:
        """Return the expectation that a transcript gives for a row.

        Raises:
            InputError: a word is neither a column nor one of those above, or a time is not valid.
        """
        if not isinstance(expected, Mapping):
            raise InputError(
                f"{self._where}: {expected!r} is not a row; write the expected values by column, as {{'n': 1}}"
            )
        attributes = [self._attribute(word, value) for word, value in expected.items() if word != "optional"]
        if DIFF not in expected:
            attributes.append(Attribute(DIFF, 1, lambda row: row[DIFF]))
        return Expectation(tuple(attributes), bool(expected.get("optional", False)))

    def expectations(self, expected: Iterable[Mapping[str, Any]]) -> list[Expectation]:
        """Return the expectations for several rows; one with ``_diff`` 3 or -3 is expected so many times."""
        return [self.expectation(each) for row in expected for each in _one_by_one(row)]

    def shown(self, row: Row, *, brief: bool = False) -> str:
        """Show a row in the words of a transcript, without nulls; ``brief``: without pane information."""
        parts = [f"window {self.window_shown(self.window_of(row))}"] if START in row else []
        columns = [name for name in self._schema if name not in (START, END, *_PANE_COLUMNS)]
        shown = columns if brief else [*columns, *_PANE_COLUMNS]
        cells = {name: row[name] for name in shown if row.get(name) not in (None, "")}
        parts += [f"{name} {self._cell_shown(name)(cell)}" for name, cell in cells.items()]
        parts += [f"retracts ({self.shown(each, brief=True)})" for each in row.get("retracts", ())]
        if row[DIFF] < 0 and not brief:
            parts.append("retracted")
        return ", ".join(parts)

    def _attribute(self, word: str, expected: Any) -> Attribute:
        if word in self._schema:
            return Attribute(word, self._cell(word, expected), lambda row: row[word], self._cell_shown(word))
        if word == DIFF:
            return Attribute(DIFF, expected, lambda row: row[DIFF])
        if word == "window":
            return Attribute(word, self.window(expected), self.window_of, self.window_shown)
        if word in _FLAGS and "timing" in self._schema:
            column, value = _FLAGS[word]
            return Attribute(word, bool(expected), lambda row: row[column] == value)
        if word in _OTHER_NAMES and (column := _OTHER_NAMES[word]) in self._schema:
            return Attribute(
                word, self._cell(column, expected), lambda row: row[column], self._cell_shown(column)
            )
        if word == "values" and "value" in self._schema:
            return Attribute(
                word, sorted(expected), lambda row: None if row["value"] is None else sorted(row["value"])
            )
        if word == "retracts":
            return self._retracts(expected)
        missing = "" if "timing" in self._schema else "; for those of panes declare .with_pane_info()"
        raise InputError(
            f"{self._where}: {word!r} is expected, and there are the columns {listed(self._schema)}{missing}"
        )

    def _retracts(self, retracted: Iterable[Mapping[str, Any]]) -> Attribute:
        """Return the attribute of all rows that are retracted together with this one."""

        def show(rows: Any) -> str:
            texts = [str(each) if isinstance(each, Expectation) else self.shown(each) for each in rows]
            return "[" + "; ".join(texts) + "]"

        return Attribute(
            "retracts",
            [self.expectation({**each, DIFF: -1}) for each in retracted],
            lambda row: row.get("retracts", []),
            show,
            lambda expected, actual: left_over(expected, actual) == ([], []),
        )

    def _cell(self, column: str, expected: Any) -> Any:
        if expected is None:
            return None
        dtype = self._schema[column]
        if isinstance(dtype, pl.Datetime):
            return self._times.instant(expected)
        if dtype == pl.Date and isinstance(expected, str):
            return date.fromisoformat(expected)
        return expected

    def _cell_shown(self, column: str) -> Callable[[Any], str]:
        if column in self._instants:
            return lambda cell: "null" if cell is None else self._times.written(cell)
        return repr

    def window(self, written: Any) -> Window:
        """Return the bounds of a window as a transcript writes it; None for the global window."""
        if written == "global":
            return None
        if not isinstance(written, list | tuple) or len(written) != 2:
            raise InputError(f'{self._where}: window {written!r}; write [start, end] or "global"')
        return self._times.instant(written[0]), self._times.instant(written[1])

    def window_of(self, row: Row) -> Window:
        """Return the window of a row."""
        return (row[START], row[END]) if START in row else None

    def window_shown(self, window: Window) -> str:
        """Return a window in the words of a transcript."""
        if window is None:
            return "global"
        return f"[{self._times.written(window[0])}, {self._times.written(window[1])})"


def _one_by_one(expected: Any) -> list[Any]:
    """Return a row as often as its diff is large, each with a diff of 1 or -1."""
    diff = expected.get(DIFF, 1) if isinstance(expected, Mapping) else 1
    if not isinstance(diff, int) or abs(diff) < 2:
        return [expected]
    return [{**expected, DIFF: 1 if diff > 0 else -1}] * abs(diff)
