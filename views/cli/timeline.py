"""``evercurrent timeline APP``: run an application over its input and draw what happened."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console

from evercurrent.core.data.errors import PlanError
from evercurrent.core.data.schema import listed

from ..inspection.timeline.of_view import pane_keys
from ..inspection.timeline.timeline import require_suffix
from .applications import Application, ApplicationError, load
from .guards import errors_as_sentences, stoppable
from .inputs import feed_of, texts_by_name
from .options import App, BatchRows, Debug, Inputs
from .remote_inputs import local_inputs
from .runs import Run
from .screens import LiveScreen, PlainScreen, Screen, Shown

Drawing = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write the drawing: .svg, .html for a page that zooms, or .png if a converter is installed.",
    ),
]
OfView = Annotated[
    str | None,
    typer.Option(
        "--show", metavar="VIEW", help="The view to draw; by default, the one that the application chooses."
    ),
]
Value = Annotated[
    str | None,
    typer.Option("--value", metavar="COLUMN", help="The column of the view that is written at panes."),
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="The column of a source that is written at its rows."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VALUE",
        help="Draw only this key of the view. For a key of several columns, repeat it in their order.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help="Draw event time from here on, as in 2026-01-31T12:00."),
]
End = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Draw event time before this.")]
Title = Annotated[str | None, typer.Option("--title", help="The text above the drawing.")]
Wide = Annotated[int, typer.Option("--width", min=200, metavar="PIXELS", help="The width of the drawing.")]
Rows = Annotated[int, typer.Option("--rows", min=0, metavar="N", help="Draw at most N rows.")]
Panes = Annotated[int, typer.Option("--panes", min=0, metavar="N", help="Draw at most N panes.")]


def draw_timeline(
    name: App,
    output: Drawing,
    inputs: Inputs = None,
    batch_rows: BatchRows = 10_000,
    show: OfView = None,
    value: Value = None,
    label: Label = None,
    key: Keys = None,
    start: Start = None,
    end: End = None,
    title: Title = None,
    width: Wide = 900,
    rows: Rows = 2000,
    panes: Panes = 300,
    debug: Debug = False,
) -> None:
    """Run APP over its input, and draw a view of it: event time across, processing time up, panes as rectangles.

    Ctrl-C ends the run after the current epoch; what happened until then is drawn.
    """
    try:
        require_suffix(output)
    except PlanError as error:
        raise typer.BadParameter(str(error).removeprefix("timeline: "), param_hint="--output") from None
    if not output.absolute().parent.is_dir():
        raise typer.BadParameter(f"{output}: there is no folder {output.parent}", param_hint="--output")
    inputs_by_source = texts_by_name("--input", "SOURCE=PATH", inputs or [])
    with errors_as_sentences(debug), stoppable() as stop, local_inputs(inputs_by_source) as paths:
        application = load(name)
        view = application.engine.views[application.showing(show)]
        application.engine.record_rows()
        chosen = _key(application, view.name, key)
        shown = Shown(view.name, view.read, application.order.get(view.name, ()))
        console = Console()
        screen: Screen = LiveScreen(console, shown) if console.is_terminal else PlainScreen(console, shown)
        feed = feed_of(application, paths, batch_rows, follow=False, stop=stop)
        Run(application, application.engine, feed, screen, shown, {}, stop).go()
        options: dict[str, Any] = {
            "start": start,
            "end": end,
            "title": title,
            "width": width,
            "rows": rows,
            "panes": panes,
        }
        drawn = view.timeline(value, label=label, key=chosen, **options)
        typer.echo(str(drawn.save(output)))


def _key(application: Application, view: str, values: list[str] | None) -> tuple[object, ...] | None:
    """Return the chosen key, each value in the type of its column.

    Raises:
        ApplicationError: the number of values is not that of the key's columns, or a value has another type.
    """
    if not values:
        return None
    shown_view = application.engine.views[view]
    names = pane_keys(shown_view._plan, shown_view._place)
    if len(values) != len(names):
        raise ApplicationError(
            f"{application.name}: --key is given {len(values)} times; the key of view {view!r} is {listed(names)}"
        )
    return tuple(
        _typed(view, name, shown_view.schema[name], text) for name, text in zip(names, values, strict=True)
    )


def _typed(view: str, name: str, dtype: pl.DataType, text: str) -> object:
    try:
        return pl.Series([text]).cast(dtype).item()
    except pl.exceptions.PolarsError as error:
        raise ApplicationError(
            f"view {view!r}: --key {text!r} is not a value of column {name!r}, which is {dtype}"
        ) from error
