"""A watermark that a user's function computes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from ...data.clock import END_OF_TIME, START_OF_TIME
from ...data.columns.plain_values import NotPlainError, decoded, encoded
from ...data.errors import InputError, first_line
from ...data.instants import instant_of, shown, time_of
from ...data.tags import tagged
from ...state.snapshot import Saved, is_plain
from .kinds import Arrived, Watermark

ENCODED = "encoded state"
"""Fact: the user's state, where JSON has no such value."""

SHOWN = 100
"""The most characters of a user's state in a message."""

WatermarkFunction = Callable[[Any, pl.DataFrame, datetime], tuple[Any, date | int | None]]
"""(state, rows added, processing time) -> (new state, watermark or None for "nothing new")."""


@tagged("core.eventtime.custom_watermarks:Custom")
@dataclass(frozen=True, eq=False)
class Custom(Watermark):
    """W = the result of a user's function, which is called once per epoch; equal only to itself."""

    function: WatermarkFunction
    state: Any = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def depends_on_order(self) -> bool:
        """Return true, as the function may depend on the order of rows."""
        return True

    def start(self) -> tuple[Any, int]:
        """Return the user's initial state, and an unknown watermark."""
        return self.state, START_OF_TIME

    def advanced(self, memory: tuple[Any, int], arrived: Arrived) -> tuple[tuple[Any, int], int]:
        """Return the function's new watermark, or the last one that it returned."""
        state, watermark_before = memory
        processing_time = time_of(arrived.instant)
        assert processing_time is not None, "it was a datetime"
        where = f"{arrived.where}: the watermark function"
        try:
            # A copy, as the function may change its arguments and the epoch may fail.
            result = self.function(deepcopy(state), arrived.rows, processing_time)
        except Exception as error:
            raise InputError(
                f"{where} raised {type(error).__name__}: {first_line(error)}; nothing has changed"
            ) from error
        if not (isinstance(result, tuple) and len(result) == 2):
            raise InputError(f"{where} gave {result!r}; it must return (new state, watermark or None)")
        state, watermark = result
        if watermark is None:
            return (state, watermark_before), watermark_before
        if isinstance(watermark, date):
            watermark = instant_of(where, watermark, arrived.dtype)
        # By its type first: a column or an array that is compared has no truth value.
        elif type(watermark) is not int or watermark != END_OF_TIME:
            raise InputError(
                f"{where} gave the watermark {watermark!r}; it must be a datetime, END_OF_TIME or None"
            )
        if watermark < watermark_before:
            raise InputError(
                f"{where} moved back from {shown(watermark_before)} to {shown(watermark)}; a watermark never does: "
                "keep the highest in the state, and return None if there is nothing new"
            )
        return (state, watermark), watermark

    def described(self, memory: tuple[Any, int], highest: int, instant: int) -> list[str]:
        """Describe the function, and the last watermark that it returned."""
        name = getattr(self.function, "__name__", repr(self.function))
        return [f"it is what {name} returned last, {shown(memory[1])}"]

    def memory_saved(self, where: str, memory: tuple[Any, int]) -> Saved:
        """Return the user's state, which has to be a plain value, and the last watermark."""
        state, watermark = memory
        if is_plain(state):
            return Saved((), {"state": state, "said": watermark})
        try:
            return Saved((), {ENCODED: encoded(state).decode(), "said": watermark})
        except NotPlainError as error:
            raise InputError(
                f"{where}: the state of the watermark function is {_shortened(state)}, which is or holds {error.found}, and a "
                "checkpoint cannot keep that; nothing has changed. Keep plain values in the state: numbers, text, bytes, "
                "times, and lists, tuples, dicts and sets of these"
            ) from error

    def memory_restored(self, saved: Saved) -> tuple[Any, int]:
        """Return the user's state and the last watermark."""
        facts = saved.facts
        if "said" not in facts:
            return self.start()
        state = decoded(facts[ENCODED].encode()) if ENCODED in facts else facts["state"]
        return state, facts["said"]


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
