"""The arguments and options of the commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OnError(StrEnum):
    """What happens at a row that cannot be read or taken."""

    LEDGER = "ledger"
    STOP = "stop"


class OutputFormat(StrEnum):
    """The formats of ``--output``."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"


class Format(StrEnum):
    """How a plan is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"


App = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="A Python file, the name of a bundled application (see [bold]evercurrent apps[/]) or an importable "
        "module. It declares [bold]engine[/]: an Engine, or a function without arguments that returns one.",
    ),
]

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SOURCE=PATH",
        help="Read a source from a file, or from all files of a folder in the order of their names: CSV, JSON lines, "
        "Parquet, Arrow IPC, a web server's .log, and .gz or .zst of text; [bold]-[/] is CSV or JSON lines from the standard "
        "input, and a URL that fsspec can open is read once. Can be repeated, for the same source too, with other files. The batches of several sources are "
        "interleaved: one of each in turn, one epoch per batch. By default, the application's own input is read.",
    ),
]

BatchRows = Annotated[
    int, typer.Option("--batch-rows", min=1, metavar="N", help="Rows of a batch, which is one epoch.")
]

Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Wait at the end of the input for new files, and new lines of CSV, JSON lines and logs, until Ctrl-C. A file of "
        "lines that was replaced or truncated is read from its beginning; with a checkpoint that ends the run.",
    ),
]

Deltas = Annotated[
    list[str] | None,
    typer.Option(
        "--deltas",
        metavar="VIEW=PATH",
        help="Write the deltas of a view, with _epoch and _diff, as .parquet, .arrow, .csv or .jsonl; [bold]-[/] writes JSON "
        "lines to the standard output, and all else to standard error. Can be repeated.",
    ),
]

CheckpointAt = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Keep all state in this folder (or at a URL that fsspec can open), epoch by epoch. A run that was stopped "
        "or killed goes on from there the next time, and skips the rows of the same input that it has taken. The end of the "
        "input closes all windows, unless [bold]--follow[/] is given.",
    ),
]

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="DRIVER",
        help="Run elsewhere: [bold]spark[/] runs the views as a Structured Streaming query, an epoch as a micro-batch. "
        "By default they run in this process.",
    ),
]

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="With --on: the cluster, as Spark's master; by default [bold]local\\[2][/], two cores of this machine.",
    ),
]

Buckets = Annotated[
    int | None,
    typer.Option(
        "--buckets",
        min=1,
        metavar="N",
        help="With --on: the number of buckets into which states are split; by default 16.",
    ),
]

Show = Annotated[
    str | None,
    typer.Option(
        "--show", metavar="VIEW", help="The view to show; by default, the one that the application chooses."
    ),
]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="DIR",
        help="Write the final contents of every view as DIR/VIEW.parquet, or in another [bold]--output-format[/].",
    ),
]

OutputAs = Annotated[
    OutputFormat | None,
    typer.Option("--output-format", help="The format of [bold]--output[/]; by default parquet."),
]

Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="CHAR",
        help="The separator of CSV in --input: a character, or [bold]tab[/]; by default a tab in .tsv, and else a comma.",
    ),
]

ErrorsTo = Annotated[
    OnError | None,
    typer.Option(
        "--on-error",
        help="A row that cannot be read or taken ends the run ([bold]stop[/]), or is left out and listed at the end "
        "([bold]ledger[/], the default with --follow). By default the engine of APP decides: Engine(on_bad_rows=...).",
    ),
]

IgnoreExtra = Annotated[
    bool,
    typer.Option("--ignore-extra", help="Leave out columns of files that a source does not declare."),
]

Prove = Annotated[
    bool,
    typer.Option(
        "--prove",
        help="Keep the rows of all sources, and at the end evaluate every view by polars over them in one batch: rows that differ "
        "are shown with the epoch from which on, and the exit code is 1.",
    ),
]

Sample = Annotated[
    float | None,
    typer.Option(
        "--sample", metavar="SHARE", help="Prove this share of the keys of each view, such as 0.01."
    ),
]

Reload = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="Take up the file of APP, between two epochs, whenever it is saved: views that compute the same keep their state. "
        "If it cannot be taken up, the reason is shown, and the views go on as they were.",
    ),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary, only errors.")]

PlanFormat = Annotated[Format, typer.Option("--format", help="As a table of text, or as a Mermaid diagram.")]

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
