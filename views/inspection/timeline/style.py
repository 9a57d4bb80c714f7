"""Colours and sizes of the drawing."""

from __future__ import annotations

from typing import Final

PAPER: Final = "#ffffff"
INK: Final = "#1f2933"
SOFT_INK: Final = "#5f6b7a"
GRID: Final = "#e7eaef"
FRAME: Final = "#c3cad5"
IDEAL: Final = "#b3bac5"
ROW: Final = "#334155"
LATE_ROW: Final = "#b0307a"
TAKEN_BACK: Final = "#d02f2f"
WATERMARKS: Final = ("#0f8a6d", "#7a5cc0", "#a66a00", "#3f7f9f")
"""One colour after the other for the watermarks of several sources."""

TIMING_COLOURS: Final = {"EARLY": "#d68a0c", "ON_TIME": "#2a72b5", "LATE": "#b0307a", None: "#64748b"}
TIMING_WORDS: Final = {"EARLY": "early", "ON_TIME": "on time", "LATE": "late", None: ""}

MARGIN: Final = 18
"""Between an edge of a drawing and what is in it."""

TITLE_SIZE: Final = 16
TEXT_SIZE: Final = 11.5
VALUE_SIZE: Final = 14
WORD_SIZE: Final = 10.5
DOT_SIZE: Final = 11
DOT_RADIUS: Final = 8.5
SPECK_RADIUS: Final = 2.4
