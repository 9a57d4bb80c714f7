"""Timelines: recordings drawn as SVG, as a page, or in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from evercurrent.core.data.errors import PlanError

from .drawing import Look, draw
from .gathering import Choice, SourceRows, gathered
from .page import page
from .png import CONVERTERS, Converter, converter
from .recording import Recording
from .svg import FONT

SUFFIXES = (".svg", ".html")
"""The formats that need nothing else; .png needs a converter."""


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
        self.look: Look = look or Look()

    def svg(self) -> str:
        """Return the drawing as self-contained SVG, for a file or inside a page."""
        return draw(self.recording, self.title, self.subtitle, self.look)

    def html(self) -> str:
        """Return the drawing as a self-contained page that zooms."""
        return page(self.svg(), self.title or "timeline", self.look.width, FONT)

    def png(self) -> bytes:
        """Return the drawing as a picture, made by a converter that is installed.

        Raises:
            PlanError: there is no converter; names those that can be installed.
        """
        return _png_converter("png()")(self.svg())

    def save(self, path: str | Path) -> Path:
        """Write the drawing in the format of the suffix, .svg, .html, or .png with a converter, and return the path.

        Raises:
            PlanError: another suffix, .png without a converter, or a folder that is not there.
        """
        path = Path(path)
        suffix = require_suffix(path)
        if not path.parent.is_dir():
            raise PlanError(
                f"timeline: {path}: there is no folder {str(path.parent)!r}; make it, or give another path"
            )
        if suffix == ".png":
            path.write_bytes(self.png())
        else:
            written = self.html() if suffix == ".html" else self.svg() + "\n"
            path.write_text(written, encoding="utf-8", newline="\n")
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


def require_suffix(path: Path) -> str:
    """Return the suffix of a path to which a drawing can be written, in lower case.

    Raises:
        PlanError: another suffix, or .png without a converter.
    """
    suffix = path.suffix.lower()
    if suffix == ".png":
        _png_converter(str(path))
    elif suffix not in SUFFIXES:
        raise PlanError(f"timeline: {path}: the suffix has to be one of {', '.join(SUFFIXES)}, .png")
    return suffix


def _png_converter(where: str) -> Converter:
    convert = converter()
    if convert is None:
        raise PlanError(
            f"timeline: {where}: the suffix has to be one of {', '.join(SUFFIXES)}, as nothing is installed that makes a PNG; "
            f"install {CONVERTERS}"
        )
    return convert


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
