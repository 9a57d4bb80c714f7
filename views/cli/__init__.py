"""The command ``evercurrent``: run an application over files, draw or explain it, list the bundled ones.

Exit codes: 0 done, 1 an error (one sentence on standard error; ``--debug`` adds the traceback), 2 wrong usage,
130 stopped by Ctrl-C before the input ended, 141 the reader of the output ended first.
"""

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evercurrent.core.data.errors import FileError
from evercurrent.core.data.release import VERSION

from ..connectors.delta_files import STANDARD_OUTPUT, delta_form
from ..connectors.file_columns import Reading
from .applications import bundled, load
from .checkpoint import app as checkpoint_app
from .checkpoint import print_proofs
from .commands import Commands, OneCommand
from .drivers import Place, driven
from .guards import errors_as_sentences, stoppable
from .inputs import feed_of, pairs, require_apart, require_once, texts_by_name
from .options import (
    App,
    BatchRows,
    Buckets,
    CheckpointAt,
    Debug,
    Deltas,
    ErrorsTo,
    Follow,
    Format,
    IgnoreExtra,
    Inputs,
    Master,
    On,
    OnError,
    Output,
    OutputAs,
    OutputFormat,
    PlanFormat,
    Prove,
    Quiet,
    Reload,
    Sample,
    Separator,
    Show,
)
from .outputs import Outputs, console_of, print_on
from .remote_inputs import local_inputs
from .timeline import draw_timeline

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    help="Views that are always current: kept up to date from small batches of +1/-1 changes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"evercurrent {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Views that are always current: kept up to date from small batches of +1/-1 changes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, TextIOWrapper
        ):  # A locale without a character of the data is no reason to end a run.
            stream.reconfigure(errors="backslashreplace")


@app.command(cls=OneCommand)
def run(
    name: App,
    inputs: Inputs = None,
    batch_rows: BatchRows = 10_000,
    follow: Follow = False,
    deltas: Deltas = None,
    show: Show = None,
    output: Output = None,
    checkpoint: CheckpointAt = None,
    on: On = None,
    master: Master = None,
    buckets: Buckets = None,
    output_format: OutputAs = None,
    separator: Separator = None,
    on_error: ErrorsTo = None,
    ignore_extra: IgnoreExtra = False,
    prove: Prove = False,
    sample: Sample = None,
    reload: Reload = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Keep the views of APP current over its input, and show them.

    On a terminal the views are shown live, elsewhere progress is printed line by line; a summary follows at the end.

    Ctrl-C ends the run after the current epoch, with the summary, and a wait for the standard input at once; a second Ctrl-C ends the
    run at once.
    """
    inputs_by_source = texts_by_name("--input", "SOURCE=PATH", inputs or [])
    require_once(inputs_by_source)
    delta_paths = pairs("--deltas", "VIEW=PATH", deltas or [], STANDARD_OUTPUT)
    place = Place(on, master, buckets)
    _check_usage(bool(inputs_by_source), delta_paths, follow, place)
    _check_engine_only(place, {"--prove": prove, "--reload": reload}, sample)
    if output_format is not None and output is None:
        raise typer.BadParameter("goes with --output", param_hint="--output-format")
    separating = _character(separator)
    outputs = Outputs(
        show,
        delta_paths,
        output,
        output_format or OutputFormat.PARQUET,
        reloads=name if reload else None,
        quiet=quiet,
    )
    with (
        errors_as_sentences(debug),
        stoppable(0 if follow else 130) as stop,
        local_inputs(inputs_by_source, follow=follow) as paths,
    ):
        application = load(name)
        application.showing(show)
        if on_error is not None or follow:
            application.engine.use_bad_rows("fail" if on_error is OnError.STOP else "ledger")
        skips = application.engine.on_bad_rows == "ledger"
        reading = Reading(
            separating,
            ignore_extra,
            skips,
            follows_replaced=follow and checkpoint is None,
            refuses_replaced=follow and checkpoint is not None,
            leaves_out=follow and skips,
        )
        if prove:
            application.engine.retain_rows()
            application.engine.record_rows()
        require_apart(paths, delta_paths, outputs.contents_of(application))
        feed = feed_of(application, paths, batch_rows, follow, stop, reading)
        with driven(application, place, checkpoint) as driver:
            outputs.run(application, driver, feed, stop)
            if prove:
                print_proofs(application.name, application.engine.prove(sample))
        if stop.is_requested and not follow:
            raise typer.Exit(130)


app.command("timeline", cls=OneCommand)(draw_timeline)
app.add_typer(checkpoint_app, name="checkpoint")


@app.command(cls=OneCommand)
def explain(name: App, form: PlanFormat = Format.TEXT, debug: Debug = False) -> None:
    """Show the plan of APP: how its views are computed from its sources."""
    with errors_as_sentences(debug):
        typer.echo(load(name).engine.explain(format=form.value))


@app.command(cls=OneCommand)
def apps(debug: Debug = False) -> None:
    """List the bundled applications."""
    with errors_as_sentences(debug):
        table = Table.grid(padding=(0, 2))
        for name, description in bundled():
            table.add_row(Text(name, "bold"), Text(description))
        print_on(console_of(), table)


def _character(separator: str | None) -> str | None:
    if separator is None:
        return None
    character = "\t" if separator in ("tab", "\\t") else separator
    if len(character) != 1 or character in '"\r\n':
        raise typer.BadParameter(
            f"{separator!r} is not a character that can separate values", param_hint="--separator"
        )
    return character


def _check_usage(has_inputs: bool, delta_paths: dict[str, list[Path]], follow: bool, place: Place) -> None:
    if place.on is None and (place.master or place.buckets):
        raise typer.BadParameter("goes with --on", param_hint="--master" if place.master else "--buckets")
    if follow and not has_inputs:
        raise typer.BadParameter("needs an --input to follow", param_hint="--follow")
    for name, files in delta_paths.items():
        if len(files) > 1:
            raise typer.BadParameter(f"view {name!r} is given twice", param_hint="--deltas")
        if files[0] != STANDARD_OUTPUT:
            try:
                delta_form(files[0])
            except FileError as error:
                raise typer.BadParameter(str(error), param_hint="--deltas") from error


def _check_engine_only(place: Place, engine_options: dict[str, bool], sample: float | None) -> None:
    for option, is_given in engine_options.items():
        if is_given and place.on is not None:
            raise typer.BadParameter("goes with a run in this process, without --on", param_hint=option)
    if sample is not None and not engine_options["--prove"]:
        raise typer.BadParameter("goes with --prove", param_hint="--sample")
    if sample is not None and not 0 < sample <= 1:
        raise typer.BadParameter(f"{sample} is not a share of the keys, from 0 to 1", param_hint="--sample")
