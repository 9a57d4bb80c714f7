"""What a run shows, writes and prints, while it goes on and at its end."""

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
import typer
from rich.console import Console, RenderableType

from evercurrent.core.data.schema import DIFF, EPOCH

from ..connectors.delta_files import (
    STANDARD_OUTPUT,
    DeltaFile,
    contents_path,
    require_writable,
    write_contents,
)
from .applications import Application
from .drivers import Driver
from .feeds import Feed
from .guards import Stop
from .options import (
    OutputFormat,
)
from .refusals import Failures, refusals
from .reloading import Reloading
from .runs import Run
from .screens import LiveScreen, PlainScreen, Screen, Shown
from .summaries import summary


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a run: the view that it shows, the files of deltas and contents that it writes, and what it prints.

    ``reloads`` is the application whose changed code is taken over.
    """

    show: str | None
    delta_paths: Mapping[str, list[Path]]
    output: Path | None
    form: OutputFormat
    reloads: str | None
    quiet: bool

    def contents_of(self, application: Application) -> list[Path]:
        """Return the files of --output."""
        return list(self._contents(application.engine.views))

    def _contents(self, views: Iterable[str]) -> dict[Path, str]:
        """Return the files of --output, each with its view."""
        if self.output is None:
            return {}
        return {contents_path(self.output, name, self.form.value): name for name in views}

    def run(self, application: Application, driver: Driver, feed: Feed, stop: Stop) -> None:
        """Run the application over its input to the end, and print the summary, whatever has ended it."""
        views = application.engine.views
        for path, name in self._contents(views).items():
            require_writable(path, name, views[name].schema, self.form.value)
        shown, *beside = _shown(application, driver, self.show)
        console = console_of(
            self.quiet, stderr=any(STANDARD_OUTPUT in each for each in self.delta_paths.values())
        )
        with ExitStack() as open_files:
            files = {
                each: open_files.enter_context(_delta_file(application, each, targets[0]))
                for each, targets in self.delta_paths.items()
            }
            screen: Screen = (
                LiveScreen(console, shown, beside)
                if console.is_terminal and not self.quiet
                else PlainScreen(console, shown)
            )
            watched = None if self.reloads is None else Reloading(self.reloads, application)
            job = Run(application, driver, feed, screen, shown, files, stop, reloading=watched)
            written: list[Path] = []
            failures, since = open_files.enter_context(Failures()), driver.epoch_number
            try:
                job.go()
                open_files.close()
                written += [file.path for file in files.values()]
                written += self._write_contents(driver)
            finally:
                notes = [*job.notes, *feed.notes]
                unread = [*failures.lines, *feed.refused]
                if self.quiet:
                    typer.echo(
                        "".join(f"refused: {line}\n" for line in (*refusals(driver, since), *unread)),
                        err=True,
                        nl=False,
                    )
                refused = [*refusals(driver), *unread]
                print_on(console, summary(job.tally, driver, [shown, *beside], written, refused, notes))

    def _write_contents(self, driver: Driver) -> list[Path]:
        """Write the rows of all views, and return the files."""
        if self.output is None:
            return []
        views = driver.views.items()
        return [write_contents(self.output, each, view.read(), self.form.value) for each, view in views]


def _shown(application: Application, driver: Driver, show: str | None) -> list[Shown]:
    """Return the view that is shown, and those beside it."""
    names = (application.showing(show), *(application.beside if show is None else ()))
    return [
        Shown(name, partial(_read, driver, name), application.order.get(name, ()), application.bars.get(name))
        for name in names
    ]


def _read(driver: Driver, name: str) -> pl.DataFrame:
    """Return the rows of a view, which may have been replaced since the run began."""
    return driver.views[name].read() if name in driver.views else pl.DataFrame()


def console_of(quiet: bool = False, *, stderr: bool = False) -> Console:
    """Return the console; if it is not a terminal, it is wide enough for any table and path, unless COLUMNS is set."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() else 0
    plain = Console(
        quiet=quiet,
        stderr=stderr,
        width=width or None,
        _environ={k: v for k, v in os.environ.items() if k != "COLUMNS"},
    )
    return plain if plain.is_terminal or width else Console(width=240, quiet=quiet, stderr=stderr)


def print_on(console: Console, output: RenderableType) -> None:
    """Print something; if the console is not a terminal, without the spaces that fill up lines."""
    if console.is_terminal or console.quiet:
        console.print(output)
        return
    with console.capture() as captured:
        console.print(output)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=console.stderr)


def _delta_file(application: Application, view: str, path: Path) -> DeltaFile:
    columns = application.engine.views[application.showing(view)].schema
    return DeltaFile(path, pl.Schema({**columns, EPOCH: pl.UInt64(), DIFF: pl.Int64()}))
