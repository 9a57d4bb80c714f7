"""Timelines: recordings drawn as SVG, as a page, or in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import polars as pl

from evercurrent.core.data.errors import PlanError

from .drawing import Look, draw
from .gathering import Choice, SourceRows, gathered
from .recording import Recording

SUFFIXES = (".svg", ".html")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 2rem auto; max-width: {width}px; background: #ffffff; }}
svg {{ display: block; max-width: 100%; height: auto; }}
svg g:hover > rect[stroke], svg rect[stroke]:hover {{ stroke-width: 2.5; stroke-opacity: 1; }}
</style>
</head>
<body>
{svg}
</body>
</html>
"""


class Timeline:
    """A run of a view, drawn with event time across and processing time upwards. Made by ``view.timeline()``.

    Input rows are dots, the watermark is a line, panes are rectangles: as wide as their window, and from the pane
    before, or the first row, up to the moment at which they were emitted. Equal runs give equal text.
    """

    def __init__(
        self, recording: Recording, *, title: str = "", subtitle: str = "", look: Look | None = None
    ) -> None:
        self.recording = recording
        self.title = title
        self.subtitle = subtitle
        self.look = look or Look()

    def svg(self) -> str:
        """Return the drawing as self-contained SVG, for a file or inside a page."""
        return draw(self.recording, self.title, self.subtitle, self.look)

    def html(self) -> str:
        """Return the drawing as a self-contained page."""
        return _PAGE.format(title=escape(self.title or "timeline"), width=self.look.width, svg=self.svg())

    def save(self, path: str | Path) -> Path:
        """Write the drawing in the format of the suffix, .svg or .html, and return the path.

        Raises:
            PlanError: another suffix.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise PlanError(f"timeline: {path}: the suffix has to be one of {', '.join(SUFFIXES)}")
        path.write_text(
            self.html() if suffix == ".html" else self.svg() + "\n", encoding="utf-8", newline="\n"
        )
        return path

    def __repr__(self) -> str:
        """Show the title, and the numbers of rows and panes."""
        rows, panes = self.recording.rows.height, self.recording.panes.height
        return (
            f"Timeline({self.title!r}: {rows:,} rows, {panes:,} entries of panes; save it as .svg or .html)"
        )

    def _repr_html_(self) -> str:
        """Show the drawing in notebooks."""
        return self.svg()


def timeline_of(
    view: str,
    deltas: pl.DataFrame,
    sources: Mapping[str, SourceRows],
    epochs: pl.DataFrame,
    watermarks: pl.DataFrame,
    choice: Choice,
    *,
    remarks: Sequence[str] = (),
    title: str | None = None,
    subtitle: str = "",
    look: Look | None = None,
) -> Timeline:
    """Return the timeline of a view from plain frames; ``gathered`` describes their columns.

    Raises:
        PlanError: the view does not have a column.
        InputError: the view has no pane of the key.
    """
    recording = gathered(view, deltas, sources, epochs, watermarks, choice, remarks)
    return Timeline(recording, title=view if title is None else title, subtitle=subtitle, look=look)
